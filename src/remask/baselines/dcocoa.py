"""D-CoCoA: log-likelihood of an answer times its distance from the drafts (arXiv:2605.14570).

Vazhentsev et al. transfer CoCoA (arXiv:2502.04964), the uncertainty of an answer times its mean
dissimilarity to other answers, to diffusion: the likelihood is that of masked diffusion, and the
other answers are intermediate states. We know only abstracts and summaries. Assumed: the
uncertainty is minus the mean log-probability under random masks (`likelihood`), all steps have
equal weight, and the dissimilarity of a step is the share of predicted response tokens that differ
from the final ones. The authors compare meanings; comparing tokens needs no other model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from remask.baselines.entropy import NO_TRACE
from remask.baselines.likelihood import DRAWS, Draws, draw_forwards, masked_log_likelihood
from remask.denoisers.base import Denoiser
from remask.settings import Seed, checked
from remask.values import Sample, Score, Trace, skips_empty


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class DCoCoA:
    """Mean log-probability under random masks times the dissimilarity of the drafts."""

    denoiser: Denoiser
    draws: Draws = DRAWS
    seed: Seed = 0
    name: str = "dcocoa"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample; None, at no cost, for answers without a trace."""
        # A lone end token may have been written without a step (see `sampling.nested`).
        traced = [(i, s, s.trace) for i, s in enumerate(samples) if s.trace and s.trace.tentative]
        means = masked_log_likelihood(
            self.denoiser, [sample for _, sample, _ in traced], draws=self.draws, seed=self.seed
        )
        scores = [Score(value=None, reason=NO_TRACE, scorer=self.name)] * len(samples)
        for (i, sample, trace), mean in zip(traced, means, strict=True):
            scores[i] = self._score(mean, dissimilarity(sample, trace))
        return scores

    def _score(self, mean: float, dissimilar: float) -> Score:
        return Score(
            value=mean * dissimilar,
            by_metric={"masked_likelihood": mean, "dissimilarity": dissimilar},
            forwards=draw_forwards(self.denoiser, self.draws),
            scorer=self.name,
        )


def dissimilarity(sample: Sample, trace: Trace) -> float:
    """Return the mean over steps of the share of predicted response tokens that changed."""
    response = sample.canvas[: sample.num_response]
    shares = []
    for tokens in trace.tentative:
        pairs = zip(tokens[: sample.num_response], response, strict=True)
        shares.append(fmean(token != final for token, final in pairs if token >= 0))
    return fmean(shares)
