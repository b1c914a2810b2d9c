"""The cache of a block-causal model: keys and values of columns that will not change any more.

Later columns see them and are not seen by them, so that a step need only compute its own block.
Rows may hold different numbers of columns; each goes on behind its own.

The tensors have room for more than they hold, and grow by many columns at a time: nothing is copied
from block to block, and compiled layers meet few shapes. A forward pass leaves the keys and values
of its columns in that room; only `extend_cache` makes them part of the cache. The old and the new
cache share their memory, so only the newest of them can be used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

_GROWTH = 512  # columns


def room_for(num: int) -> int:
    """Return the columns that are allocated for `num` of them."""
    return -(-num // _GROWTH) * _GROWTH


@dataclass(frozen=True, kw_only=True, eq=False)
class KVCache:
    """What a model keeps of the first columns of every row."""

    layers: tuple[Tensor, ...]  # each (B, room, k | v heads, head_dim), where its weights are
    lengths: Tensor  # (B,) columns that each row holds; whole blocks, but where a row has ended
    columns: int  # the most that a row may hold: known without asking the device
    # (B, width) what a shifted network says behind the last column: its row predicts the next one.
    last: Tensor | None = None

    @property
    def room(self) -> int:
        """Columns that the tensors have, held or not."""
        return self.layers[0].shape[1]

    def rows(self, indices: Tensor) -> "KVCache":
        layers = tuple(layer[indices.to(layer.device)] for layer in self.layers)
        last = None if self.last is None else self.last[indices]
        return replace(self, layers=layers, lengths=self.lengths[indices], last=last)

    def places(self, num: int) -> Tensor:
        """Return the next `num` columns of every row, (B, num)."""
        return self.lengths[:, None] + torch.arange(num, device=self.lengths.device)

    def with_room(self, num: int) -> "KVCache":
        """Return the same cache with room for `num` more columns: itself, where it has that."""
        lacking = self.columns + num - self.room
        if lacking <= 0:
            return self
        padding = (0, 0, 0, 0, 0, room_for(lacking))
        return replace(self, layers=tuple(F.pad(layer, padding) for layer in self.layers))

    def extended(self, num: int, attend: Tensor | None, rows: Tensor | None = None) -> "KVCache":
        """Return the cache with the next `num` columns, less the padding among them.

        `rows` (B, num, width) are theirs in a shifted network.
        """
        added = torch.full_like(self.lengths, num) if attend is None else attend.sum(1)  # (B,)
        last = self.last
        if last is not None and rows is not None:
            newest = rows[torch.arange(len(rows), device=rows.device), (added - 1).clamp(min=0)]
            last = torch.where(added[:, None] > 0, newest, last)
        return replace(self, lengths=self.lengths + added, columns=self.columns + num, last=last)


def joined(caches: Sequence[KVCache]) -> KVCache:
    """Return the rows of caches that have the same room, those of one after those of another."""
    lasts = [cache.last for cache in caches if cache.last is not None]
    return KVCache(
        layers=tuple(map(torch.cat, zip(*(cache.layers for cache in caches), strict=True))),
        lengths=torch.cat([cache.lengths for cache in caches]),
        columns=max(cache.columns for cache in caches),
        last=torch.cat(lasts) if lasts else None,
    )
