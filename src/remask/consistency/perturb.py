"""Which tokens to mask again: the forward half of the round trip. Pure functions of keys.

The prompt is never masked. The EOS tail is masked like the rest, so that the length is not given
away; `ConsistencySettings.tail` leaves it visible to study just that. If the draw spares every
response token, one is masked all the same: a trip that asks nothing of the answer would count as
agreement.
"""

import torch
from torch import Tensor

from remask import rng
from remask.values import Canvas

_FALLBACK, _RATIO = -1, -2  # counters no canvas offset uses


def independent(canvas: Canvas, response: Tensor, ratio: Tensor, keys: Tensor) -> Tensor:
    """Return positions to mask, (B, L) bool: each with probability `ratio` (B,), the paper's way.

    Args:
        canvas: the finished rows.
        response: (B, L) bool, the tokens up to and including the first end token.
        ratio: (B,) chance of each canvas position.
        keys: (B,) one random stream per row.
    """
    draws = rng.uniform(keys[:, None], canvas.offsets)  # (B, L)
    masked = canvas.canvas & (draws < ratio[:, None])
    return _never_empty(masked, canvas.offsets, response, ratio, keys)


def stratified(
    canvas: Canvas, response: Tensor, ratio: Tensor, keys: Tensor, shared: Tensor, phase: Tensor
) -> Tensor:
    """Return positions to mask, (B, L): trip n of N masks where frac(u + n / N) < ratio.

    Args:
        canvas: the finished rows.
        response: (B, L) bool, the tokens up to and including the first end token.
        ratio: (B,) chance of each canvas position.
        keys: (B,) one random stream per row.
        shared: (B,) one stream per answer, the same for all its trips: one u per position makes
            every position visible in its fair share of them.
        phase: (B,) n / N.
    """
    draws = (rng.uniform(shared[:, None], canvas.offsets) + phase[:, None]) % 1.0
    masked = canvas.canvas & (draws < ratio[:, None])
    return _never_empty(masked, canvas.offsets, response, ratio, keys)


def uniform_ratio(keys: Tensor) -> Tensor:
    """Return a ratio per row, (B,): Definition 1 draws the time uniformly."""
    return rng.uniform(keys, _RATIO)


def _never_empty(
    masked: Tensor, offsets: Tensor, response: Tensor, ratio: Tensor, keys: Tensor
) -> Tensor:
    """Mask one response token, drawn at random, in rows where none was (not at ratio 0)."""
    ranks = rng.uniform(rng.fold_in(keys, _FALLBACK)[:, None], offsets).masked_fill(~response, 2.0)
    place = torch.arange(masked.shape[1], device=masked.device)
    chosen = place == ranks.argmin(1, keepdim=True)  # (B, L)
    empty = ~(masked & response).any(1, keepdim=True) & (ratio[:, None] > 0)
    return masked | (chosen & empty)
