"""The editor's agreement: would the model, reading its finished answer, write it again?

LLaDA2.1 was trained to correct tokens that it sees, and its sampler edits a text until nothing
changes (see `sampling.editing`). So its prediction at a position that is *not* masked says whether
it still stands by the token there, with no masking and at the price of one forward pass. For every
other model the number can be computed, but such a model was never trained at visible positions: it
may simply copy what it sees, or say nothing of use.

A block-causal model judges every block by the answer up to that block's end, as its sampler did:
no block sees a later one, so one pass over the finished row judges all of them at once. This is not
in the paper; the signal is our own, and no part of its score.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser
from remask.errors import DenoiserError
from remask.sampling.batches import check_length, finished_rows, whole_canvas, whole_rows
from remask.sampling.loop import predict
from remask.sampling.settings import Rule
from remask.values import Sample, Score

_GREEDY = Rule()


@dataclass(frozen=True, kw_only=True, eq=False)
class EditorAgreement:
    """Share of the response's tokens that the model, seeing them all, predicts again.

    `by_metric` has that share, `editor_agreement`, and the mean probability of the tokens,
    `editor_probability`. Meant for models trained to edit (LLaDA2.1).
    """

    denoiser: Denoiser
    name: str = "editor"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        lengths = []
        for sample in samples:
            num_canvas = len(whole_canvas(self.denoiser, sample))
            check_length(self.denoiser, len(sample.prompt), num_canvas)
            lengths.append(len(sample.prompt) + num_canvas)
        out: dict[int, Score] = {}
        for batch in whole_rows(lengths, self.denoiser.device):
            out.update(zip(batch, self._read([samples[i] for i in batch]), strict=True))
        return [out[i] for i in range(len(samples))]

    def _read(self, samples: Sequence[Sample]) -> list[Score]:
        """Return the scores of one batch, from one forward pass."""
        denoiser = self.denoiser
        canvas, read = finished_rows(denoiser, samples)
        tokens = canvas.tokens[read]  # (M,)
        predicted = predict(denoiser, denoiser.hidden(canvas)[read], tokens, _GREEDY, None)
        if predicted.logp.isnan().any():
            raise DenoiserError(f"{denoiser.name} gave NaN logits; load it with dtype float32.")
        agreements = _means((predicted.tokens == tokens).double(), read)
        return list(map(self._score, agreements, _means(predicted.truth.double().exp(), read)))

    def _score(self, agreement: float, probability: float) -> Score:
        by_metric = {"editor_agreement": agreement, "editor_probability": probability}
        return Score(
            value=agreement, by_metric=by_metric, forwards=self.denoiser.forwards_per_call,
            scorer=self.name,
        )  # fmt: skip


def _means(values: Tensor, read: Tensor) -> list[float]:
    """Return the mean of each row of what was read, (M,) in the places of `read` (B, L)."""
    rows = torch.zeros_like(read, dtype=values.dtype).masked_scatter(read, values)
    means: list[float] = (rows.sum(1) / read.sum(1)).tolist()
    return means
