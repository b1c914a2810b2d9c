"""Small random checkpoints in the hub's layout."""

import math
from pathlib import Path

import torch

from remask.denoisers.llada import ARCHITECTURE, LLaDA, LLaDAConfig, hub_tensors
from remask.denoisers.save import save
from remask.settings import Seed, checked
from remask.testing.scripted import tiny_tokenizer


@checked
def write_checkpoint(
    folder: Path,
    *,
    layers: int = 2,
    width: int = 32,
    heads: int = 4,
    kv_heads: int | None = None,
    inner: int = 64,
    tied: bool = False,
    max_length: int = 512,
    length: int = 32,
    shards: int = 1,
    seed: Seed = 0,
    dtype: torch.dtype = torch.bfloat16,
) -> Path:
    """Write a small random LLaDA in the hub's layout, as `load` reads it; return `folder`.

    The weights are a function of `seed`. `length` is the canvas, steps and block of the preset;
    `shards` is about how many weight files there are, more than one with an index.
    """
    tokenizer = tiny_tokenizer()
    config = {
        "architectures": [ARCHITECTURE],
        "d_model": width,
        "n_layers": layers,
        "n_heads": heads,
        "n_kv_heads": kv_heads or heads,
        "mlp_hidden_size": inner,
        "vocab_size": tokenizer.backend.get_vocab_size(),
        "max_sequence_length": max_length,
        "rope_theta": 500_000.0,
        "weight_tying": tied,
        "mask_token_id": tokenizer.mask_id,
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": tokenizer.pad_id,
    }
    tensors = hub_tensors(_random_llada(LLaDAConfig.read(config), seed))
    size = sum(tensor.numel() * dtype.itemsize for tensor in tensors.values())
    save(
        folder,
        config,
        {"length": length, "steps": length, "block": length},
        tokenizer.backend,
        tensors,
        dtype=dtype,
        max_shard_bytes=math.ceil(size / shards),
    )
    return folder


@torch.no_grad()
def _random_llada(config: LLaDAConfig, seed: int) -> LLaDA:
    """Return a network with larger weights than training starts from: every layer must show."""
    model = LLaDA(config)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.copy_(noise / config.d_model**0.5 if parameter.dim() == 2 else 1 + 0.1 * noise)
    return model
