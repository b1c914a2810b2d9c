"""Masks of a flat batch of rows, one row for each answer, probe and pass.

The draws of a row are keyed by (seed, item, pattern, sample number, pass), so that its mask does
not depend on the other rows of the batch.

The prompt is never masked. `stratified` masks the tail of EOS too, so that the mask does not reveal
the length of the response. Only response tokens are read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from remask import rng
from remask.consistency.roundtrips import stratified_masks
from remask.denoisers.base import Denoiser
from remask.probes.settings import Probe
from remask.sampling.batches import finished_rows
from remask.values import Canvas, Sample

_SHARED = -3  # a counter that no canvas offset uses


class ProbePass(NamedTuple):
    """One row of the flat batch: a pass of a probe over an answer."""

    sample: Sample
    probe: Probe
    number: int  # of the pass
    targets: tuple[bool, ...]  # (num_response,) the critical tokens; all where there are none
    seed: int


class ProbeBatch(NamedTuple):
    """Rows of one forward pass, on the device of the model."""

    canvas: Canvas  # finished
    response: Tensor  # (B, L) bool: the tokens up to and including the first end token
    targets: Tensor  # (B, L) bool
    rows: Sequence[ProbePass]  # B

    @staticmethod
    def of(denoiser: Denoiser, rows: Sequence[ProbePass]) -> "ProbeBatch":
        """Return the batch of these passes; each answer is laid out once."""
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
        """Return one value per row as a tensor on the device, (B,)."""
        return torch.tensor(list(values), device=self.response.device)

    def keys(self, numbers: Iterable[int]) -> Tensor:
        """Return the random stream of every row, (B,), under these numbers."""
        return self.each(
            rng.key(seed, sample.item, f"probe/{probe.pattern}/{sample.number}", number)
            for (sample, probe, _, _, seed), number in zip(self.rows, numbers, strict=True)
        )


def masks(batch: ProbeBatch) -> Tensor:
    """Return the masked tokens of each row, (B, L) bool."""
    masked = torch.zeros_like(batch.response)
    for pattern, mask in _MASKS.items():
        here = [row.probe.pattern == pattern for row in batch.rows]
        if any(here):
            masked |= batch.each(here)[:, None] & mask(batch)
    return masked


def reads(batch: ProbeBatch, masked: Tensor) -> Tensor:
    """Return the response tokens that each row reads, (B, L): masked ones, or all for `visible`."""
    shown = batch.each(row.probe.pattern == "visible" for row in batch.rows)[:, None]
    return batch.response & (masked | shown)


def _halves(batch: ProbeBatch) -> Tensor:
    """Return a random half of the targets in even passes, the other half in the next odd pass."""
    keys = batch.keys(row.number // 2 for row in batch.rows)  # both halves share their draws
    draws = rng.uniform(keys[:, None], batch.canvas.offsets).masked_fill(~batch.targets, 2.0)
    rank = draws.argsort(dim=1, stable=True).argsort(dim=1)  # (B, L)
    num_first = (batch.targets.sum(1, keepdim=True) + 1) // 2
    second = batch.each(row.number % 2 == 1 for row in batch.rows)[:, None]
    return batch.targets & ((rank < num_first) ^ second)


def _stratified(batch: ProbeBatch) -> Tensor:
    ratio = batch.each(row.probe.ratio for row in batch.rows)
    keys = batch.keys(row.number for row in batch.rows)
    shared = rng.fold_in(batch.keys(0 for _ in batch.rows), _SHARED)
    phase = batch.each(row.number / row.probe.passes for row in batch.rows)
    return stratified_masks(batch.canvas, batch.response, ratio, keys, shared, phase)


_MASKS: Mapping[str, Callable[[ProbeBatch], Tensor]] = {
    "critical": lambda batch: batch.targets,
    "halves": _halves,
    "stratified": _stratified,
    "visible": lambda batch: torch.zeros_like(batch.response),
}
