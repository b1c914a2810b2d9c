"""Entropy of what the model predicted while it wrote an answer, read from the answer's trace.

TRE (Weng et al., preprints.org 202606.2166) looks at the tokens that a step reveals and gives later
steps more weight, linearly. Known here from the abstract. Assumed: a step counts with the mean over
the response's tokens that it reveals and with the weight t, its number from 1, and the weights are
divided by their sum, so that a long answer is not the worse for it.

Denoising entropy (Chen et al., arXiv:2512.21336) is, of a state, the mean entropy over what is
still masked, and of a path, the mean over its states. Departure: a trace knows the current block,
not the blocks behind it, so a state is that block's.

Both are uncertainties; the scores are minus these, in nats.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from remask.settings import checked
from remask.values import Sample, Score, skips_empty

NO_TRACE = "the answer has no trace of how it was written"


@checked
@dataclass(frozen=True, kw_only=True)
class RevealEntropy:
    """Minus the mean entropy of the predictions that revealed the response, late steps first."""

    name: str = "tre"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample; None for an answer without a trace."""
        return [self._score(sample) for sample in samples]

    def _score(self, sample: Sample) -> Score:
        if sample.trace is None or sample.steps is None:
            return Score(value=None, reason=NO_TRACE, scorer=self.name)
        by_step = defaultdict(list)  # a step's number is its weight
        revealed = zip(sample.steps, sample.trace.entropy, strict=True)
        for step, entropy in list(revealed)[: sample.num_response]:
            by_step[step + 1].append(entropy)
        weighted = sum(step * fmean(entropies) for step, entropies in by_step.items())
        return Score(value=-weighted / sum(by_step), scorer=self.name)


@checked
@dataclass(frozen=True, kw_only=True)
class DenoisingEntropy:
    """Minus the mean, over steps, of the mean entropy over what was still masked."""

    name: str = "denoising_entropy"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample; None for an answer without a trace."""
        return [self._score(sample) for sample in samples]

    def _score(self, sample: Sample) -> Score:
        # A lone end token may have been written without a step (see `sampling.nested`).
        if sample.trace is None or not sample.trace.mean_entropy:
            return Score(value=None, reason=NO_TRACE, scorer=self.name)
        return Score(value=-fmean(sample.trace.mean_entropy), scorer=self.name)
