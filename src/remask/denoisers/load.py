"""A name, a folder or a hub id -> a Denoiser. The only file that knows every family.

Checkpoints are read in the hub's layout and never through remote code. What can go wrong is found
out before minutes of reading: the sizes of the files, the names and shapes of all tensors and the
memory they need are checked from the headers alone. Then weights are copied tensor by tensor to the
device, or to each of several, so the host never holds more than the shard that is open.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remask.denoisers import a2d, dream, illada, llada, llada2, llada_moe, presets
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.native import Family, NativeDenoiser, Network, stacked
from remask.denoisers.replicas import Replicas
from remask.denoisers.tokenizer import Tokenizer, read_json
from remask.errors import CheckpointError, SettingsError

EMBEDDED = Path(__file__).parent / "embedded"
FAMILIES = {
    family.architecture: family
    for family in (
        llada.FAMILY,
        dream.FAMILY,
        a2d.FAMILY,
        llada_moe.FAMILY,
        llada2.FAMILY,
        illada.FAMILY,
    )
}
# By architecture: keys that config.json lacks and nothing else of the checkpoint says, and tokens
# of a template that was inferred, without which it would be wrong.
UNSAID = {illada.ARCHITECTURE: {"mask_token_id": illada.MASK_ID}}
INFERRED = {illada.ARCHITECTURE: (illada.BEGIN, illada.END)}
# Diffusion models that this package cannot serve, by how their architecture begins, and why.
UNFIT = {"DiffusionGemma": "it has no mask token, its noise is random tokens"}
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def load(
    model: str | Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    compiled: bool = False,
    preset: str = "",
) -> Denoiser:
    """Return the denoiser called `model`: "tiny" (the embedded one), a folder, or a hub id.

    Args:
        model: name, folder or hub id.
        device: "auto" takes CUDA where there is one. Several, as in "cuda:0,cuda:1", or "all" of
            CUDA: a replica on each, among which batches are spread.
        dtype: "auto" is bfloat16 on CUDA and float32 elsewhere.
        compiled: compile the trunk; pays on CUDA when many batches of the same shape follow.
        preset: sample as the authors do for this task (see `presets.official`); without one, as the
            checkpoint's own files say, and where they say nothing, as `presets.start` does.
    """
    wanted = presets.preset(str(model), preset) if preset else None
    targets = choose_devices(device)
    precision = choose_dtype(dtype, targets[0])
    folder = find_folder(str(model))
    config = read_json(folder / "config.json")
    family = _family(config, folder)
    tokenizer = _tokenizer(folder, config, family)
    networks = [outline(config, folder).to(precision) for _ in targets]
    how = find_preset(str(model), folder, wanted)
    if networks[0].block_size is not None:  # no other blocks can be written
        how = replace(how, block=networks[0].block_size)
    _place(networks, targets, family, Shards(folder), name=str(model))
    if compiled:
        for network in networks:
            network.compile_blocks()
    loaded = [
        NativeDenoiser(name=str(model), model=network, tokenizer=tokenizer, preset=how)
        for network in networks
    ]
    return loaded[0] if len(loaded) == 1 else Replicas(loaded[0], others=tuple(loaded[1:]))


def _tokenizer(folder: Path, config: dict[str, Any], family: Family) -> Tokenizer:
    told = {**UNSAID.get(family.architecture, {}), **config}
    tokenizer = Tokenizer.read(folder, told, family.template, ends=family.ends)
    for token in INFERRED.get(family.architecture, ()):
        if tokenizer.backend.token_to_id(token) is None:
            raise CheckpointError(
                f"the tokenizer of {folder} has no {token}, of which the chat template of "
                f"{family.architecture} was thought to be made; correct the template in its file."
            )
    return tokenizer


def find_preset(model: str, folder: Path, wanted: Preset | None = None) -> Preset:
    """Return how to sample: as asked, as the files say, as published, or the default."""
    path = folder / "generation_config.json"
    usual = presets.usual(_family(read_json(folder / "config.json"), folder).architecture)
    own = Preset.read(read_json(path), usual) if path.exists() else usual
    if wanted is not None:
        return presets.merged(own, wanted)
    return own if own != usual else presets.start(model) or own


def _place(
    networks: Sequence[Network],
    targets: Sequence[torch.device],
    family: Family,
    shards: "Shards",
    *,
    name: str,
) -> None:
    """Move outlined networks to their devices and fill them, once everything has been checked."""
    check_tensors(stacked(networks[0], family.tensor_map(networks[0])), shards)
    for target, num in Counter(targets).items():
        check_memory(name, networks[0], target, num)
    for network, target in zip(networks, targets, strict=True):
        network.to_empty(device=target)
    fill([stacked(network, family.tensor_map(network)) for network in networks], shards)
    for network in networks:
        network.eval().requires_grad_(False)


def choose_devices(devices: str) -> list[torch.device]:
    """Return the devices of a comma-separated list, or "all" CUDA devices; all of one kind."""
    if devices == "all":
        if not torch.cuda.is_available():
            raise SettingsError("device 'all' means every CUDA device and there is none; use cpu.")
        devices = ",".join(f"cuda:{i}" for i in range(torch.cuda.device_count()))
    found = [choose_device(device.strip()) for device in devices.split(",")]
    if len({device.type for device in found}) > 1:
        raise SettingsError(f"device {devices!r} mixes kinds; replicas must all be of one.")
    return found


def choose_device(device: str) -> torch.device:
    """Return the device; "auto" is CUDA where there is one, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    unknown = f"device {device!r} is unknown; use auto, cpu, cuda or mps."
    if device.split(":")[0] not in ("cpu", "cuda", "mps"):
        raise SettingsError(unknown)
    try:
        target = torch.device(device)
    except RuntimeError:
        raise SettingsError(unknown) from None
    num_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if target.type == "cuda" and (target.index or 0) >= num_cuda:
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
    return _find(model, ["*.json", "*.safetensors", "*.txt"])


