"""Advantages of completions within their groups."""

import torch
from torch import Tensor

from remask.errors import SettingsError


def group_advantages(rewards: Tensor) -> Tensor:
    """Return reward minus group mean, (P, G), without division by a standard deviation.

    Equal rewards have advantage exactly 0. NaN means no reward: it is excluded from the mean and
    has advantage 0.

    Args:
        rewards: (P, G), one group of G completions per prompt.
    """
    if rewards.shape[1] < 2:
        raise SettingsError(
            f"num_generations must be at least 2, got {rewards.shape[1]}: a group of one has "
            "advantage 0."
        )
    present = ~rewards.isnan()
    above = rewards - rewards.nanmean(1, keepdim=True)
    lowest = rewards.masked_fill(~present, torch.inf).amin(1, keepdim=True)
    highest = rewards.masked_fill(~present, -torch.inf).amax(1, keepdim=True)
    return above.masked_fill(~present | (lowest >= highest), 0.0)
