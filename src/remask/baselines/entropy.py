"""Negative entropy of the model's predictions during generation, from the trace of an answer.

TRE (Weng et al., preprints.org 202606.2166) weights the tokens that a step reveals linearly by the
step. We know only the abstract. Assumed: a step counts with the mean over the response tokens that
it reveals; its weight is its number, from 1; and weights are normalised, so that the score does not
depend on the length.

Denoising entropy (Chen et al., arXiv:2512.21336) is the mean over steps of the mean entropy over
the masked tokens. Departure: a trace has only the current block, so later blocks do not count.

Both scores are in nats.
"""

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean

from remask.baselines.per_answer import PerAnswer
from remask.settings import checked
from remask.values import Sample, Score

NO_TRACE = "the answer has no trace of how it was written"


@checked
@dataclass(frozen=True, kw_only=True)
class RevealEntropy(PerAnswer):
    """Negative mean entropy of the predictions that revealed the response, weighted by step."""

    name: str = "tre"

    def _score(self, sample: Sample) -> Score:
        if sample.trace is None or sample.steps is None:
            return self._absent(NO_TRACE)
        by_step = defaultdict(list)  # a step's number is its weight
        revealed = zip(sample.steps, sample.trace.entropy, strict=True)
        for step, entropy in list(revealed)[: sample.num_response]:
            by_step[step + 1].append(entropy)
        weighted = sum(step * fmean(entropies) for step, entropies in by_step.items())
        return Score(value=-weighted / sum(by_step), scorer=self.name)


@checked
@dataclass(frozen=True, kw_only=True)
class DenoisingEntropy(PerAnswer):
    """Negative mean over steps of the mean entropy over the masked tokens."""

    name: str = "denoising_entropy"

    def _score(self, sample: Sample) -> Score:
        # A lone end token may have been written without a step (see `sampling.nested`).
        if sample.trace is None or not sample.trace.mean_entropy:
            return self._absent(NO_TRACE)
        return Score(value=-fmean(sample.trace.mean_entropy), scorer=self.name)
