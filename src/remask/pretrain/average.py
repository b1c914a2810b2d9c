"""What both trainers do after a backward pass: watch the gradient, average the weights."""

import torch
from torch import Tensor, nn

from remask.denoisers.attention_kernels import attention_kernels
from remask.errors import DenoiserError


@torch.no_grad()
def follow(average: nn.Module, network: nn.Module, *, decay: float, step: int) -> None:
    """Update an exponential moving average; the decay is lower in the first steps."""
    slow = min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), 1 - slow)


class GradientWatch:
    """The first update whose gradient was not finite, kept on the device to avoid a sync."""

    def __init__(self, device: torch.device) -> None:
        self._first = torch.zeros((), dtype=torch.long, device=device)  # 0: none

    def note(self, norm: Tensor, update: int) -> None:
        """Record the gradient norm of an update."""
        is_first = (self._first == 0) & ~norm.isfinite()
        self._first = torch.where(is_first, update, self._first)

    def check(self, lr: float) -> None:
        """Raise if a gradient was not finite (device sync)."""
        update = int(self._first)
        if update:
            raise DenoiserError(
                f"The gradient was not finite at update {update} (attention kernels: "
                f"{attention_kernels()}). Lower lr ({lr})."
            )
