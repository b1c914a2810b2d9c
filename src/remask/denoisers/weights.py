"""The weights of a checkpoint folder: safetensors, checked from their headers before any is read.

What no part of the network takes is refused by name, and so is what is not stored as plain floats:
quantised weights, layers beyond those of config.json, a bias the network does not have. To leave
such a tensor aside would be to load another model than the one that was trained. `SPARE` lists the
exceptions that every family shares; those of one family stand in its file.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remask.denoisers.quantise import Place
from remask.denoisers.tokenizer import is_pointer, pointer_sentence, read_json
from remask.errors import CheckpointError

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
# Tensors that may be left aside, by how they end, and why.
SPARE: Mapping[str, str] = {
    ".rotary_emb.inv_freq": "older libraries saved the rotary frequencies, which config.json gives"
}
_FLOATS = ("F64", "F32", "F16", "BF16")
# What quantisers leave beside the weights, by how the name ends.
_SCALES = (
    "SCB", "weight_format", "weight_scale", "weight_scale_inv", "weight_scale_2", "input_scale",
    "qweight", "qzeros", "scales", "g_idx", "absmax", "quant_map", "weight_packed", "weight_shape",
    "weight_zero_point", "bitsandbytes__nf4", "bitsandbytes__fp4",
)  # fmt: skip
_ADAPTER = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
_LORA = re.compile(r"(^|\.)(lora_[A-Za-z_]+|base_model)\.")
_LAYER = re.compile(r"\.(?:layers|blocks)\.(\d+)\.")
# Weights of other kinds, by what their files are called.
_FOREIGN = {
    "*.gguf": "only safetensors are read, not GGUF",
    "pytorch_model*.bin*": "only safetensors are read, pickles could run code",
    "*.bin": "only safetensors are read, pickles could run code",
    "*.pt": "only safetensors are read, pickles could run code",
    "*.pth": "only safetensors are read, pickles could run code",
}


class TensorHeader(NamedTuple):
    """What a header says of a tensor."""

    shape: tuple[int, ...]
    dtype: str  # as safetensors spells it: F32, BF16, I8


@dataclass(frozen=True)
class WeightFiles:
    """The safetensors files of a checkpoint folder: one, or several with an index."""

    folder: Path

    def files(self) -> list[Path]:
        """Return the files, or raise naming the first that is missing or lies elsewhere."""
        names = sorted(set(self._listed().values())) or [SINGLE]
        for name in names:
            self._check_place(name)
        return [self.folder / name for name in names]

    def headers(self) -> dict[str, TensorHeader]:
        """Return what is said of every tensor; only the headers of the files are read."""
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
                    f"{self.folder} lacks the tensor {name}; by {INDEX} it is in {file}, "
                    "and it is not, so download both again."
                )
        return headers

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every tensor; only the headers of the files are read."""
        return {name: entry.shape for name, entry in self.headers().items()}

    def tensors(self, names: frozenset[str] | None = None) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor once, or those of `names`, one file open at a time."""
        import safetensors

        for path in self.files():
            try:
                with safetensors.safe_open(path, framework="pt") as shard:
                    for name in shard.keys():  # noqa: SIM118 -- safe_open is not a mapping
                        if names is None or name in names:
                            yield name, shard.get_tensor(name)
            except safetensors.SafetensorError as error:
                raise CheckpointError(f"{path} is corrupt ({error}); download it again.") from None

    def _listed(self) -> dict[str, str]:
        """Return the file of each tensor by the index; empty where there is none."""
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
                f"{self.folder / INDEX} names the file {name!r}, which lies outside the folder; "
                "weights are read from the folder alone."
            )
        if not os.path.exists(path):  # which asks a name that cannot be too
            raise CheckpointError(self._absence(name))
        if not path.is_file():
            raise CheckpointError(f"{path} is no file; download the checkpoint again.")
        if not any(path.resolve().is_relative_to(home) for home in self._homes()):
            raise CheckpointError(
                f"{path} is a link to {path.resolve()}, outside the folder; "
                "put the file itself there."
            )

    def _homes(self) -> list[Path]:
        """Return the folders that weights may lie in: the hub's cache keeps them beside ours."""
        folder = self.folder.resolve()
        if folder.parent.name == "snapshots":
            return [folder, folder.parent.parent / "blobs"]
        return [folder]

    def _absence(self, name: str) -> str:
        """Return the sentence about a missing file: what lies there instead, if anything."""
        other, reason = _foreign(self.folder)
        if name == SINGLE and other:
            return (
                f"{self.folder} lacks the weights {name} and has {other}: {reason}; "
                "convert the weights to safetensors."
            )
        if name == SINGLE and any(self.folder.glob("*.safetensors")):
            return (
                f"{self.folder} lacks the weights {name}, and {INDEX} that would name others; "
                "download it again."
            )
        return f"{self.folder} lacks the weights {name}; download it again."


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def read_header(path: Path) -> dict[str, TensorHeader]:
    """Return what a safetensors header says, or raise where the file is not as long as it says.

    The file begins with the length of the header in 8 bytes; the header is JSON that gives each
    tensor's dtype, shape and place among the bytes that follow.
    """
    try:
        size = path.stat().st_size
        if is_pointer(path):
            raise CheckpointError(pointer_sentence(path))
        with open(path, "rb") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(start - 8) if start <= size else b"")
        listed = {name: entry for name, entry in header.items() if name != "__metadata__"}
        headers = {
            name: TensorHeader(tuple(map(int, entry["shape"])), str(entry["dtype"]))
            for name, entry in listed.items()
        }
        ends = [int(entry["data_offsets"][1]) for entry in listed.values()]
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}).") from None
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
    return headers


