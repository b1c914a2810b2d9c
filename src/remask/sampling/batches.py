"""Rows and batches: how long a row is, which rows go through a model together, and on which device.

Rows are cut into batches under a budget of tokens. A CPU gains nothing from large batches, and
loses where they make the allocator hand back memory and ask for it anew in every layer; a GPU needs
enough tokens to be busy. Rows of similar length go together, longest first.

Where a model is block-causal, what a batch takes is its cache: every row has room for all of its
columns, while a pass computes one block of each (see `blocks`).

Batches are formed as for one device, and a replica takes the next when it is free, so a result does
not depend on how many replicas there are, nor on which of them it came from. A job of one batch
occupies one device.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from queue import SimpleQueue
from typing import TypeVar

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser, starts_apart
from remask.denoisers.kv_cache import room_for
from remask.denoisers.wrap import Replicas
from remask.errors import InputError
from remask.values import Canvas, Sample

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")

# Of a pass, by the kind of device: Metal shares its memory with everything else that runs.
_TOKENS = {"cpu": 1_024, "mps": 8_192, "cuda": 65_536}
# A pass over one block of each row is short: under the budget of whole rows, 128 rows of 512
# columns would send 4,096 tokens at a time to 256 experts, too few to keep a GPU busy.
_BLOCK_BY_BLOCK = 4


def whole_length(denoiser: Denoiser, num_prompt: int, num_canvas: int) -> int:
    """Return the canvas that ends with a block: a block-causal model has seen no other."""
    if denoiser.block_size is None:
        return num_canvas
    before = 0 if starts_apart(denoiser) else num_prompt
    return num_canvas + -(before + num_canvas) % denoiser.block_size


def whole_canvas(denoiser: Denoiser, sample: Sample) -> tuple[int, ...]:
    """Return the canvas of an answer, its tail long enough to fill the last block of the row."""
    length = whole_length(denoiser, len(sample.prompt), len(sample.canvas))
    return (*sample.canvas, *[denoiser.tokenizer.eos_id] * (length - len(sample.canvas)))


def finished_rows(denoiser: Denoiser, samples: Sequence[Sample]) -> tuple[Canvas, Tensor]:
    """Return the batch of finished answers and their responses, (B, L) bool.

    A response ends with its first end token, or with the canvas.
    """
    canvas = Canvas.of(
        [s.prompt for s in samples],
        [whole_canvas(denoiser, s) for s in samples],
        denoiser.tokenizer.pad_id,
        denoiser.device,
    )
    ends = torch.tensor([s.num_response for s in samples], device=denoiser.device)
    return canvas, canvas.canvas & (canvas.offsets < ends[:, None])


def check_length(denoiser: Denoiser, num_prompt: int, num_canvas: int) -> None:
    """Refuse a row that is longer than the model's context."""
    if num_prompt + num_canvas > denoiser.max_length:
        raise InputError(
            f"the prompt has {num_prompt} tokens and its answer room for {num_canvas}, more than "
            f"the {denoiser.max_length} that {denoiser.name} can hold; shorten one of them."
        )


def check_sample(denoiser: Denoiser, sample: Sample) -> None:
    """Refuse an answer that is too long for the model, or has other tokens than the model."""
    check_length(denoiser, len(sample.prompt), len(whole_canvas(denoiser, sample)))
    check_ids(denoiser, sample.prompt, "prompt")
    check_ids(denoiser, sample.canvas, "canvas")


def check_ids(denoiser: Denoiser, ids: Sequence[int], what: str) -> None:
    """Refuse ids that the model does not have, and the mask token."""
    wrong = [i for i in ids and (min(ids), max(ids)) if not 0 <= i < denoiser.vocab_size]
    if wrong:
        raise InputError(
            f"ids of the {what} must be between 0 and {denoiser.vocab_size - 1}, got {wrong[0]}."
        )
    if denoiser.tokenizer.mask_id in ids:
        raise InputError(
            f"ids of the {what} must not contain the mask token ({denoiser.tokenizer.mask_id})."
        )


def token_budget(device: torch.device) -> int:
    """Return how many tokens one pass may compute, padding included."""
    return _TOKENS.get(device.type, _TOKENS["cuda"])


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


def spread(
    denoiser: Denoiser,
    batches: Iterable[_Batch],
    work: Callable[[Denoiser, _Batch], _Result],
) -> Iterator[tuple[_Batch, _Result]]:
    """Yield each batch with what `work(replica, batch)` returned, in the order of the batches.

    An ordinary denoiser does one after another. Replicas have a thread each; the first error, in
    the order of the batches, is raised here, and batches that have not begun are left.
    """
    if not isinstance(denoiser, Replicas):
        for batch in batches:
            yield batch, work(denoiser, batch)
        return
    free: SimpleQueue[Denoiser] = SimpleQueue()
    for replica in denoiser.all:
        free.put(replica)

    def run(batch: _Batch) -> _Result:
        replica = free.get()  # as many threads as replicas: one is free
        try:
            with _on(replica.device):
                return work(replica, batch)
        finally:
            free.put(replica)

    with ThreadPoolExecutor(len(denoiser.all)) as threads:
        begun = [(batch, threads.submit(run, batch)) for batch in batches]
        try:
            for batch, result in begun:
                yield batch, result.result()
        finally:
            for _, result in begun:
                result.cancel()


def _on(device: torch.device) -> "torch.cuda.device | nullcontext[None]":
    """Return a context in which new work of this thread belongs to `device`."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
