"""Random numbers keyed by identity, not by order.

A stream of draws belongs to (seed, item, purpose, number) and, inside it, to a counter such as a
canvas position. A draw is a hash of both, so it does not depend on the batch an item stands in, on
what was drawn before, on padding, on the number of workers or on the device: the same bits come
out on CPU and CUDA. Metal has no float64, so for it draws are made on the CPU and rounded to
float32. The mixer is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
"""

import hashlib
import json
from collections.abc import Sequence

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MUL1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MUL2 = -7723592293110705685  # 0x94D049BB133111EB
_BELOW_ONE = 1 - 2.0**-24  # the largest float32 below 1


def key(seed: int, item: str, purpose: str, number: int = 0) -> int:
    """Return the 64-bit key of one stream of draws."""
    name = json.dumps([seed, item, purpose, number]).encode()  # no two identities share a name
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little", signed=True)


def keys(
    seed: int,
    items: Sequence[str],
    purpose: str,
    numbers: int | Sequence[int],
    device: torch.device,
) -> Tensor:
    """Return one key per item, (B,) int64; the items share a number, or have one each."""
    several = [numbers] * len(items) if isinstance(numbers, int) else numbers
    streams = [key(seed, i, purpose, n) for i, n in zip(items, several, strict=True)]
    return torch.tensor(streams, device=device)


def fold_in(state: Tensor, counter: Tensor | int) -> Tensor:
    """Hash `counter` into `state`; both int64 and broadcast against each other."""
    if not has_float64(state.device):
        return fold_in(state.cpu(), _on_cpu(counter)).to(state.device)
    step = _GOLDEN * (counter + 1)  # int64 tensors wrap, which is what SplitMix64 wants
    z = state + (_wrap(step) if isinstance(step, int) else step)
    z = (z ^ _shift(z, 30)) * _MUL1
    z = (z ^ _shift(z, 27)) * _MUL2
    return z ^ _shift(z, 31)


def uniform(state: Tensor, counter: Tensor | int) -> Tensor:
    """Return float64 draws strictly inside (0, 1), one per (state, counter)."""
    if not has_float64(state.device):
        draws = uniform(state.cpu(), _on_cpu(counter))
        return draws.float().clamp(max=_BELOW_ONE).to(state.device)
    bits = _shift(fold_in(state, counter), 12)  # 52 bits, so that adding a half is still exact
    return (bits.double() + 0.5) * 2.0**-52


def gumbel(state: Tensor, counter: Tensor | int) -> Tensor:
    """Return standard Gumbel draws in float64 (arXiv:2409.02908 shows what float32 costs)."""
    if not has_float64(state.device):  # rounded last: what is rare stays as rare as it is
        return gumbel(state.cpu(), _on_cpu(counter)).float().to(state.device)
    return -torch.log(-torch.log(uniform(state, counter)))


def has_float64(device: torch.device) -> bool:
    """Say whether a device computes in float64; Metal does not."""
    return device.type != "mps"


def _on_cpu(counter: Tensor | int) -> Tensor | int:
    return counter.cpu() if isinstance(counter, Tensor) else counter


def _wrap(value: int) -> int:
    """Return a Python integer as the signed 64-bit one it would be in a tensor."""
    return (value + 2**63) % 2**64 - 2**63


def _shift(z: Tensor, bits: int) -> Tensor:
    """Shift right without the sign: torch's >> on int64 is arithmetic."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)