def check_folder(folder: Path) -> None:
    """Raise where a folder holds something else than a checkpoint, or an adapter beside it."""
    alone = not (folder / "config.json").exists()
    for name in _ADAPTER:
        if (folder / name).exists():
            what = "an adapter alone" if alone else "an adapter that would be left aside"
            raise CheckpointError(
                f"{folder} holds {what}, {name}; merge it into the weights of its base model."
            )
    other, reason = _foreign(folder)
    if alone and other:
        raise CheckpointError(
            f"{folder} has {other} and no config.json: {reason}; "
            "name a checkpoint in the hub's layout, with safetensors."
        )


def _foreign(folder: Path) -> tuple[str, str]:
    """Return a file of weights that are not read, and why; empty where there is none."""
    for pattern, reason in _FOREIGN.items():
        for path in sorted(folder.glob(pattern)):
            return path.name, reason
    return "", ""


def refuse_quantised(config: Mapping[str, Any]) -> None:
    """Raise where config.json says that the weights are not plain numbers."""
    said = config.get("quantization_config") or config.get("compression_config")
    if said:
        method = said.get("quant_method") or said.get("format") if isinstance(said, Mapping) else 0
        raise CheckpointError(
            f"config.json has a quantization_config ({method or 'of no name'}); quantised weights "
            "are not read: name the checkpoint that was not quantised."
        )


def check_tensors(
    places: Mapping[str, Place], shards: WeightFiles, spare: Mapping[str, str] = SPARE
) -> None:
    """Raise where a checkpoint lacks a tensor, has it in another form, or has one too many.

    Args:
        places: of each tensor inside the network, by hub name.
        shards: the checkpoint.
        spare: tensors that may be left aside, by how they end.
    """
    headers = shards.headers()
    _refuse_coded(headers, spare)
    extra = sorted(headers.keys() - places.keys())
    ends = tuple(spare)
    left = [n for n in extra if not n.endswith(ends) and 0 not in headers[n].shape]
    missing = sorted(places.keys() - headers.keys())
    if missing:
        raise CheckpointError(_lack(missing, left, shards.folder))
    for hub, place in places.items():
        if headers[hub].shape != tuple(place.shape):
            raise CheckpointError(
                f"tensor {hub} has shape {headers[hub].shape}, config.json asks for "
                f"{tuple(place.shape)}; the two files do not belong together."
            )
    if left:
        raise CheckpointError(_leftover(left, places, shards.folder))


def check_head(shards: WeightFiles, head: str, embedding: str) -> None:
    """Raise where a head that config.json ties to the embedding is stored with other numbers."""
    names = frozenset((head, embedding))
    stored = dict(shards.tensors(names))
    if head in stored and not torch.equal(stored[head].float(), stored[embedding].float()):
        raise CheckpointError(
            f"config.json ties the head to the embedding, but {head} and {embedding} differ; "
            "correct tie_word_embeddings in config.json."
        )


def fill(networks: Sequence[Mapping[str, Place]], shards: WeightFiles) -> None:
    """Copy every tensor of a checkpoint that has been checked to its place in each network.

    Where a place is packed the tensor is packed on the way, so that no more than this one is there
    in full. Raises where one is not finite: the question is put to the copy, on its device, and
    answered once at the end, so that no tensor waits for another.
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
            short = networks[0][hub].dtype == torch.float16  # which ends at 65,504
            where, remedy = (" in float16", ", or choose dtype bfloat16") if short else ("", "")
            raise CheckpointError(
                f"tensor {hub} holds NaN or infinity{where}; download the checkpoint again{remedy}."
            )


def _refuse_coded(headers: Mapping[str, TensorHeader], spare: Mapping[str, str]) -> None:
    """Raise where tensors are the codes of a quantiser, or its scales."""
    scales = [name for name in headers if name.endswith(tuple(f".{end}" for end in _SCALES))]
    coded = [name for name, entry in headers.items() if entry.dtype not in _FLOATS]
    coded = [name for name in coded if not name.endswith(tuple(spare))]
    listed = sorted(coded) or sorted(scales)
    if listed:
        raise CheckpointError(
            f"tensor {listed[0]}{_more(listed)} is stored as {headers[listed[0]].dtype}: quantised "
            "weights are not read; name the checkpoint that was not quantised."
        )


def _lack(missing: Sequence[str], left: Sequence[str], folder: Path) -> str:
    """Return the sentence about tensors that are not there, and what is there in their place."""
    lacks = f"{folder} lacks the tensor {missing[0]}{_more(missing)}"
    if not left:
        return f"{lacks}; download the checkpoint again."
    if _LORA.search(left[0]):
        return f"{lacks}, and holds {left[0]} of an adapter; merge it into the weights first."
    return (
        f"{lacks}, and holds {left[0]}{_more(left)} instead; it is of another model than "
        "config.json says, or was saved under other names than its authors'."
    )


def _leftover(names: Sequence[str], places: Mapping[str, Place], folder: Path) -> str:
    """Return the sentence about tensors that no part of the network takes."""
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
            f"{folder} holds the tensor {first}{_more(names)}, and config.json asks for "
            f"{len(layers)} layers; the two files do not belong together."
        )
    return (
        f"{folder} holds the tensor {first}{_more(names)}, which no part of the network takes; "
        "it is of another model than config.json says."
    )


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
