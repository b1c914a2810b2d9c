"""Levels: compute what rows of a block-causal model have in common only once.

Noisy blocks attend to clean blocks, and clean blocks never to noisy ones. So rows that mask the
same text differently share its keys and values, and texts share those of a common prefix:

    prefixes, up to the first block with a mask -> clean rows -> noisy rows

Each level attends to the previous ones. All levels pass through a layer together, packed into one
row; only attention separates them, so weights are read once. With full attention nothing can be
shared, because the states of a prompt depend on what follows it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor


class Level(NamedTuple):
    """Rows that continue rows of the previous level."""

    tokens: Tensor  # (n, w)
    start: int  # their first column
    parents: Tensor | None  # (n,) row of the previous level; None: this is the first level
    seen: Tensor  # (n or 1, 1, w, start + w) bool: earlier columns, then own ones


class Levels(NamedTuple):
    """Levels with N positions in total."""

    each: tuple[Level, ...]  # clean rows last but one, noisy ones last

    @property
    def tokens(self) -> Tensor:
        """Tokens of all levels, (1, N)."""
        return torch.cat([level.tokens.flatten() for level in self.each])[None]

    @property
    def columns(self) -> Tensor:
        """Column of each position in its row, (N,)."""
        parts = []
        for tokens, start, _, _ in self.each:
            columns = torch.arange(start, start + tokens.shape[1], device=tokens.device)
            parts.append(columns.repeat(len(tokens)))
        return torch.cat(parts)

    def split(self, packed: Tensor) -> Iterator[Tensor]:
        """Yield the part (n, w, ...) of `packed` (1, N, ...) for each level."""
        sizes = [level.tokens.numel() for level in self.each]
        for level, part in zip(self.each, packed[0].split_with_sizes(sizes), strict=True):
            yield part.reshape(*level.tokens.shape, *part.shape[1:])

    def to(self, device: torch.device) -> "Levels":
        """Return the levels on a device."""
        if self.each[0].tokens.device == device:
            return self
        return Levels(
            tuple(
                Level(
                    tokens.to(device),
                    start,
                    None if parents is None else parents.to(device),
                    seen.to(device),
                )
                for tokens, start, parents, seen in self.each
            )
        )


def levels_of(noisy: Tensor, clean: Tensor, attend: Tensor | None, blocks: Tensor) -> Levels:
    """Return the levels of rows (B, L).

    Args:
        noisy: rows with masks.
        clean: the same rows without masks.
        attend: (B, L) bool, false for padding; None without padding.
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
    return Levels((*levels, Level(noisy[:, cut:], cut, which, seen[:, None])))


def _clean_level(
    texts: Tensor, blocks: Tensor, start: int, parents: Tensor | None, padded: bool
) -> Level:
    """Return the columns of clean rows (n, L) from `start` on; negative tokens are padding."""
    seen = blocks[:, start:, None] >= blocks[:, None]  # (n or 1, w, L)
    if padded:
        seen = seen & (texts >= 0)[:, None]
    return Level(texts[:, start:].clamp(min=0), start, parents, seen[:, None])


def _first_changed(noisy: Tensor, clean: Tensor, blocks: Tensor) -> int:
    """Return the last column before all masks at which a block of every row begins."""
    columns = torch.arange(clean.shape[1], device=clean.device)
    first = (noisy != clean).any(0).int().argmax()  # 0 without masks
    begins = (blocks != blocks.roll(1, 1)).all(0) & (columns <= first)  # (L,)
    return int((columns * begins).max())


def _distinct(texts: Tensor, blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distinct rows, their blocks, and the number of each row among them, (n,)."""
    if len(blocks) == 1:
        rows, which = torch.unique(texts, dim=0, return_inverse=True)
        return rows, blocks, which
    both, which = torch.unique(torch.cat((texts, blocks), 1), dim=0, return_inverse=True)
    rows, numbers = both.chunk(2, 1)
    return rows, numbers, which
