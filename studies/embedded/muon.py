"""Muon: momentum whose update is orthogonalised, for the weight matrices of a transformer.

Keller Jordan's optimizer (2024) with the step size of arXiv:2502.16982, so that one learning rate
serves Muon and AdamW alike. Written here because torch's own multiplies in bfloat16 even on CPUs
that cannot. Matrices of the same shape are orthogonalised together, in one batch.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


class Muon(torch.optim.Optimizer):
    """Momentum with Nesterov look-ahead, orthogonalised; decoupled weight decay."""

    def __init__(
        self, params: Iterable[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.1
    ) -> None:
        super().__init__(
            list(params), {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    shapes.setdefault(p.shape, []).append(p)
            for matrices in shapes.values():
                self._step(matrices, group["lr"], group["momentum"], group["weight_decay"])

    def _step(self, matrices: list[Tensor], lr: float, momentum: float, decay: float) -> None:
        grads = [p.grad for p in matrices if p.grad is not None]
        buffers = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in matrices]
        torch._foreach_lerp_(buffers, grads, 1 - momentum)
        ahead = torch._foreach_lerp(grads, buffers, momentum)
        updates = orthogonalise(torch.stack(ahead))  # (matrices, rows, columns)
        scale = 0.2 * max(matrices[0].shape) ** 0.5  # update RMS as AdamW's, arXiv:2502.16982
        torch._foreach_mul_(matrices, 1 - lr * decay)
        torch._foreach_add_(matrices, list(updates.to(matrices[0].dtype)), alpha=-lr * scale)


def orthogonalise(matrices: Tensor, iterations: int = 5, eps: float = 1e-7) -> Tensor:
    """Return (M, r, c) with singular values near 1: a quintic Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.bfloat16() if matrices.is_cuda else matrices.float()
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    out: Tensor = x.mT if tall else x
    return out
