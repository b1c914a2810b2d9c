"""A name, a folder or a hub id -> a Denoiser. The only file that knows every family.

Checkpoints are read in the hub's layout and never through remote code. Every tensor the network
needs must be there, in the right shape; what is missing is named.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remask.denoisers import a2d, dream, llada
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.native import Family, NativeDenoiser, Network, stacked
from remask.denoisers.tokenizer import Tokenizer, read_json
from remask.errors import CheckpointError, SettingsError

EMBEDDED = Path(__file__).parent / "embedded"
FAMILIES = {
    family.architecture: family
    for family in (
        llada.FAMILY,
        dream.FAMILY,
        a2d.FAMILY,
    )
}
# Diffusion models that this package cannot serve, by how their architecture begins, and why.
UNFIT = {"DiffusionGemma": "it has no mask token, its noise is random tokens"}
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def load(
    model: str | Path, *, device: str = "auto", dtype: str = "auto", compiled: bool = False
) -> Denoiser:
    """Return the denoiser called `model`: "tiny" (the embedded one), a folder, or a hub id.

    Args:
        model: name, folder or hub id.
        device: "auto" takes CUDA where there is one.
        dtype: "auto" is bfloat16 on CUDA and float32 elsewhere.
        compiled: compile the trunk; pays on CUDA when many batches of the same shape follow.
    """
    target = choose_device(device)
    folder = find_folder(str(model))
    config = read_json(folder / "config.json")
    family = _family(config, folder)
    tokenizer = Tokenizer.read(folder, config, family.template, ends=family.ends)
    network = _network(family, config, Shards(folder), target, choose_dtype(dtype, target))
    generation = folder / "generation_config.json"
    preset = Preset.read(read_json(generation)) if generation.exists() else Preset()
    if compiled:
        network.compile_blocks()
    return NativeDenoiser(name=str(model), model=network, tokenizer=tokenizer, preset=preset)


def choose_device(device: str) -> torch.device:
    """Return the device; "auto" is CUDA where there is one, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.split(":")[0] not in ("cpu", "cuda", "mps"):
        raise SettingsError(f"device {device!r} is unknown; use auto, cpu, cuda or mps.")
    try:
        target = torch.device(device)
    except RuntimeError:
        raise SettingsError(f"device {device!r} is unknown; use auto, cpu, cuda or mps.") from None
    if target.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"device {device!r} is not available here; use auto or cpu.")
    return target


def choose_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Return the dtype; "auto" is bfloat16 on CUDA and float32 elsewhere."""
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if dtype not in DTYPES:
        raise SettingsError(f"dtype {dtype!r} is unknown; use auto, {', '.join(DTYPES)}.")
    return DTYPES[dtype]


def find_folder(model: str) -> Path:
    """Return the checkpoint folder behind a name, a path or a hub id (downloaded if need be)."""
    if model == "tiny":
        if not (EMBEDDED / "config.json").exists():
            raise CheckpointError("this copy of remask has no embedded model; install a release.")
        return EMBEDDED
    if model and Path(model).is_dir():
        return Path(model)
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise CheckpointError(
            f"model {model!r} is neither 'tiny', nor a folder, nor a hub id such as "
            "GSAI-ML/LLaDA-8B-Instruct."
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, allow_patterns=["*.json", "*.safetensors", "*.txt"]))
    except Exception as error:  # network, permission and spelling all end here, as one sentence
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(f"{model} could not be fetched from the hub: {reason}") from None


def _family(config: dict[str, Any], folder: Path) -> Family:
    architecture = str((config.get("architectures") or ["missing"])[0])
    for start, reason in UNFIT.items():
        if architecture.startswith(start):
            raise CheckpointError(
                f"{folder / 'config.json'} declares the architecture {architecture!r}: {reason}, "
                "so nothing can be masked again; choose a masked diffusion model."
            )
    if architecture not in FAMILIES:
        raise CheckpointError(
            f"{folder / 'config.json'} declares the architecture {architecture!r}; "
            f"known are {', '.join(FAMILIES)}."
        )
    return FAMILIES[architecture]


def _network(
    family: Family,
    config: dict[str, Any],
    shards: "Shards",
    device: torch.device,
    dtype: torch.dtype,
) -> Network:
    """Return the family's network with the weights of a checkpoint."""
    with torch.device("meta"):
        network = family.build(config)
    network = network.to(dtype).to_empty(device=device)
    fill(stacked(network, family.tensor_map(network)), shards)
    return network.eval().requires_grad_(False)


@dataclass(frozen=True)
class Shards:
    """The safetensors files of a checkpoint folder: one, or several with an index."""

    folder: Path

    def files(self) -> list[Path]:
        """Return the files, or raise naming the first that is missing."""
        index = self.folder / "model.safetensors.index.json"
        if index.exists():
            listed = read_json(index).get("weight_map")
            if not isinstance(listed, dict) or not all(isinstance(n, str) for n in listed.values()):
                raise CheckpointError(
                    f"{index} has no weight_map of file names; download it again."
                )
            names = sorted(set(listed.values()))
        else:
            names = ["model.safetensors"]
        for name in names:
            if not (self.folder / name).exists():
                raise CheckpointError(f"{self.folder} lacks the weights {name}; download it again.")
        return [self.folder / name for name in names]

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor once, one file open at a time."""
        import safetensors

        for path in self.files():
            try:
                with safetensors.safe_open(path, framework="pt") as shard:
                    for name in shard.keys():  # noqa: SIM118 -- safe_open is not a mapping
                        yield name, shard.get_tensor(name)
            except safetensors.SafetensorError as error:
                raise CheckpointError(f"{path} is corrupt ({error}); download it again.") from None


def fill(places: dict[str, Tensor], shards: Shards) -> None:
    """Copy every tensor of a checkpoint to its place."""
    for hub, tensor in shards.tensors():
        place = places.pop(hub, None)
        if place is None:
            continue
        if place.shape != tensor.shape:
            raise CheckpointError(
                f"tensor {hub} has shape {tuple(tensor.shape)}, config.json asks for "
                f"{tuple(place.shape)}; the two files do not belong together."
            )
        place.copy_(tensor)
    if places:
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        raise CheckpointError(
            f"{shards.folder} lacks the tensor {min(places)}{more}; download the checkpoint again."
        )
