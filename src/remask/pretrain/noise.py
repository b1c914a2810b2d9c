"""Noise on a batch of rows: what the network is shown, what it must predict, what each counts.

The draws are made on the host, so that it knows how many tokens are masked without asking the
device: the head runs on those alone, and no step waits for another.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class NoisyRows(NamedTuple):
    """A batch laid out in one row of N = B x S tokens, and the M of them that are masked."""

    tokens: Tensor  # (N,) with the mask token
    places: Tensor  # (M,) of masked tokens
    targets: Tensor  # (M,) what stood there
    weights: Tensor  # (M,) 1 / (t x canvas tokens of the batch)

    def to(self, device: torch.device) -> "NoisyRows":
        """Return the batch on a device; the host does not wait until it is there."""
        if device.type != "cuda":
            return NoisyRows(*(part.to(device) for part in self))
        return NoisyRows(*(part.pin_memory().to(device, non_blocking=True) for part in self))


def add_noise(
    ids: Tensor, num_prompt: Tensor, ratio: Tensor, draws: Tensor, *, mask_id: int
) -> NoisyRows:
    """Return rows of which each canvas token is masked where its draw is below the row's ratio.

    At least one token is masked: the one with the smallest draw, where no other is.

    Args:
        ids: (B, S) clean rows, whose canvas goes from the prompt to the end.
        num_prompt: (B,) tokens before the canvas.
        ratio: (B,) t.
        draws: (B, S) uniform in [0, 1).
        mask_id: the mask token.
    """
    canvas = torch.arange(ids.shape[1]) >= num_prompt[:, None]  # (B, S)
    masked = (canvas & (draws < ratio[:, None])).flatten()  # (N,)
    if not masked.any():
        masked[draws.masked_fill(~canvas, 2.0).argmin()] = True
    places = masked.nonzero()[:, 0]
    clean = ids.flatten()
    weights = 1 / (ratio[places // ids.shape[1]] * canvas.sum())
    return NoisyRows(clean.masked_fill(masked, mask_id), places, clean[places], weights)
