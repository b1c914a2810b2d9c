"""Read the weights of a checkpoint folder from safetensors files.

Names, shapes and dtypes are checked by the headers before any tensor is read. A tensor that the
network does not use is refused, because ignoring it would load another model than the one that was
trained. Exceptions: `SPARE`, for every family, and `Family.spare`.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import torch
from torch import Tensor

from remask.denoisers.quantise import Place
from remask.denoisers.tokenizer import is_pointer, pointer_sentence, read_json
from remask.errors import CheckpointError

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
# Unused tensors that are ignored, by the end of their names, and why.
SPARE: Mapping[str, str] = {
    ".rotary_emb.inv_freq": "rotary frequencies of older libraries, also given by config.json"
}
_FLOATS = ("F64", "F32", "F16", "BF16")
# Names that quantisers add.
_SCALES = (
    "SCB", "weight_format", "weight_scale", "weight_scale_inv", "weight_scale_2", "input_scale",
    "qweight", "qzeros", "scales", "g_idx", "absmax", "quant_map", "weight_packed", "weight_shape",
    "weight_zero_point", "bitsandbytes__nf4", "bitsandbytes__fp4",
)  # fmt: skip
_ADAPTER = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
_LORA = re.compile(r"(^|\.)(lora_[A-Za-z_]+|base_model)\.")
_LAYER = re.compile(r"\.(?:layers|blocks)\.(\d+)\.")
# Files of other formats.
_FOREIGN = {
    "*.gguf": "only safetensors are read, not GGUF",
    "pytorch_model*.bin*": "only safetensors are read, pickles could run code",
    "*.bin": "only safetensors are read, pickles could run code",
    "*.pt": "only safetensors are read, pickles could run code",
    "*.pth": "only safetensors are read, pickles could run code",
}


class TensorHeader(NamedTuple):
    """Shape and dtype of a stored tensor."""

    shape: tuple[int, ...]
    dtype: str  # F32, BF16, I8, ...


@dataclass(frozen=True)
class WeightFiles:
    """The safetensors files of a checkpoint folder: one, or several with an index."""

    folder: Path

    def files(self) -> list[Path]:
        """Return the files, or raise for one that is missing or outside the folder."""
        names = sorted(set(self._listed().values())) or [SINGLE]
        for name in names:
            self._check_place(name)
        return [self.folder / name for name in names]

    def headers(self) -> dict[str, TensorHeader]:
        """Return the header of every tensor."""
        headers: dict[str, TensorHeader] = {}
        home: dict[str, str] = {}
        for path in self.files():
            for name, entry in read_header(path).items():
                if name in home:
                    raise CheckpointError(
                        f"tensor {name} is in {home[name]} and in {path.name} of {self.folder}; "
                        "download the checkpoint again."
                    )
                headers[name], home[name] = entry, path.name
        for name, file in self._listed().items():
            if home.get(name) != file:
                raise CheckpointError(
                    f"{self.folder} lacks the tensor {name}, which {INDEX} lists in {file}; "
                    "download both again."
                )
        return headers

    def tensors(self, names: frozenset[str] | None = None) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor once, or only `names`, with one file open at a time."""
        for path in self.files():
            with _open(path) as shard:
                for name in shard.keys():  # noqa: SIM118 -- safe_open is not a mapping
                    if names is None or name in names:
                        yield name, shard.get_tensor(name)

    def _listed(self) -> dict[str, str]:
        """Return the file of each tensor; empty without an index."""
        index = self.folder / INDEX
        if not index.exists():
            return {}
        listed = read_json(index).get("weight_map")
        named = isinstance(listed, dict) and all(map(_is_name, listed.values()))
        if not named or not listed:
            raise CheckpointError(f"{index} has no weight_map of file names; download it again.")
        return dict(listed)

    def _check_place(self, name: str) -> None:
        path = self.folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise CheckpointError(
                f"{self.folder / INDEX} lists {name!r}, which is outside the folder; copy it into "
                "the folder."
            )
        if not os.path.exists(path):  # Path.exists raises for names that are too long
            raise CheckpointError(self._absence(name))
        if not path.is_file():
            raise CheckpointError(f"{path} must be a file; download the checkpoint again.")
        if not any(path.resolve().is_relative_to(home) for home in self._homes()):
            raise CheckpointError(
                f"{path} is a link to {path.resolve()}, outside the folder; copy the file into the "
                "folder."
            )

    def _homes(self) -> list[Path]:
        """Return the folders that may hold weights: this one, and the blobs of the hub's cache."""
        folder = self.folder.resolve()
        if folder.parent.name == "snapshots":
            return [folder, folder.parent.parent / "blobs"]
        return [folder]

    def _absence(self, name: str) -> str:
        other, reason = _foreign(self.folder)
        if name == SINGLE and other:
            return (
                f"{self.folder} lacks the weights {name} and has {other}: {reason}; "
                "convert the weights to safetensors."
            )
        if name == SINGLE and any(self.folder.glob("*.safetensors")):
            return (
                f"{self.folder} lacks the weights {name}, and {INDEX} to list other files; "
                "download it again."
            )
        return f"{self.folder} lacks the weights {name}; download it again."


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a safetensors file, or raise CheckpointError."""
    try:
        with safetensors.safe_open(path, framework="pt") as shard:
            yield shard
    except safetensors.SafetensorError as error:
        if is_pointer(path):
            raise CheckpointError(pointer_sentence(path)) from None
        raise CheckpointError(f"{path} is corrupt ({error}); download it again.") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error}).") from None


def read_header(path: Path) -> dict[str, TensorHeader]:
    """Return the header of each tensor of a safetensors file, which must have the right length."""
    with _open(path) as shard:
        slices = {name: shard.get_slice(name) for name in shard.keys()}  # noqa: SIM118
        return {
            name: TensorHeader(tuple(one.get_shape()), str(one.get_dtype()))
            for name, one in slices.items()
        }


def check_folder(folder: Path) -> None:
    """Raise if a folder holds an adapter, or another format than a checkpoint of the hub."""
    alone = not (folder / "config.json").exists()
    for name in _ADAPTER:
        if (folder / name).exists():
            what = "only an adapter" if alone else "an adapter, which would be ignored"
            raise CheckpointError(
                f"{folder} holds {what} ({name}); merge it into the weights of its base model."
            )
    other, reason = _foreign(folder)
    if alone and other:
        raise CheckpointError(
            f"{folder} has {other} and no config.json: {reason}; "
            "name a checkpoint in the hub's layout, with safetensors."
        )


def _foreign(folder: Path) -> tuple[str, str]:
    """Return a file of another format, and why it is not read; empty strings without one."""
    for pattern, reason in _FOREIGN.items():
        for path in sorted(folder.glob(pattern)):
            return path.name, reason
    return "", ""


def refuse_quantised(config: Mapping[str, Any]) -> None:
    """Raise if config.json describes quantised weights."""
    said = config.get("quantization_config") or config.get("compression_config")
    if said:
        method = said.get("quant_method") or said.get("format") if isinstance(said, Mapping) else ""
        raise CheckpointError(
            f"config.json has a quantization_config ({method or 'unnamed'}); use the checkpoint "
            "that is not quantised."
        )


def check_tensors(
    places: Mapping[str, Place], shards: WeightFiles, spare: Mapping[str, str] = SPARE
) -> None:
    """Raise for a tensor that is missing, unused, quantised, or has another shape.

    Args:
        places: destinations in the network by hub name.
        shards: the checkpoint.
        spare: unused tensors that are ignored, by the end of their names.
    """
    headers = shards.headers()
    _refuse_coded(headers, spare)
    unused = [
        name
        for name in sorted(headers.keys() - places.keys())
        if not name.endswith(tuple(spare)) and 0 not in headers[name].shape
    ]
    missing = sorted(places.keys() - headers.keys())
    if missing:
        raise CheckpointError(_lack(missing, unused, shards.folder))
    for hub, place in places.items():
        if headers[hub].shape != tuple(place.shape):
            raise CheckpointError(
                f"tensor {hub} must have shape {tuple(place.shape)} by config.json, got "
                f"{headers[hub].shape}; download both files again."
            )
    if unused:
        raise CheckpointError(_leftover(unused, places, shards.folder))


def check_head(shards: WeightFiles, head: str, embedding: str) -> None:
    """Raise if a head that config.json ties to the embedding is stored with other values."""
    names = frozenset((head, embedding))
    stored = dict(shards.tensors(names))
    if head in stored and not torch.equal(stored[head].float(), stored[embedding].float()):
        raise CheckpointError(
            f"config.json ties the head to the embedding, but {head} and {embedding} differ; "
            "correct tie_word_embeddings in config.json."
        )


def fill(networks: Sequence[Mapping[str, Place]], shards: WeightFiles) -> None:
    """Copy the tensors of a checked checkpoint into networks, given by destinations.

    Raises if a tensor is not finite. That is tested on the device and read once at the end, so that
    copies do not wait for each other.
    """
    names: list[str] = []
    finite: list[Tensor] = []
    for hub, tensor in shards.tensors():
        for places in networks:
            if hub in places:
                places[hub].copy_(tensor)
        if networks and hub in networks[0]:
            names.append(hub)
            finite.append(networks[0][hub].isfinite().all())
    for hub, fine in zip(names, finite, strict=True):
        if not fine:
            is_short = networks[0][hub].dtype == torch.float16
            where, remedy = (" in float16", ", or choose dtype bfloat16") if is_short else ("", "")
            raise CheckpointError(
                f"tensor {hub} holds NaN or infinity{where}; download the checkpoint again{remedy}."
            )


def _refuse_coded(headers: Mapping[str, TensorHeader], spare: Mapping[str, str]) -> None:
    """Raise for codes or scales of a quantiser."""
    scales = [name for name in headers if name.endswith(tuple(f".{end}" for end in _SCALES))]
    coded = [name for name, entry in headers.items() if entry.dtype not in _FLOATS]
    coded = [name for name in coded if not name.endswith(tuple(spare))]
    listed = sorted(coded) or sorted(scales)
    if listed:
        raise CheckpointError(
            f"tensor {listed[0]}{_more(listed)} is quantised ({headers[listed[0]].dtype}); use the "
            "checkpoint that is not quantised."
        )


def _lack(missing: Sequence[str], unused: Sequence[str], folder: Path) -> str:
    lacks = f"{folder} lacks the tensor {missing[0]}{_more(missing)}"
    if not unused:
        return f"{lacks}; download the checkpoint again."
    if _LORA.search(unused[0]):
        return f"{lacks}, and holds {unused[0]} of an adapter; merge it into the weights first."
    return (
        f"{lacks}, and holds {unused[0]}{_more(unused)} instead; config.json describes another "
        "model, or the tensors were renamed."
    )


def _leftover(names: Sequence[str], places: Mapping[str, Place], folder: Path) -> str:
    first = names[0]
    if _LORA.search(first):
        return (
            f"{folder} holds the tensor {first}{_more(names)} of an adapter; "
            "merge it into the weights first."
        )
    layers = {int(match[1]) for name in places if (match := _LAYER.search(name))}
    layer = _LAYER.search(first)
    if layer and int(layer[1]) not in layers:
        return (
            f"{folder} holds the tensor {first}{_more(names)}, and config.json has "
            f"{len(layers)} layers; download both files again."
        )
    return (
        f"{folder} holds the tensor {first}{_more(names)}, which the network does not use; "
        "config.json describes another model."
    )


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
