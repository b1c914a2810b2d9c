"""Facts about this installation and the models it can load: for `doctor` and `models`.

The memory a model needs is its weights, known to the byte before anything is loaded, and a
workspace that depends on how much is computed, and kept, at once. The workspace is an estimate: it
counts the largest tensors that live at the same time, and is meant to tell what fits from what does
not.
"""

import platform
import re
from dataclasses import asdict, dataclass
from importlib import metadata
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remask.denoisers import catalog, presets
from remask.denoisers.load import (
    EMBEDDED,
    choose_device,
    choose_dtype,
    find_config,
    free_memory,
    num_bytes,
    outline,
    several,
    smaller,
)
from remask.denoisers.published import Checkpoint, Published
from remask.denoisers.resampling import resampling
from remask.denoisers.tokenizer import read_json
from remask.denoisers.weights import Shards
from remask.errors import SettingsError
from remask.sampling.batches import column_budget, token_budget
from remask.sampling.loop import HEAD_ELEMENTS

if TYPE_CHECKING:
    import torch

ONE_ANSWER = 4 * 1024  # tokens: four round trips of one long answer
# Numbers that a token occupies in a layer, in widths: attention and a dense MLP; one expert.
_DENSE, _EXPERT = 20, 8
_WATCHED = (
    "torch", "numpy", "tokenizers", "safetensors", "huggingface_hub", "rapidfuzz", "pyarrow",
    "sentence-transformers", "transformers",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Size:
    """What decides how much memory a model takes."""

    num_parameters: int
    num_bytes: int  # of the weights, in the dtype they would be loaded in
    width: int
    vocab_size: int
    experts_per_token: int
    num_kept: int  # numbers that a column leaves behind, where it is kept

    def workspace(self, num_tokens: int, num_columns: int, itemsize: int) -> int:
        """Return about how many bytes a batch takes beside the weights.

        Args:
            num_tokens: computed at once.
            num_columns: in the batch; they matter where they are kept.
            itemsize: of the dtype, in bytes.
        """
        # Logits are float32; in a shorter dtype the head's own output lives beside them.
        num_logits = min(num_tokens * self.vocab_size, HEAD_ELEMENTS)
        logits = num_logits * (4 if itemsize == 4 else 4 + itemsize)
        hidden = num_tokens * self.width * (_DENSE + _EXPERT * self.experts_per_token)
        return logits + (hidden + num_columns * self.num_kept) * itemsize

    def one_answer(self, itemsize: int) -> int:
        """Return about how many bytes it takes to verify one answer, the weights included."""
        return self.num_bytes + self.workspace(ONE_ANSWER, ONE_ANSWER, itemsize)


def models() -> list[dict[str, Any]]:
    """Return every model known by name, with its family, size and memory in bfloat16."""
    return [_embedded(), *(_listed(checkpoint) for checkpoint in catalog.CHECKPOINTS)]


def model(name: str) -> dict[str, Any]:
    """Return what is known of one published model, with the presets of its authors."""
    checkpoint = catalog.find(name)
    if checkpoint is None:
        raise SettingsError(
            f"model {name!r} is not in the catalogue; remask models lists the ids that are."
        )
    shown = [_both_ways(checkpoint, published) for published in checkpoint.presets]
    further = asdict(resampling(checkpoint.architecture))
    return {**_listed(checkpoint), "resampling": further, "presets": shown}


def _both_ways(checkpoint: Checkpoint, published: Published) -> dict[str, Any]:
    """Return a preset under its authors' names, under ours, and what of it is unmet."""
    found = presets.translate(checkpoint, published)
    ours = asdict(found.preset)
    # The threshold of the score and departures by task are no part of how others sample.
    idle = {"threshold", "tasks", "schedule"}
    if ours["temperature"] > 0:
        idle.add("resample_temperature")  # every sample is drawn at the temperature
    if ours["edit_threshold"] is None:
        idle.add("post_steps")  # nothing is edited
    if ours["sub_block"] is None:
        idle.add("sub_block")  # blocks are written whole
    kept = {name: value for name, value in ours.items() if name not in idle}
    return {**asdict(published), "ours": kept, "unmet": dict(found.unmet)}


def _listed(checkpoint: Checkpoint) -> dict[str, Any]:
    size = _catalogued(checkpoint, itemsize=2)
    return {
        "model": checkpoint.id,
        "family": checkpoint.family,
        "architecture": checkpoint.architecture,
        "parameters": checkpoint.num_parameters,
        "context": checkpoint.context,
        "licence": checkpoint.licence,
        "bfloat16_gb": _gigabytes(size.num_bytes),
        "memory_gb": _gigabytes(size.one_answer(2)),
        "presets": len(checkpoint.presets),
    }


def _embedded() -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": "tiny", "family": "LLaDA", "architecture": "LLaDAModelLM", "parameters": None,
        "context": None, "licence": "Apache-2.0", "bfloat16_gb": None, "memory_gb": None,
        "presets": 0,
    }  # fmt: skip
    if embedded_parameters() is None:
        return row
    size, context = _outlined(EMBEDDED, "bfloat16")
    return row | {
        "parameters": size.num_parameters,
        "context": context,
        "bfloat16_gb": _gigabytes(size.num_bytes, 3),
        "memory_gb": _gigabytes(size.one_answer(2), 3),
    }


