"""How much goes through a model at once: rows cut into batches under a budget of tokens.

A CPU gains nothing from large batches; a GPU needs enough tokens to be busy. Rows of similar length
travel together, longest first.

Where a model is block-causal, what a batch takes is what it keeps: every row has room for all of
its columns, while a pass computes one block of each (see `blocks`).
"""

from collections.abc import Iterator, Sequence

import torch

from remask.denoisers.base import Denoiser
from remask.denoisers.kv_cache import room_for

# A pass over one block of each row is short: under the budget of whole rows, 128 rows of 512
# columns would send 4,096 tokens at a time to 256 experts, too few to keep a GPU busy.
_BLOCK_BY_BLOCK = 4


def token_budget(device: torch.device) -> int:
    """Return how many tokens one pass may compute, padding included."""
    return 2_048 if device.type == "cpu" else 65_536


def column_budget(device: torch.device) -> int:
    """Return how many columns a batch of a block-causal model may keep."""
    return _BLOCK_BY_BLOCK * token_budget(device)


def batches(lengths: Sequence[int], denoiser: Denoiser) -> Iterator[list[int]]:
    """Yield indices of rows that are written, or rebuilt, together by a `BlockIterator`.

    A padded batch stays within the budget. One of a block-causal model may be larger, and rows in
    it count with the room that their cache takes.
    """
    if denoiser.block_size is None:
        return whole_rows(lengths, denoiser.device)
    rooms = [room_for(length) for length in lengths]
    return _cut(lengths, rooms, column_budget(denoiser.device))


def batch_around_first(lengths: Sequence[int], denoiser: Denoiser) -> list[int]:
    """Return one batch, indices of rows: the first, and as many of the nearest in length as fit."""
    columns, budget = lengths, token_budget(denoiser.device)
    if denoiser.block_size is not None:
        columns, budget = [room_for(n) for n in lengths], column_budget(denoiser.device)
    batch, widest = [0], columns[0]
    for i in sorted(range(1, len(lengths)), key=lambda i: abs(lengths[i] - lengths[0])):
        widest = max(widest, columns[i])
        if (len(batch) + 1) * widest > budget:
            break
        batch.append(i)
    return batch


def whole_rows(lengths: Sequence[int], device: torch.device) -> Iterator[list[int]]:
    """Yield indices of rows that go through a model whole, whatever it is."""
    return _cut(lengths, lengths, token_budget(device))


def _cut(lengths: Sequence[int], columns: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield batches, longest rows first; each row of one takes as many columns as its first."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * columns[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