def find_config(model: str) -> Path:
    """Return the config.json behind a name, a path or a hub id; weights are not downloaded."""
    return _find(model, ["config.json"]) / "config.json"


def _find(model: str, patterns: list[str]) -> Path:
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
        return Path(snapshot_download(model, allow_patterns=patterns))
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


def outline(config: dict[str, Any], folder: Path) -> Network:
    """Return the network that config.json describes, without weights, on the meta device."""
    with torch.device("meta"):
        return _family(config, folder).build(config)


def num_bytes(network: Network) -> int:
    """Return the bytes of all weights, whether they are there yet or not."""
    return sum(tensor.nbytes for tensor in (*network.parameters(), *network.buffers()))


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that can still be allocated there; None where the system does not say."""
    if device.type == "cuda":
        # What torch holds in reserve counts as taken on the device, but is ours to use.
        gpu = device.index  # None: the current one
        reserve = torch.cuda.memory_reserved(gpu) - torch.cuda.memory_allocated(gpu)
        return int(torch.cuda.mem_get_info(gpu)[0] + reserve)
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
        return int(found[1]) * 1024 if found else None
    except OSError:  # not Linux
        pages = os.sysconf_names.get("SC_AVPHYS_PAGES")
        return None if pages is None else os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


def check_memory(name: str, network: Network, device: torch.device, num: int = 1) -> None:
    """Raise where the weights of an outlined network do not fit on the device, `num` times."""
    needed, free = num * num_bytes(network), free_memory(device)
    if free is None or needed <= free:
        return
    dtype = network.embedding.weight.dtype
    each = "its weights" if num == 1 else f"the weights of {num} replicas"
    raise SettingsError(
        f"{name} needs {needed / 1e9:.1f} GB for {each} in {str(dtype)[6:]} and {device} has "
        f"{free / 1e9:.1f} GB free; {smaller(needed, free, dtype)}."
    )


def smaller(needed: int, free: int, dtype: torch.dtype) -> str:
    """Return what to do about weights that do not fit."""
    if dtype == torch.float32 and needed / 2 <= free:
        return f"choose dtype bfloat16, which needs {needed / 2e9:.1f} GB"
    return "choose another device or a smaller model (remask models lists sizes)"


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

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every tensor; only the headers of the files are read."""
        return {name: shape for path in self.files() for name, shape in read_shapes(path).items()}

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


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes in a safetensors header, or raise where the file is not as long as it says.

    The file begins with the length of the header in 8 bytes; the header is JSON that gives each
    tensor's shape and its place among the bytes that follow.
    """
    size = path.stat().st_size
    try:
        with open(path, "rb") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(start - 8) if start <= size else b"")
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        shapes = {name: tuple(map(int, entry["shape"])) for name, entry in entries.items()}
        ends = [int(entry["data_offsets"][1]) for entry in entries.values()]
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise CheckpointError(
            f"{path} is corrupt: its {size:,} bytes do not begin with a safetensors header; "
            "download it again."
        ) from None
    wanted = start + max(ends, default=0)
    if size != wanted:
        raise CheckpointError(
            f"{path} is corrupt: it has {size:,} bytes, its header asks for {wanted:,}; "
            "download it again."
        )
    return shapes


def check_tensors(places: Mapping[str, Tensor], shards: Shards) -> None:
    """Raise where a checkpoint lacks a tensor or has it in another shape than its place."""
    shapes = shards.shapes()
    missing = sorted(places.keys() - shapes.keys())
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CheckpointError(
            f"{shards.folder} lacks the tensor {missing[0]}{more}; download the checkpoint again."
        )
    for hub, place in places.items():
        if shapes[hub] != tuple(place.shape):
            raise CheckpointError(
                f"tensor {hub} has shape {shapes[hub]}, config.json asks for "
                f"{tuple(place.shape)}; the two files do not belong together."
            )


def fill(networks: Sequence[Mapping[str, Tensor]], shards: Shards) -> None:
    """Copy every tensor of a checkpoint that has been checked to its place in each network."""
    for hub, tensor in shards.tensors():
        for places in networks:
            if hub in places:
                places[hub].copy_(tensor)
