"""The exponential average of the weights, which is what a training hands over."""

import torch
from torch import nn


@torch.no_grad()
def follow(average: nn.Module, network: nn.Module, *, decay: float, step: int) -> None:
    """Move an average towards the weights; in its first steps it forgets faster than `decay`."""
    slow = min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), 1 - slow)