def embedded_parameters() -> int | None:
    """Return the size of the embedded model; None where the package came without its weights."""
    if not (EMBEDDED / "config.json").exists():
        return None
    return sum(map(prod, Shards(EMBEDDED).shapes().values()))


def estimate(name: str) -> dict[str, Any]:
    """Return the memory a model would take here, before it is loaded, and whether it fits."""
    device = choose_device("auto")
    dtype = choose_dtype("auto", device)
    checkpoint = None if Path(name).is_dir() else catalog.find(name)
    if checkpoint is None:
        size = _outlined(find_config(name).parent, str(dtype).removeprefix("torch."))[0]
    else:
        size = _catalogued(checkpoint, dtype.itemsize)
    free = free_memory(device)
    most = token_budget(device)
    small = size.workspace(min(ONE_ANSWER, most), ONE_ANSWER, dtype.itemsize)
    full = size.workspace(most, column_budget(device), dtype.itemsize)
    over = several(size.num_bytes, device, small)
    fits, advice = _verdict(size.num_bytes, small, full, free, dtype, over)
    return {
        "model": name,
        "known_from": "config.json" if checkpoint is None else "the catalogue",
        "parameters": size.num_parameters,
        "device": str(device),
        "dtype": str(dtype).removeprefix("torch."),
        "weights_gb": _gigabytes(size.num_bytes, 3),
        "workspace_gb": _gigabytes(small, 3),
        "full_batch_workspace_gb": _gigabytes(full, 3),
        "free_gb": _gigabytes(free),
        "fits": fits,
        "advice": advice,
    }


def _verdict(
    weights: int, small: int, full: int, free: int | None, dtype: "torch.dtype", over: str
) -> tuple[str, str | None]:
    """Return yes, small batches, over several devices, no or unknown, and what to do about it."""
    if free is None:
        return "unknown", "this system does not say how much memory is free"
    if weights + full <= free:
        return "yes", None
    if weights + small <= free:
        return "small batches", "score few answers at a time (--batch)"
    fits = "over several devices" if over else "no"
    return fits, smaller(weights, free - small, dtype, over)


def _catalogued(checkpoint: Checkpoint, itemsize: int) -> Size:
    return Size(
        num_parameters=checkpoint.num_parameters,
        num_bytes=checkpoint.num_bytes(itemsize),
        width=checkpoint.width,
        vocab_size=checkpoint.vocab_size,
        experts_per_token=checkpoint.experts_per_token,
        num_kept=checkpoint.num_kept,
    )


def _outlined(folder: Path, dtype: str) -> tuple[Size, int]:
    """Return the size of the network a config.json describes, and its context."""
    config = read_json(folder / "config.json")
    network = outline(config, folder).to(choose_dtype(dtype, choose_device("cpu")))
    size = Size(
        num_parameters=sum(parameter.numel() for parameter in network.parameters()),
        num_bytes=num_bytes(network),
        width=network.embedding.embedding_dim,
        vocab_size=network.vocab_size,
        experts_per_token=int(config.get("num_experts_per_tok") or 0),
        num_kept=network.num_kept,
    )
    return size, network.max_length


def examine() -> dict[str, Any]:
    """Return what is installed, where models would run, and what to do about what is missing."""
    import torch

    device = choose_device("auto")
    cuda = device.type == "cuda"
    return {
        "remask": metadata.version("remask"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _WATCHED},
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "dtype": str(choose_dtype("auto", device)).removeprefix("torch."),
        "cpu_threads": torch.get_num_threads(),
        "free_memory_gb": _gigabytes(free_memory(torch.device("cpu"))),
        "free_gpu_memory_gb": _gigabytes(free_memory(device)) if cuda else None,
        "embedded_model": embedded_parameters() is not None,
        "extras": extras(metadata.requires("remask") or []),
    }


def extras(requirements: list[str]) -> dict[str, dict[str, Any]]:
    """Return for each extra the packages that are missing and the line that installs them."""
    wanted: dict[str, list[str]] = {}
    for line in requirements:
        found = re.match(r"([\w.-]+)[^;]*;.*extra == ['\"]([\w-]+)['\"]", line)
        if found and found[1] != "remask":  # an extra made of others has no package of its own
            wanted.setdefault(found[2], []).append(found[1])
    out = {}
    for extra, packages in wanted.items():
        missing = [name for name in packages if _version(name) is None]
        install = f"pip install 'remask[{extra}]'" if missing else None
        out[extra] = {"missing": missing, "install": install}
    return out


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gigabytes(size: int | None, digits: int = 1) -> float | None:
    return None if size is None else round(size / 1e9, digits)
