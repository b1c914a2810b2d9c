"""Noise on a batch of rows: what the network is shown, what it must predict, what each counts.

The draws are made on the host, so that it knows how many tokens are asked for without asking the
device: the head runs on those alone, and no step waits for another.
"""

from typing import NamedTuple

import torch
from torch import Tensor

BLOCKS = (4, 8, 16, 32)  # that answers are written in


class NoisyRows(NamedTuple):
    """A batch laid out in one row of N = B x S tokens, and the M of them that are asked for."""

    tokens: Tensor  # (N,) as the network sees them
    places: Tensor  # (M,) of the tokens to predict
    targets: Tensor  # (M,) what they are
    weights: Tensor  # (M,) what each counts

    def to(self, device: torch.device) -> "NoisyRows":
        """Return the batch on a device; the host does not wait until it is there."""
        if device.type != "cuda":
            return NoisyRows(*(part.to(device) for part in self))
        return NoisyRows(*(part.pin_memory().to(device, non_blocking=True) for part in self))


class Noise(NamedTuple):
    """Which canvas tokens of B rows are masked.

    Inside the window of a row those whose draw is below its ratio, behind it all, before it none.
    """

    first: Tensor  # (B,) column where the window begins
    last: Tensor  # (B,) column behind it
    ratio: Tensor  # (B,) t
    draws: Tensor  # (B, S) uniform in [0, 1)


def whole_canvas(num_prompt: Tensor, ratio: Tensor, draws: Tensor) -> Noise:
    """Return noise whose windows are canvases, from the prompt to the end: LLaDA's."""
    return Noise(num_prompt, torch.full_like(num_prompt, draws.shape[1]), ratio, draws)


def in_blocks(noise: Noise, num_response: Tensor, chosen: Tensor, draws: Tensor) -> Noise:
    """Return noise as it is while an answer is written block by block, in the rows chosen.

    The window is one block that holds tokens of the response or its first end; how many of its
    tokens are masked is drawn, not the chance of each: in so few, none would be, too often.

    Args:
        noise: of whole canvases.
        num_response: (B,) tokens of each response.
        chosen: (B,) bool.
        draws: (B, 2) uniform in [0, 1): of the size of the blocks, and of the block.
    """
    length = noise.draws.shape[1]
    size = torch.tensor(BLOCKS)[(draws[:, 0] * len(BLOCKS)).long()]
    num_blocks = -(-(num_response + 1) // size)
    first = noise.first + (draws[:, 1] * num_blocks).long() * size
    last = (first + size).clamp(max=length)
    window = (torch.arange(length) >= first[:, None]) & (torch.arange(length) < last[:, None])
    ranks = noise.draws.masked_fill(~window, 2.0).argsort(1).argsort(1)  # of the window: 0, 1, ...
    width = last - first
    return Noise(
        torch.where(chosen, first, noise.first),
        torch.where(chosen, last, noise.last),
        torch.where(chosen, (noise.ratio * width).ceil() / width, noise.ratio),
        torch.where(chosen[:, None], ranks / width[:, None], noise.draws),
    )


def add_noise(ids: Tensor, num_prompt: Tensor, noise: Noise, *, mask_id: int) -> NoisyRows:
    """Return rows with their masks; those in the windows are asked for.

    A token counts 1 / t; a window stands for its canvas, and all canvases together count 1. At
    least one token is asked for: the one with the smallest draw, where no other is.

    Args:
        ids: (B, S) clean rows, whose canvas goes from the prompt to the end.
        num_prompt: (B,) tokens before the canvas.
        noise: on these rows.
        mask_id: the mask token.
    """
    columns = torch.arange(ids.shape[1])
    window = (columns >= noise.first[:, None]) & (columns < noise.last[:, None])  # (B, S)
    drawn = (window & (noise.draws < noise.ratio[:, None])).flatten()  # (N,)
    if not drawn.any():
        drawn[noise.draws.masked_fill(~window, 2.0).argmin()] = True
    masked = drawn | (columns >= noise.last[:, None]).flatten()
    places = drawn.nonzero()[:, 0]
    clean, num_canvas = ids.flatten(), ids.shape[1] - num_prompt
    weight = num_canvas / (noise.last - noise.first) / (noise.ratio * num_canvas.sum())  # (B,)
    weights = weight[places // ids.shape[1]]
    return NoisyRows(clean.masked_fill(masked, mask_id), places, clean[places], weights)


def next_tokens(ids: Tensor, num_prompt: Tensor, num_response: Tensor) -> NoisyRows:
    """Return clean rows of which each response and one end are asked for, all counting the same.

    Args:
        ids: (B, S) clean rows, with at least one end token each.
        num_prompt: (B,) tokens before the response.
        num_response: (B,) tokens of the response.
    """
    columns, last = torch.arange(ids.shape[1]), (num_prompt + num_response)[:, None]
    places = ((columns >= num_prompt[:, None]) & (columns <= last)).flatten().nonzero()[:, 0]
    tokens = ids.flatten()
    return NoisyRows(tokens, places, tokens[places], torch.full((len(places),), 1 / len(places)))


def low_discrepancy_ratios(num: int, start: Tensor, smallest: float) -> Tensor:
    """Return (num,) ratios evenly spread over [smallest, 1), shifted by one uniform draw."""
    spread = (torch.arange(num, device=start.device) + start) / num
    return spread.clamp(min=smallest)
