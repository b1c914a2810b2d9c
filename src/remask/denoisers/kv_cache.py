"""The key-value cache of a block-causal model.

It holds keys and values of columns that do not change any more, so a step computes its own block
only. Rows may hold different numbers of columns.

Tensors are allocated for more columns than they hold and grow by many at a time, so that blocks are
not copied and compiled layers see few shapes. A forward pass writes the keys and values of its
columns into the free part; `extend_cache` adds them to the cache. The old and the new cache share
memory, so only the newest one can be used.
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
    """Keys and values of the first columns of every row."""

    layers: tuple[Tensor, ...]  # each (B, room, k | v heads, head_dim), where its weights are
    lengths: Tensor  # (B,) columns of each row: whole blocks, unless the row has ended
    columns: int  # upper bound of `lengths`, known without a device sync
    # (B, width) row of the last column in a shifted network, which predicts the next column.
    last: Tensor | None = None

    @property
    def room(self) -> int:
        """Allocated columns."""
        return self.layers[0].shape[1]

    def rows(self, indices: Tensor) -> "KVCache":
        layers = tuple(layer[indices.to(layer.device)] for layer in self.layers)
        last = None if self.last is None else self.last[indices]
        return replace(self, layers=layers, lengths=self.lengths[indices], last=last)

    def places(self, num: int) -> Tensor:
        """Return the next `num` columns of every row, (B, num)."""
        return self.lengths[:, None] + torch.arange(num, device=self.lengths.device)

    def with_room(self, num: int) -> "KVCache":
        """Return the cache with room for `num` more columns."""
        lacking = self.columns + num - self.room
        if lacking <= 0:
            return self
        padding = (0, 0, 0, 0, 0, room_for(lacking))
        return replace(self, layers=tuple(F.pad(layer, padding) for layer in self.layers))

    def extended(self, num: int, attend: Tensor | None, rows: Tensor | None = None) -> "KVCache":
        """Return the cache with the next `num` columns added, except padding.

        `rows` (B, num, width) are their hidden states in a shifted network.
        """
        added = torch.full_like(self.lengths, num) if attend is None else attend.sum(1)  # (B,)
        last = self.last
        if last is not None and rows is not None:
            newest = rows[torch.arange(len(rows), device=rows.device), (added - 1).clamp(min=0)]
            last = torch.where(added[:, None] > 0, newest, last)
        return replace(self, lengths=self.lengths + added, columns=self.columns + num, last=last)


def joined(caches: Sequence[KVCache]) -> KVCache:
    """Concatenate the rows of caches that have the same room."""
    lasts = [cache.last for cache in caches if cache.last is not None]
    return KVCache(
        layers=tuple(map(torch.cat, zip(*(cache.layers for cache in caches), strict=True))),
        lengths=torch.cat([cache.lengths for cache in caches]),
        columns=max(cache.columns for cache in caches),
        last=torch.cat(lasts) if lasts else None,
    )
