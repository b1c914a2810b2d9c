"""Which rows stand in which batch: a function of the seed, so a resumed run goes on as it was.

In each pass over the rows every row draws a canvas, from its response and one end token up to the
largest, short ones more often, and waits for others of its row length. A batch leaves when it is
full, with as many tokens as any other batch; what still waits at the end of a pass goes on waiting
in the next. So no row is padded, and no batch is smaller: the tail of end tokens behind a response
is canvas too, which is how a model learns to stop on canvases of any length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from remask import rng
from remask.pretrain.adapt_rows import TokenRows

ORDER_VERSION = 2  # of the order that is drawn: a run goes on with its own or not at all


class RowBatch(NamedTuple):
    """One batch: rows by their numbers, all of one length."""

    length: int
    rows: NDArray[np.int64]  # (B,), B x length being the same for every batch
    epoch: int  # the pass over the rows in which it became full


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchPlan:
    """The batches of a training."""

    rows: TokenRows
    lengths: tuple[int, ...]  # of rows, in rising order; divisors of `tokens`
    tokens: int  # of a batch
    canvas: int  # the largest
    least_canvas: int
    seed: int
    tails: bool = True  # False: a canvas ends with the first end token

    def batches(self, epochs: int, *, first: int = 0) -> Iterator[RowBatch]:
        """Yield the batches of so many passes over the rows, in order; `first` is the first's."""
        waiting = {length: np.empty(0, np.int64) for length in self.lengths}
        for epoch in range(first, first + epochs):
            order, chosen = self._draw(epoch)
            full: list[tuple[int, RowBatch]] = []
            for length, earlier in waiting.items():
                size, places = self.tokens // length, np.flatnonzero(chosen == length)
                queue = np.concatenate((earlier, order[places]))
                for start in range(0, len(queue) - size + 1, size):
                    last = int(places[start + size - 1 - len(earlier)])  # who made it full
                    rows = queue[start : start + size]
                    full.append((last, RowBatch(length, rows, epoch)))
                waiting[length] = queue[len(queue) // size * size :]
            yield from (batch for _, batch in sorted(full, key=lambda pair: pair[0]))

    def num_batches(self, epochs: int, *, first: int = 0) -> int:
        """Return how many there are."""
        return sum(1 for _ in self.batches(epochs, first=first))

    def held_out(self) -> Iterator[tuple[float, RowBatch]]:
        """Yield batches of all rows on the largest canvas, each with its share of the rows.

        Rows of a length come round again until their last batch is full.
        """
        lengths = self._lengths(np.full(len(self.rows), self.canvas))
        for length in self.lengths:
            rows = np.flatnonzero(lengths == length)
            if len(rows):
                size = self.tokens // length
                num = -(-len(rows) // size)
                for batch in np.resize(rows, (num, size)):
                    yield len(rows) / len(self.rows) / num, RowBatch(length, batch, 0)

    def _draw(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the order of the rows in a pass, and the row length of each in that order."""
        key = rng.key(self.seed, "adapt", "order", epoch)
        generator = np.random.Generator(np.random.PCG64(key % 2**64))
        order = generator.permutation(len(self.rows))
        if not self.tails:
            return order, self._lengths(self.rows.num_response + 1)[order]
        least = np.clip(self.rows.num_response + 1, self.least_canvas, self.canvas)
        draws = generator.random(len(self.rows)) ** 2  # long tails teach little, and cost as much
        canvas = least + np.floor(draws * (self.canvas - least + 1)).astype(np.int64)
        return order, self._lengths(canvas)[order]

    def _lengths(self, canvas: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the shortest row length that holds each prompt and its canvas, or the longest."""
        wanted = np.minimum(self.rows.num_prompt + canvas, self.lengths[-1])
        known = np.array(self.lengths)
        out: NDArray[np.int64] = known[np.searchsorted(known, wanted)]
        return out
