"""The editor's agreement: would the model, reading its finished answer, write it again?

LLaDA2.1 was trained to correct tokens that it sees, and its sampler edits a text until nothing
changes (see `sampling.editing`). So its prediction at a position that is *not* masked says whether
it still stands by the token there, with no masking and at the price of one forward pass. For every
other model the number can be computed, but such a model was never trained at visible positions: it
may simply copy what it sees, or say nothing of use.

A block-causal model judges every block by the answer up to that block's end, as its sampler did:
no block sees a later one, so one pass over the finished row judges all of them at once.

This is not in the paper, and no part of its score. Reading a finished answer with everything
visible was published as DiSE (arXiv:2603.02760), which takes the probability of the tokens where
the editor counts those that come back: see `dise`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser
from remask.sampling.batches import check_sample, finished_rows, spread, whole_canvas, whole_rows
from remask.sampling.loop import predict
from remask.sampling.outputs import checked_states, raise_fault
from remask.sampling.settings import Rule
from remask.settings import checked
from remask.values import Sample, Score, skips_empty

_GREEDY = Rule()


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class EditorAgreement:
    """Share of the response's tokens that the model, seeing them all, predicts again.

    `by_metric` has that share, `editor_agreement`, and the mean probability of the tokens,
    `editor_probability`. Meant for models trained to edit (LLaDA2.1).
    """

    denoiser: Denoiser
    name: str = "editor"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        return list(map(self._score, read_visible(self.denoiser, samples)))

    def _score(self, reading: "VisibleReading") -> Score:
        by_metric = {
            "editor_agreement": reading.agreement, "editor_probability": reading.probability,
        }  # fmt: skip
        return Score(
            value=reading.agreement, by_metric=by_metric, scorer=self.name,
            forwards=self.denoiser.forwards_per_call,
        )  # fmt: skip


class VisibleReading(NamedTuple):
    """What a model says of a finished answer that it sees whole: means over the response."""

    agreement: float  # share of tokens that it would write again
    probability: float
    logp: float


def read_visible(denoiser: Denoiser, samples: Sequence[Sample]) -> list[VisibleReading]:
    """Return one reading per sample, each from one forward pass."""
    for sample in samples:
        check_sample(denoiser, sample)
    lengths = [len(s.prompt) + len(whole_canvas(denoiser, s)) for s in samples]
    out: dict[int, VisibleReading] = {}

    def read(replica: Denoiser, batch: list[int]) -> list[VisibleReading]:
        return _read(replica, [samples[i] for i in batch])

    for batch, readings in spread(denoiser, whole_rows(lengths, denoiser.device), read):
        out.update(zip(batch, readings, strict=True))
    return [out[i] for i in range(len(samples))]


def _read(denoiser: Denoiser, samples: Sequence[Sample]) -> list[VisibleReading]:
    """Return the readings of one batch."""
    canvas, read = finished_rows(denoiser, samples)
    tokens = canvas.tokens[read]  # (M,)
    states = checked_states(denoiser, denoiser.hidden(canvas), canvas.tokens)
    predicted = predict(denoiser, states[read], tokens, _GREEDY, None)
    raise_fault(denoiser, predicted.fault)
    read, logp = read.cpu(), predicted.truth.cpu().double()  # (B, L), (M,)
    agreements = _means((predicted.tokens == tokens).cpu().double(), read)
    return list(map(VisibleReading, agreements, _means(logp.exp(), read), _means(logp, read)))


def _means(values: Tensor, read: Tensor) -> list[float]:
    """Return the mean of each row of what was read, (M,) in the places of `read` (B, L)."""
    rows = torch.zeros_like(read, dtype=values.dtype).masked_scatter(read, values)
    means: list[float] = (rows.sum(1) / read.sum(1)).tolist()
    return means
