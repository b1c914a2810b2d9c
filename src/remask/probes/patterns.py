"""Which tokens each pass of a probe masks, and which of them it reads.

Masks are made for a flat batch of rows, in which answers, probes and passes stand side by side. The
draws of a row are keyed by (seed, item, pattern, sample number, pass), so that its mask does not
depend on the rows beside it; and `random15x4` has the first masks of `random15x8`.

The prompt is never masked. `random`, `stratified` and `suffix` mask the tail of EOS like the rest,
so that the length is not given away; what is read is the response alone.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from remask import rng
from remask.consistency.roundtrips import independent_masks, stratified_masks
from remask.denoisers.base import Denoiser
from remask.probes.settings import Probe
from remask.sampling.batches import finished_rows
from remask.values import Canvas, Sample

SUFFIX_BLOCK = 32  # tokens, where the model has no blocks of its own
_SHARED = -3  # a counter that no canvas offset uses


class ProbePass(NamedTuple):
    """One row of the flat batch: an answer, and the pass that is made over it."""

    sample: Sample
    probe: Probe
    number: int  # of the pass
    targets: tuple[bool, ...]  # (num_response,) the critical tokens; all where there are none
    seed: int


def passes_of(
    denoiser: Denoiser, sample: Sample, probe: Probe, targets: tuple[bool, ...], seed: int
) -> list[ProbePass]:
    """Return the rows of one answer's probe.

    The steps of `forced` are taken by one row.
    """
    num = probe.passes
    if probe.pattern == "forced":
        num = 1
    elif probe.pattern == "suffix" and denoiser.block_size is None:
        num = -(-sample.num_response // SUFFIX_BLOCK)
    return [ProbePass(sample, probe, number, targets, seed) for number in range(num)]


class ProbeBatch(NamedTuple):
    """Rows that go through a model together, on its device."""

    canvas: Canvas  # finished
    response: Tensor  # (B, L) bool: the tokens up to and including the first end token
    targets: Tensor  # (B, L) bool
    rows: Sequence[ProbePass]  # B

    @staticmethod
    def of(denoiser: Denoiser, rows: Sequence[ProbePass]) -> "ProbeBatch":
        """Return the batch of these passes; an answer is laid out once, however many it has."""
        names = [(id(row.sample), id(row.targets)) for row in rows]
        by_name = dict(zip(names, rows, strict=True))  # one pass of each answer
        answers, order = list(by_name.values()), {name: i for i, name in enumerate(by_name)}
        each = [order[name] for name in names]
        canvas, response = finished_rows(denoiser, [row.sample for row in answers])
        marked = np.zeros(response.shape, dtype=bool)
        for i, (sample, _, _, targets, _) in enumerate(answers):
            start = len(sample.prompt)
            marked[i, start : start + len(targets)] = targets
        attend = canvas.attend
        return ProbeBatch(
            canvas=Canvas(
                tokens=canvas.tokens[each],
                canvas=canvas.canvas[each],
                attend=None if attend is None else attend[each],
            ),
            response=response[each],
            targets=torch.from_numpy(marked).to(response.device)[each],
            rows=rows,
        )

    def each(self, values: Iterable[float]) -> Tensor:
        """Return a value of every row on the device, (B,)."""
        return torch.tensor(list(values), device=self.response.device)

    def keys(self, numbers: Iterable[int]) -> Tensor:
        """Return a stream of every row, (B,), under a number of the row's own."""
        return self.each(
            rng.key(seed, sample.item, f"probe/{probe.pattern}/{sample.number}", number)
            for (sample, probe, _, _, seed), number in zip(self.rows, numbers, strict=True)
        )


def masks(batch: ProbeBatch) -> Tensor:
    """Return what each row masks, (B, L) bool; `forced` begins with everything."""
    masked = torch.zeros_like(batch.response)
    for pattern, mask in _MASKS.items():
        here = [row.probe.pattern == pattern for row in batch.rows]
        if any(here):
            masked |= batch.each(here)[:, None] & mask(batch)
    return masked


def reads(batch: ProbeBatch, masked: Tensor, block_size: int | None) -> Tensor:
    """Return which response tokens each row reads, (B, L) bool: what it masks.

    With `visible` it is all of them, and with `suffix` the first block alone, unless the model has
    blocks of its own: then the row is read block by block in one pass.
    """
    shown = batch.each(row.probe.pattern == "visible" for row in batch.rows)[:, None]
    read = batch.response & (masked | shown)
    if block_size is not None:
        return read
    ends = batch.each(
        SUFFIX_BLOCK * (row.number + 1) if row.probe.pattern == "suffix" else math.inf
        for row in batch.rows
    )
    return read & (batch.canvas.offsets < ends[:, None])


def _halves(batch: ProbeBatch) -> Tensor:
    """Return one half of the targets in even passes and the other in odd ones, which follow."""
    keys = batch.keys(row.number // 2 for row in batch.rows)  # a pair shares its draws
    draws = rng.uniform(keys[:, None], batch.canvas.offsets).masked_fill(~batch.targets, 2.0)
    rank = draws.argsort(dim=1, stable=True).argsort(dim=1)  # (B, L)
    num_first = (batch.targets.sum(1, keepdim=True) + 1) // 2
    second = batch.each(row.number % 2 == 1 for row in batch.rows)[:, None]
    return batch.targets & ((rank < num_first) ^ second)


def _random(batch: ProbeBatch) -> Tensor:
    ratio = batch.each(row.probe.ratio for row in batch.rows)
    keys = batch.keys(row.number for row in batch.rows)
    return independent_masks(batch.canvas, batch.response, ratio, keys)


def _stratified(batch: ProbeBatch) -> Tensor:
    ratio = batch.each(row.probe.ratio for row in batch.rows)
    keys = batch.keys(row.number for row in batch.rows)
    shared = rng.fold_in(batch.keys(0 for _ in batch.rows), _SHARED)
    phase = batch.each(row.number / row.probe.passes for row in batch.rows)
    return stratified_masks(batch.canvas, batch.response, ratio, keys, shared, phase)


def _suffix(batch: ProbeBatch) -> Tensor:
    starts = batch.each(SUFFIX_BLOCK * row.number for row in batch.rows)[:, None]
    return batch.canvas.canvas & (batch.canvas.offsets >= starts)


_MASKS: Mapping[str, Callable[[ProbeBatch], Tensor]] = {
    "critical": lambda batch: batch.targets,
    "halves": _halves,
    "random": _random,
    "stratified": _stratified,
    "forced": lambda batch: batch.canvas.canvas,
    "visible": lambda batch: torch.zeros_like(batch.response),
    "suffix": _suffix,
}
