"""How much better than its group a completion was."""

import torch
from torch import Tensor

from remask.errors import SettingsError


def group_advantages(rewards: Tensor) -> Tensor:
    """Return reward minus the mean of its group, (P, G); not divided by a standard deviation.

    A group of equal rewards teaches nothing: its advantages are exactly 0, whatever rounding says.
    A reward of NaN stands for none: it is left out of the mean, and its advantage is 0.

    Args:
        rewards: (P, G), one group of G completions per prompt.
    """
    if rewards.shape[1] < 2:
        raise SettingsError(
            "num_generations 1 makes every advantage 0; draw at least 2 completions per prompt."
        )
    present = ~rewards.isnan()
    above = rewards - rewards.nanmean(1, keepdim=True)
    lowest = rewards.masked_fill(~present, torch.inf).amin(1, keepdim=True)
    highest = rewards.masked_fill(~present, -torch.inf).amax(1, keepdim=True)
    return above.masked_fill(~present | (lowest >= highest), 0.0)
