"""How many tokens of a block each step reveals: the schedules that the models were published with.

`even` is LLaDA's (arXiv:2502.09992), which gives the first steps what is left over, `rounded` is
A2D's, and `shares` LLaDA2.0's (arXiv:2512.15745) and SDAR's: each step reveals its share of a whole
block, however few of it are masked, and however far ahead a threshold has brought it. Dream's
orders (arXiv:2508.15487) have one of their own; models with blocks keep theirs. They differ where
the steps do not divide the block, or are fewer than its positions. That of round trips is
`roundtrips.linear_schedule`.

Departures: a schedule counts each row for itself, where Dream's counts the mean of the batch (alone
the two are equal). A share that is larger than what is masked makes SDAR's loop write over tokens
that are not; here they stay.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Schedule = Callable[[Tensor, int], Tensor]  # (masked (B,), steps) -> reveals (S, B)
_EPS = 1e-3  # the time at which Dream's schedule ends


def even_schedule(num_masked: Tensor, steps: int) -> Tensor:
    """Return reveals per step, (S, B): LLaDA's, n // S each and one more in the first n % S."""
    k = torch.arange(steps, device=num_masked.device)[:, None]
    return num_masked // steps + (k < num_masked % steps).long()


def share_schedule(num_masked: Tensor, steps: int, *, block: int) -> Tensor:
    """Return reveals per step, (S, B): LLaDA2's and SDAR's, the even share of a whole block."""
    shares = even_schedule(torch.full_like(num_masked, block), steps)
    done = shares.cumsum(0).minimum(num_masked)
    return torch.cat((done[:1], done[1:] - done[:-1]))


def rounded_schedule(num_masked: Tensor, steps: int) -> Tensor:
    """Return reveals per step, (S, B): A2D's, n (1 - s / t) to the nearest, halves to the even one.

    Shares are computed in float32 and counts in float64, as its authors do: that decides halves. A
    step that would reveal nothing is not taken, so it comes last.
    """
    times = (torch.arange(steps, -1, -1, dtype=torch.float64) / steps).float()
    masked = 1 - (1 - times)  # one minus the linear alpha, in its rounding
    shares = 1 - (masked[1:] / masked[:-1]).double()  # (S,)
    left, reveals = num_masked.cpu(), []  # a few numbers, and not every device has float64
    for share in shares:
        reveals.append((left * share).round().long().minimum(left))
        left = left - reveals[-1]
    taken = torch.stack(reveals).to(num_masked.device)
    order = (taken == 0).int().argsort(dim=0, stable=True)
    return taken.gather(0, order)


def dream_schedule(num_masked: Tensor, steps: int) -> Tensor:
    """Return reveals per step, (S, B): Dream's, the floor of n (1 - s / t), the rest at the end."""
    times = torch.linspace(1, _EPS, steps + 1)
    shares = 1 - times[1:] / times[:-1]  # (S,)
    shares[-1] = 1
    left, reveals = num_masked, []
    for share in shares.to(num_masked.device):
        reveals.append((left * share).long())
        left = left - reveals[-1]
    return torch.stack(reveals)


def origin_schedule(num_masked: Tensor, steps: int, *, draws: Tensor) -> Tensor:
    """Return reveals per step, (S, B), where every token goes by itself, with chance 1 - s / t.

    A token is then still masked at time t with probability t: it goes when the time falls below
    its uniform draw, one of `draws` (B, C). Counted beforehand, and with the places in random
    order, this is Dream's `origin`.
    """
    times = torch.linspace(1, _EPS, steps + 1, device=draws.device)
    times[-1] = 0
    used = torch.arange(draws.shape[1], device=draws.device) < num_masked[:, None]  # (B, C)
    left = ((draws < times[:, None, None]) & used).sum(2)  # (S + 1, B)
    return left[:-1] - left[1:]
