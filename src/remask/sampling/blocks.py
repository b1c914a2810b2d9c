"""Block by block: what is written together, and what a model is shown of it.

A model that sees every position is shown whole rows. A block-causal one is shown the block alone:
it sees none that come later, and those before it are in its cache, and not computed again. Every
row goes on from its own prompt, so that all of them are in their first block at the same time,
then in their second.

Forward passes: the cache costs one pass over the whole blocks of the prompt, and one over every
block that another one follows. `BlockIterator.forwards` charges each row with those that it needs
itself, whichever rows are beside it, just as the loop counts its steps; that rows with the same
prompt share the first of them is not counted in their favour.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser, block_causal, starts_apart
from remask.denoisers.kv_cache import KVCache, joined
from remask.sampling.batches import token_budget
from remask.values import Canvas


def block_numbers(canvas: Canvas, block: int, row_block: int | None) -> Tensor:
    """Return the block that every canvas position is written in, (B, L); -1 elsewhere.

    Blocks begin with the canvas. Those of most models that have their own begin with the row, every
    `row_block` tokens, so that the first and the last of a canvas may be incomplete.
    """
    offsets = canvas.offsets
    if row_block is None:
        numbers = offsets // block
    else:
        start = -offsets[:, :1]  # (B, 1) tokens of the prompt
        numbers = (offsets + start) // row_block - start // row_block
    return numbers.where(canvas.canvas, -1)


def row_block(denoiser: Denoiser) -> int | None:
    """Return the size of blocks that begin with the row; None: with the canvas."""
    return None if starts_apart(denoiser) else denoiser.block_size


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockView:
    """One block of the rows still being written, w columns of each: the block, or all L."""

    # Counted, in every row, from the first block of its canvas; (b, 1) where they differ.
    number: int | Tensor
    rows: Tensor  # (b,) which rows of the batch
    starts: Tensor  # (b, 1) the first column that is shown of each
    canvas: Canvas  # (b, w) what the model is shown
    within: Tensor  # (b, w) bool: the block
    cache: KVCache | None  # what it keeps of the columns before

    def of(self, whole: Tensor) -> Tensor:
        """Return the columns that are shown of `whole` (B, L), (b, w)."""
        places = torch.arange(self.within.shape[1], device=whole.device)
        columns = (self.starts + places).clamp(max=whole.shape[1] - 1)
        return whole[self.rows].gather(1, columns)

    def put(self, whole: Tensor, values: Tensor) -> None:
        """Write what `values` (b, w) say of the block into `whole` (B, L)."""
        width = self.within.shape[1]
        places = torch.arange(whole.shape[1], device=whole.device) - self.starts  # (b, L)
        shown = (places >= 0) & (places < width)
        places = places.clamp(0, width - 1)
        here = shown & self.within.gather(1, places)
        whole[self.rows] = torch.where(here, values.gather(1, places), whole[self.rows])


class BlockIterator:
    """Goes through the blocks of a batch; iterating yields every `BlockView` once.

    The caller puts the tokens of each block into `tokens` before it asks for the next.
    """

    def __init__(self, denoiser: Denoiser, canvas: Canvas, numbers: Tensor) -> None:
        device = canvas.tokens.device
        self.denoiser, self.canvas, self.numbers = denoiser, canvas, numbers
        self.tokens = canvas.tokens.clone()  # (B, L)
        self.rows = torch.arange(len(canvas.tokens), device=device)  # (b,) still written
        self.forwards = torch.zeros(len(canvas.tokens), dtype=torch.long, device=device)
        self.cache: KVCache | None = None

    def __iter__(self) -> Iterator[BlockView]:
        """Yield the blocks from left to right, until no row is left."""
        num_blocks = int(self.numbers.max()) + 1
        if self.denoiser.block_size is not None:
            self._begin(self.denoiser.block_size)
        for number in range(num_blocks):
            if number > 0 and self.cache is not None:
                self.cache = self._keep(number, self.cache)
            yield self._part(number)
            if len(self.rows) == 0:
                return

    def at(self, current: Tensor) -> BlockView:
        """Return a view in which every row is in a block of its own, `current` (B,).

        What precedes it must have been written; a cache is read in one pass, and charged like that
        of the block before.
        """
        size = self.denoiser.block_size
        if size is not None:
            starts = self._whole(size) + current[:, None] * size  # (B, 1)
            self.forwards += (starts[:, 0] > 0) * self.denoiser.forwards_per_call
            self.cache = self._read(starts)
        return self._part(current[:, None])

    def leave(self, ended: Tensor) -> None:
        """Let rows of the last view go, those that are `ended` (b,)."""
        stay = (~ended).nonzero()[:, 0]
        self.rows = self.rows[stay]
        if self.cache is not None and 0 < len(stay) < len(ended):
            self.cache = self.cache.rows(stay)

    def _begin(self, size: int) -> None:
        """Read the prompts as far as they fill blocks."""
        starts = self._whole(size)
        self.forwards += (starts[:, 0] > 0) * self.denoiser.forwards_per_call
        self.cache = self._read(starts)

    def _whole(self, size: int) -> Tensor:
        """Return the tokens of the prompts that fill blocks, (B, 1)."""
        prompts = -self.canvas.offsets[:, :1]
        return prompts if starts_apart(self.denoiser) else prompts // size * size

    def _read(self, ends: Tensor) -> KVCache:
        """Return the cache of all rows up to `ends` (B, 1); rows that begin alike share a pass.

        Should no two begin alike, they may be more than one pass can take: they are read in chunks.
        """
        width = int(ends.max())
        place = torch.arange(width, device=ends.device)
        tokens, which = self.tokens[:, :width].masked_fill(place >= ends, -1), self.rows
        if width > 0:
            tokens, which = torch.unique(tokens, dim=0, return_inverse=True)
        size = max(1, token_budget(tokens.device) // max(1, width))  # rows of a chunk
        chunks = (tokens[start : start + size] for start in range(0, len(tokens), size))
        extend = block_causal(self.denoiser).extend_cache
        return joined([extend(_prompts(chunk)) for chunk in chunks]).rows(which)

    def _keep(self, number: int, cache: KVCache) -> KVCache:
        """Return the cache with the block before `number` added, as it was written."""
        goes_on = self.numbers[self.rows].amax(1) >= number
        self.forwards[self.rows] += goes_on * self.denoiser.forwards_per_call
        return block_causal(self.denoiser).extend_cache(self._part(number - 1).canvas, cache)

    def _part(self, number: int | Tensor) -> BlockView:
        return self._rows(number) if self.cache is None else self._block(number, self.cache)

    def _rows(self, number: int | Tensor) -> BlockView:
        rows, attend = self.rows, self.canvas.attend
        return BlockView(
            number=number,
            rows=rows,
            starts=torch.zeros_like(rows)[:, None],
            canvas=Canvas(
                tokens=self.tokens[rows],
                canvas=self.canvas.canvas[rows],
                attend=None if attend is None else attend[rows],
            ),
            within=self.numbers[rows] == number,
            cache=None,
        )

    def _block(self, number: int | Tensor, cache: KVCache) -> BlockView:
        """Return the block behind the cache; where a row ends in it, or has ended, is padding."""
        rows, whole, length = self.rows, self.canvas, self.tokens.shape[1]
        places = cache.places(self.denoiser.block_size or 0)  # (b, w)
        columns = places.clamp(max=length - 1)
        real = places < length
        if whole.attend is not None:
            real &= whole.attend[rows].gather(1, columns)
        written = real & whole.canvas[rows].gather(1, columns)
        return BlockView(
            number=number,
            rows=rows,
            starts=places[:, :1],
            canvas=Canvas(
                tokens=self.tokens[rows].gather(1, columns),
                canvas=written,
                attend=real,
                places=whole.offsets[rows].gather(1, columns),
            ),
            within=written & (self.numbers[rows].gather(1, columns) == number),
            cache=cache,
        )


def _prompts(tokens: Tensor) -> Canvas:
    """Return a canvas of prompts alone, (b, w), that end where a block does; negative: padding."""
    real = tokens >= 0
    place = torch.arange(tokens.shape[1], device=tokens.device)
    return Canvas(
        tokens=tokens.clamp(min=0),
        canvas=torch.zeros_like(real),
        attend=real,
        places=place - real.sum(1, keepdim=True),
    )
