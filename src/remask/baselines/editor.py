"""Editor agreement: the share of visible tokens that the model predicts again.

LLaDA2.1 was trained to correct visible tokens, and its sampler edits a text until nothing changes
(`sampling.editing`). Its prediction at an unmasked position therefore shows whether it would keep
the token; one forward pass reads all positions. Other models were never trained at visible
positions and may simply copy the input.

In a block-causal model no block sees a later one, so one pass over the finished row is enough.

This score is not in the paper. DiSE (arXiv:2603.02760; `probes.scorer.DiSE`) takes the probability
of the visible tokens instead.
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
    """Means over the response."""

    agreement: float  # share of tokens that are predicted again
    probability: float


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
    canvas, read = finished_rows(denoiser, samples)
    tokens = canvas.tokens[read]  # (M,)
    states = checked_states(denoiser, denoiser.hidden(canvas), canvas.tokens)
    predicted = predict(denoiser, states[read], tokens, _GREEDY, None)
    raise_fault(denoiser, predicted.fault)
    read, probs = read.cpu(), predicted.truth.cpu().double().exp()  # (B, L), (M,)
    agreements = _means((predicted.tokens == tokens).cpu().double(), read)
    return list(map(VisibleReading, agreements, _means(probs, read)))


def _means(values: Tensor, read: Tensor) -> list[float]:
    """Return the row means of values, (M,), at the positions `read`, (B, L)."""
    rows = torch.zeros_like(read, dtype=values.dtype).masked_scatter(read, values)
    means: list[float] = (rows.sum(1) / read.sum(1)).tolist()
    return means
