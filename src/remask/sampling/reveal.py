"""How many tokens a step reveals, and which. Pure functions, no model."""

import torch
from torch import Tensor


def linear_counts(num_masked: Tensor, steps: int) -> Tensor:
    """Return reveals per step, (S, B): after step k of S, n (S - k) // S tokens stay masked."""
    k = torch.arange(steps + 1, device=num_masked.device)[:, None]
    left = num_masked * (steps - k) // steps  # (S + 1, B)
    return left[:-1] - left[1:]


def even_counts(num_masked: Tensor, steps: int) -> Tensor:
    """Return reveals per step, (S, B): LLaDA's, n // S each and one more in the first n % S."""
    k = torch.arange(steps, device=num_masked.device)[:, None]
    return num_masked // steps + (k < num_masked % steps).long()


def pick(confidence: Tensor, masked: Tensor, num_reveal: Tensor) -> Tensor:
    """Return the most confident `num_reveal` masked positions of each row, (B, L) bool.

    Ties go to the earlier position, so a row's choice does not depend on its neighbours.
    """
    ranked = confidence.masked_fill(~masked, -torch.inf)
    order = ranked.argsort(dim=1, descending=True, stable=True)  # (B, L)
    rank = torch.empty_like(order)
    rank.scatter_(1, order, torch.arange(order.shape[1], device=order.device).expand_as(order))
    return masked & (rank < num_reveal[:, None])
