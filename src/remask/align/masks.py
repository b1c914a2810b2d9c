"""Masked copies of finished completions, which the training losses reconstruct.

Each of the M copies of a completion masks different tokens. The samplers are those of the public
code of the Sandwiched Policy Gradient (arXiv:2510.09541):

    full           the whole response, as in d1; one copy, since all would be equal
    random         k of its n tokens, k uniform on 1..n
    block_all      one block and all later ones
    block_random   k tokens of one block, k uniform on 1..its length, and all later blocks

The block samplers mask tokens of earlier blocks with the same probability as tokens of the prompt.
Tokens after the end of the response are always masked and never counted; otherwise the model could
infer the length.

Departure from the public code: draws are keyed by (seed, item, sample number, update), so a row's
masks do not depend on the other rows of its batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from remask import rng
from remask.align.method_settings import MaskSettings
from remask.errors import SettingsError
from remask.sampling.blocks import block_numbers
from remask.values import Canvas, Sample

_BLOCKS = -1  # random stream of a row; its copies have the streams 0, 1, ...
_COUNT, _PLACE, _STRAY = range(3)  # streams of a copy


@dataclass(frozen=True, kw_only=True, eq=False)
class Masks:
    """M masked copies of each row."""

    masked: Tensor  # (M, B, L) bool
    counted: Tensor  # (M, B, L) bool: masked response tokens that are part of the loss


def mask_keys(samples: Sequence[Sample], *, update: int, seed: int, device: torch.device) -> Tensor:
    """Return one random stream per sample and update, (B,)."""
    named = [rng.key(seed, s.item, f"align/{s.number}", update) for s in samples]
    return torch.tensor(named, device=device)


def draw_masks(
    canvas: Canvas,
    response: Tensor,
    settings: MaskSettings,
    keys: Tensor,
    row_block: int | None = None,
) -> Masks:
    """Return M masked copies of every row; each counts at least one token.

    Args:
        canvas: the finished rows.
        response: (B, L) bool, the tokens up to and including the first end token.
        settings: how to mask.
        keys: (B,) one random stream per row.
        row_block: block size of a block-causal model, which replaces `settings.block`.
    """
    copies = torch.arange(settings.copies, device=keys.device)
    streams = rng.fold_in(keys, copies[:, None])  # (M, B)
    earlier, active, later = _regions(canvas, response, settings, keys, row_block)
    selected = active
    if settings.mask_sampler in ("random", "block_random"):
        selected = active & (
            _ranks(active, canvas, streams) < _num_masked(active, streams)[..., None]
        )
    prompt = ~canvas.canvas if canvas.attend is None else canvas.attend & ~canvas.canvas
    draws = rng.uniform(rng.fold_in(streams, _STRAY)[..., None], canvas.offsets)  # (M, B, L)
    stray = (prompt | earlier) & (draws < settings.prompt_mask_ratio)
    masked = selected | later | stray | (canvas.canvas & ~response)
    counted = selected if settings.loss_region == "active_block" else masked & response
    return Masks(masked=masked, counted=counted)


def _regions(
    canvas: Canvas, response: Tensor, settings: MaskSettings, keys: Tensor, row_block: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the response before, in and after the active block of each copy, (M, B, L) bool."""
    if not settings.by_block:
        active = response.expand(settings.copies, -1, -1)
        nothing = torch.zeros_like(active)
        return nothing, active, nothing
    numbers = block_numbers(canvas, settings.block, row_block)  # (B, L)
    chosen = _active_blocks(numbers, response, settings, keys)[..., None]  # (M, B, 1)
    return (
        response & (numbers < chosen),
        response & (numbers == chosen),
        response & (numbers > chosen),
    )


def _active_blocks(
    numbers: Tensor, response: Tensor, settings: MaskSettings, keys: Tensor
) -> Tensor:
    """Return the active block of every copy, (M, B).

    The blocks of the canvas are shuffled and the first M taken modulo the number of blocks of the
    response, so copies have different blocks if there are enough.
    """
    on_canvas = numbers.amax(1) + 1  # (B,)
    in_response = numbers.where(response, -1).amax(1) + 1
    fewest = int(on_canvas.min())
    if settings.copies > fewest:
        raise SettingsError(
            f"copies must be at most the number of blocks ({fewest} of {settings.block} tokens), "
            f"got {settings.copies}; or set mask_sampler random."
        )
    slots = torch.arange(int(on_canvas.max()), device=keys.device)
    draws = rng.uniform(rng.fold_in(keys, _BLOCKS)[:, None], slots)  # (B, blocks)
    order = draws.masked_fill(slots >= on_canvas[:, None], 2.0).argsort(1)
    return order[:, : settings.copies].T % in_response


def _num_masked(active: Tensor, streams: Tensor) -> Tensor:
    """Return the number of active tokens that each copy masks, (M, B), uniform on 1..all."""
    draws = rng.uniform(rng.fold_in(streams, _COUNT), 0)
    return 1 + (draws * active.sum(-1)).long()


def _ranks(active: Tensor, canvas: Canvas, streams: Tensor) -> Tensor:
    """Return random ranks of the active tokens of each copy, (M, B, L), from 0."""
    draws = rng.uniform(rng.fold_in(streams, _PLACE)[..., None], canvas.offsets)
    return draws.masked_fill(~active, 2.0).argsort(-1).argsort(-1)
