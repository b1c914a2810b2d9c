"""LLaDA's loss for supervised fine-tuning (arXiv:2502.09992).

    t uniform on (0, 1),  p = (1 - e) t + e,  every canvas token masked with chance p
    loss = mean over rows of  (1/|canvas|) sum over masked tokens of  - log p_i / p

The prompt is never masked. The EOS tokens after a solution are part of the canvas: they are masked
and predicted as well, which teaches the model to stop. Each row counts
the same, whatever its length. Draws are keyed by identity.
"""

from dataclasses import dataclass

from torch import Tensor

from remask import rng
from remask.values import Canvas

SMALLEST_RATIO = 1e-3  # e: bounds the weight 1 / p
_RATIO, _PLACE = range(2)  # streams of one key


@dataclass(frozen=True, kw_only=True, eq=False)
class SftMasks:
    """Masked tokens of each row, and their masking probability."""

    masked: Tensor  # (B, L) bool
    ratios: Tensor  # (B,) p


def draw_sft_masks(canvas: Canvas, keys: Tensor) -> SftMasks:
    """Return which canvas tokens of each row to mask, possibly none.

    Args:
        canvas: rows of prompt + solution + tail.
        keys: (B,) one random stream per row, as of `mask_keys`.
    """
    times = rng.uniform(rng.fold_in(keys, _RATIO), 0)  # (B,)
    ratios = (1 - SMALLEST_RATIO) * times + SMALLEST_RATIO
    draws = rng.uniform(rng.fold_in(keys, _PLACE)[:, None], canvas.offsets)  # (B, L)
    masked = canvas.canvas & (draws < ratios[:, None])
    return SftMasks(masked=masked, ratios=ratios)


def sft_loss(
    logp: Tensor, canvas: Canvas, masks: SftMasks, *, num_rows: int | None = None
) -> Tensor:
    """Return the loss to minimise.

    Args:
        logp: (B, L) log-probabilities of the true tokens, used where masked.
        canvas: the unmasked rows.
        masks: their masks.
        num_rows: rows of the whole batch; None: these rows are the whole batch.
    """
    surprise = -logp.masked_fill(~masks.masked, 0.0).sum(1) / masks.ratios.to(logp.dtype)  # (B,)
    return (surprise / canvas.canvas.sum(1)).sum() / (num_rows or len(logp))
