"""The forced path: an answer revealed from nothing with its own tokens, and how likely each was.

The path is that of a rebuild, the most confident places first, but what is revealed is the token of
the answer, whatever the model would have written. Each token is read in the step that reveals it.
The blocks of a block-causal model are revealed side by side, each behind clean ones, by a schedule
of its own, in no more steps than a block has positions.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from remask.consistency.roundtrips import linear_schedule
from remask.denoisers.base import Denoiser
from remask.sampling.blocks import block_numbers, row_block
from remask.sampling.likelihood import hidden_of_noisy
from remask.sampling.loop import predict, scatter
from remask.sampling.outputs import raise_fault
from remask.sampling.settings import Rule
from remask.values import Canvas

_GREEDY = Rule()


class Forced(NamedTuple):
    """What the path leaves behind, on the model's device."""

    logp: Tensor  # (B, L) of each token when it was revealed; 0 outside the canvas
    steps: Tensor  # (B,) that each row took part in


def forced_path(denoiser: Denoiser, canvas: Canvas, steps: int) -> Forced:
    """Reveal the whole of a finished canvas in `steps` steps, with its own tokens."""
    size = denoiser.block_size
    steps = steps if size is None else min(steps, size)
    masked, mask_id = canvas.canvas, denoiser.tokenizer.mask_id
    blocks = torch.zeros_like(canvas.tokens)
    if size is not None:
        blocks = block_numbers(canvas, size, row_block(denoiser)).clamp(min=0)  # (B, L)
    logp = torch.zeros(masked.shape, device=masked.device)
    taken = torch.zeros(len(masked), dtype=torch.long, device=masked.device)
    totals = _by_block(masked, blocks)  # (B, K)
    reveals = linear_schedule(totals.flatten(), steps).view(steps, *totals.shape)
    each = reveals.flatten(1).sum(1)  # (S,)
    # What is masked before each step: the last host read, so that a GPU has the next step in time.
    num_masked = (totals.sum() - each.cumsum(0) + each).tolist()
    fault = torch.zeros((), dtype=torch.uint8, device=masked.device)
    for due, num in zip(reveals, num_masked, strict=True):
        if num == 0:
            break
        places = (~masked).flatten().byte().argsort(stable=True)[:num]  # (M,) as in the loop
        noisy = replace(canvas, tokens=canvas.tokens.masked_fill(masked, mask_id))
        rows = hidden_of_noisy(denoiser, noisy, canvas.tokens).flatten(0, 1)[places]  # (M, H)
        predicted = predict(denoiser, rows, canvas.tokens.flatten()[places], _GREEDY, None)
        fault = torch.maximum(fault, predicted.fault)
        top = scatter(predicted.top, places, masked.shape, 0.0)
        revealed = pick_in_blocks(top, masked, blocks, due)
        truth = scatter(predicted.truth, places, masked.shape, 0.0)
        logp = torch.where(revealed, truth, logp)
        taken += masked.any(1)
        masked = masked & ~revealed
    raise_fault(denoiser, fault)
    return Forced(logp, taken)


def pick_in_blocks(confidence: Tensor, masked: Tensor, blocks: Tensor, due: Tensor) -> Tensor:
    """Return the most confident `due` (B, K) masked positions of each block, (B, L) bool.

    Ties go to the earlier position. `blocks` (B, L) says which of the K blocks a position is in.
    """
    group = blocks.masked_fill(~masked, due.shape[1])  # what is not masked comes behind all blocks
    order = confidence.argsort(dim=1, descending=True, stable=True)  # (B, L)
    order = order.gather(1, group.gather(1, order).argsort(dim=1, stable=True))
    rank = torch.empty_like(order)
    rank.scatter_(1, order, torch.arange(order.shape[1], device=order.device).expand_as(order))
    totals = _by_block(masked, blocks, due.shape[1])  # (B, K)
    first = totals.cumsum(1) - totals  # masked positions in the blocks before
    ends = (first + due).gather(1, blocks)  # (B, L)
    return masked & (rank < ends)


def _by_block(masked: Tensor, blocks: Tensor, num: int | None = None) -> Tensor:
    """Return the masked positions of each block, (B, K)."""
    num = int(blocks.max()) + 1 if num is None else num
    totals = torch.zeros(len(masked), num, dtype=torch.long, device=masked.device)
    return totals.scatter_add_(1, blocks, masked.long())
