"""Facts about this installation and published models that need no torch: `models` answers at once.

The memory a model needs is its weights, known to the byte before anything is loaded, and a
workspace that depends on how much is computed, and kept, at once. The workspace is an estimate: it
counts the largest tensors that live at the same time, and is meant to tell what fits from what does
not. What fits on the devices of this machine is `doctor`'s.
"""

import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from remask.denoisers import catalog
from remask.denoisers.catalog import Checkpoint, PublishedPreset
from remask.errors import SettingsError
from remask.sampling.settings import HEAD_ELEMENTS

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
    packed: Mapping[str, int] = field(default_factory=dict)  # bytes of the weights, by format

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
    checkpoint = catalog.TINY if name.lower() == catalog.TINY.id else catalog.find(name)
    if checkpoint is None:
        remedy = catalog.suggestion(name) or " remask models lists them."
        raise SettingsError(f"Unknown model {name!r}.{remedy}")
    shown = [_preset(published) for published in checkpoint.presets]
    further = catalog.resampling(checkpoint.architecture)
    is_embedded = checkpoint is catalog.TINY and has_embedded()
    row = _embedded() if is_embedded else _listed(checkpoint)
    return {**row, "resampling": further, "presets": shown}


def _preset(published: PublishedPreset) -> dict[str, Any]:
    """Return a published preset with the settings that affect sampling."""
    row = asdict(published)
    settings = row.pop("preset")
    unused = {"threshold", "tasks", "schedule", "named"}
    unused |= {name for name in ("sub_block", "commit_gap") if settings[name] is None}
    if settings["temperature"] > 0:
        unused.add("resample_temperature")
    if settings["edit_threshold"] is None:
        unused.add("post_steps")
    return {**row, "settings": {k: v for k, v in settings.items() if k not in unused}}


def _listed(checkpoint: Checkpoint) -> dict[str, Any]:
    size = catalogued(checkpoint, itemsize=2)
    return {
        "model": checkpoint.id,
        "family": checkpoint.family,
        "architecture": checkpoint.architecture,
        "parameters": checkpoint.num_parameters,
        "context": checkpoint.context,
        "licence": checkpoint.licence,
        "bfloat16_gb": gigabytes(size.num_bytes),
        "memory_gb": gigabytes(size.one_answer(2)),
        "presets": len(checkpoint.presets),
    }


def _embedded() -> dict[str, Any]:
    """Return the row of the embedded model; without sizes where the package came without it."""
    row = _listed(catalog.TINY)
    size = catalogued(catalog.TINY, itemsize=2)
    sizes = {"bfloat16_gb": gigabytes(size.num_bytes, 3)}
    sizes |= {"memory_gb": gigabytes(size.one_answer(2), 3)}
    if has_embedded():
        return row | sizes
    return row | dict.fromkeys(("parameters", "context", *sizes))


def has_embedded() -> bool:
    """Say whether the package came with its model."""
    return (Path(catalog.__file__).parent / "embedded" / "config.json").exists()


def installed() -> dict[str, Any]:
    """Return what is installed, and what to do about what is missing: nothing of a device."""
    return {
        "remask": metadata.version("remask"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _WATCHED},
        "embedded_model": has_embedded(),
        "extras": extras(metadata.requires("remask") or []),
    }


def catalogued(checkpoint: Checkpoint, itemsize: int) -> Size:
    return Size(
        num_parameters=checkpoint.num_parameters,
        num_bytes=checkpoint.num_bytes(itemsize),
        width=checkpoint.width,
        vocab_size=checkpoint.vocab_size,
        experts_per_token=checkpoint.experts_per_token,
        num_kept=checkpoint.num_kept,
        packed=checkpoint.packed_bytes(itemsize),
    )


def extras(requirements: list[str]) -> dict[str, dict[str, Any]]:
    """Return for each extra the packages that are missing and the line that installs them."""
    wanted: dict[str, list[str]] = {}
    for line in requirements:
        match = re.match(r"([\w.-]+)[^;]*;.*extra == ['\"]([\w-]+)['\"]", line)
        if match and match[1] != "remask":  # an extra made of others has no package of its own
            wanted.setdefault(match[2], []).append(match[1])
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


def gigabytes(size: int | None, digits: int = 1) -> float | None:
    return None if size is None else round(size / 1e9, digits)
