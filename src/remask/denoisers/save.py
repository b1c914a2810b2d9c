"""Write a checkpoint folder in the hub's layout."""

import errno
import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor

from remask.records.jsonl import whole, write_text


def save(
    folder: Path,
    config: dict[str, Any],
    generation: dict[str, Any],
    tokenizer: tokenizers.Tokenizer,
    tensors: dict[str, Tensor],
    *,
    dtype: torch.dtype = torch.bfloat16,
    max_shard_bytes: int = 5 * 10**9,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "config.json", json.dumps(config, indent=2) + "\n")
    write_text(folder / "generation_config.json", json.dumps(generation, indent=2) + "\n")
    write_text(folder / "tokenizer.json", tokenizer.to_str(pretty=False))
    shards = _shards(
        {k: v.to("cpu", dtype).contiguous() for k, v in tensors.items()}, max_shard_bytes
    )
    index = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        name = "model.safetensors" if len(shards) == 1 else name
        _write_tensors(folder / name, shard)
        index.update(dict.fromkeys(shard, name))
    listing_path = folder / "model.safetensors.index.json"
    if len(shards) > 1:
        listing = json.dumps({"metadata": {}, "weight_map": index}, indent=2)
        write_text(listing_path, listing + "\n")
    else:
        listing_path.unlink(missing_ok=True)  # an old index would list old weights
    for old in set(folder.glob("model*.safetensors")) - {folder / name for name in index.values()}:
        old.unlink()


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    size = sum(tensor.nbytes for tensor in tensors.values())
    with whole(path, size) as part:
        try:
            save_file(tensors, part, metadata={"format": "pt"})
        except SafetensorError as error:  # a full disk: the tensors themselves are sound
            raise OSError(errno.ENOSPC, str(error)) from None


def _shards(tensors: dict[str, Tensor], max_bytes: int) -> list[dict[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > max_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    return shards
