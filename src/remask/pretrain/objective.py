"""LLaDA's objective: mask each canvas token with probability t, predict it, weigh by 1/t."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from remask.pretrain.corpus import MASK_ID


def masked_loss(
    network: Callable[[Tensor], Tensor],
    ids: Tensor,
    num_prompt: Tensor,
    ratio: Tensor,
    draws: Tensor,
) -> Tensor:
    """Return the mean over canvas tokens of the 1/t-weighted cross-entropy at masked ones.

    Args:
        network: ids (B, S) -> logits (B, S, V).
        ids: (B, S) clean rows.
        num_prompt: (B,) tokens before the canvas.
        ratio: (B,) t, the chance of each canvas token to be masked.
        draws: (B, S) uniform in [0, 1).
    """
    canvas = torch.arange(ids.shape[1], device=ids.device) >= num_prompt[:, None]  # (B, S)
    masked = canvas & (draws < ratio[:, None])
    logits = network(ids.masked_fill(masked, MASK_ID))
    loss = F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten(), reduction="none")
    weight = masked / ratio[:, None]
    return (loss.view_as(weight) * weight).sum() / canvas.sum()


def low_discrepancy_ratios(num: int, start: Tensor, smallest: float) -> Tensor:
    """Return (num,) ratios evenly spread over [smallest, 1), shifted by one uniform draw."""
    spread = (torch.arange(num, device=start.device) + start) / num
    return spread.clamp(min=smallest)
