"""Levels: what rows of a block-causal model have in common goes through its layers once.

A noisy row sees clean blocks, which see no noisy one. So rows with other masks over the same text
share its keys and values, and texts that begin alike share those of what they begin with:

    beginnings, up to the first block with a mask -> clean rows -> noisy rows

Each level is computed behind the one before, layer by layer. Where every position sees every other
one there is nothing to share: the states of a prompt depend on what follows it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from remask.denoisers.transformer import Attention, Block, LayerCache, home, moved


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """Rows that go on from rows of the level before."""

    tokens: Tensor  # (n, w)
    start: int  # their first column
    parents: Tensor | None  # (n,) which rows of the level before; None: this is the first
    seen: Tensor  # (n or 1, 1, w, before + w) bool: the columns before them, then their own


def levels_of(noisy: Tensor, clean: Tensor, attend: Tensor | None, blocks: Tensor) -> list[Level]:
    """Return the levels of rows (B, L), clean ones last but one, noisy ones last.

    Args:
        noisy: rows with masks.
        clean: the same rows without.
        attend: (B, L) bool, not padding; None where no row is padded.
        blocks: (B or 1, L) of each column.
    """
    cut = _first_changed(noisy, clean, blocks)
    padded = attend is not None
    texts, numbers, which = _distinct(clean if attend is None else clean.where(attend, -1), blocks)
    levels, parents = [], None
    if cut > 0:
        begun, counted, parents = _distinct(texts[:, :cut], numbers[:, :cut])
        levels.append(_clean_level(begun, counted, 0, None, padded))
    levels.append(_clean_level(texts, numbers, cut, parents, padded))
    own = blocks[:, cut:]  # (B or 1, w)
    seen = torch.cat((own[:, :, None] > blocks[:, None], own[:, :, None] == own[:, None]), 2)
    if attend is not None:
        seen = seen & torch.cat((attend, attend[:, cut:]), 1)[:, None]
    return [*levels, Level(tokens=noisy[:, cut:], start=cut, parents=which, seen=seen[:, None])]


def _clean_level(
    texts: Tensor, blocks: Tensor, start: int, parents: Tensor | None, padded: bool
) -> Level:
    """Return the columns of clean rows (n, L) from `start` on; negative tokens are padding."""
    seen = blocks[:, start:, None] >= blocks[:, None]  # (n or 1, w, L)
    if padded:
        seen = seen & (texts >= 0)[:, None]
    tokens = texts[:, start:].clamp(min=0)
    return Level(tokens=tokens, start=start, parents=parents, seen=seen[:, None])


def _first_changed(noisy: Tensor, clean: Tensor, blocks: Tensor) -> int:
    """Return the column up to which no row has a mask, and at which a block of every row begins."""
    columns = torch.arange(clean.shape[1], device=clean.device)
    first = (noisy != clean).any(0).int().argmax()  # 0 where there is none: all is computed
    begins = (blocks != blocks.roll(1, 1)).all(0) & (columns <= first)  # (L,)
    return int((columns * begins).max())


def _distinct(texts: Tensor, blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return distinct rows, their blocks, and which of them each row is, (n,)."""
    if len(blocks) == 1:
        rows, which = torch.unique(texts, dim=0, return_inverse=True)
        return rows, blocks, which
    both, which = torch.unique(torch.cat((texts, blocks), 1), dim=0, return_inverse=True)
    rows, numbers = both.chunk(2, 1)
    return rows, numbers, which


def through_levels(
    layers: nn.ModuleList,
    levels: Sequence[Level],
    embedded: Iterable[Tensor],
    cos: Tensor,
    sin: Tensor,
) -> list[Tensor]:
    """Return the states of every level, (n, w, width): all is done but the last MLP.

    Args:
        layers: of a network, on one device or on several.
        levels: of its rows.
        embedded: the tokens of each level, (n, w, width).
        cos: of all columns, (L, 1, half).
        sin: likewise.
    """
    states = list(embedded)
    for layer in layers:
        run = cast(Block, layer).attend if layer is layers[-1] else layer
        heads: Tensor | None = None
        for i, level in enumerate(levels):
            num, width = level.tokens.shape
            here = slice(level.start, level.start + width)
            x, cosines, sines, seen, parents = moved(
                home(layer), states[i], cos[here], sin[here], level.seen, level.parents
            )
            heads = _with_room(cast(Attention, layer.attention), x, heads, parents)
            places = torch.arange(heads.shape[1] - width, heads.shape[1], device=heads.device)
            states[i] = run(x, cosines, sines, seen, LayerCache(heads, places.expand(num, -1)))
    return states


def _with_room(
    attention: Attention, x: Tensor, heads: Tensor | None, parents: Tensor | None
) -> Tensor:
    """Return the keys and values that the parents of rows have, and room for those of `x`."""
    room = x.new_zeros(*x.shape[:2], 2 * attention.num_kv_heads, attention.head_dim)
    return room if heads is None else torch.cat((heads[parents], room), 1)
