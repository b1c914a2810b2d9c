"""Norms and rotations as papers write them, in float64, to hold the families against."""

import torch
from torch import Tensor


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return x divided by its root mean square, times the weight."""
    return weight * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()


def turn(x: Tensor, theta: float, rotated: int | None = None) -> Tensor:
    """Rotate the pairs (x[k], x[k + R/2]), k < R/2, of position p by p theta^(-2k/R)."""
    num = x.shape[-1] if rotated is None else rotated  # R
    half = num // 2
    angles = torch.tensor(
        [[p * theta ** (-k / half) for k in range(half)] for p in range(len(x))],
        dtype=torch.float64,
    )
    a, b, rest = x[:, :half], x[:, half:num], x[:, num:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)
