"""DiSE: how probable a finished answer is to the model that sees all of it (arXiv:2603.02760).

Zhong et al. take as confidence the probability of regenerating the tokens of an answer given the
whole sequence, nothing masked: one forward pass. Known here from the abstract. Assumed: the mean of
log p over the response, its end token included (a sum would measure length), and for a block-causal
model, which the authors did not try, every block behind those before it, as in `editor`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from remask.baselines.editor import read_visible
from remask.denoisers.base import Denoiser
from remask.settings import checked
from remask.values import Sample, Score, skips_empty


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class DiSE:
    """Mean log-probability of the response's tokens, all of them visible."""

    denoiser: Denoiser
    name: str = "dise"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        forwards = self.denoiser.forwards_per_call
        return [
            Score(value=reading.logp, forwards=forwards, scorer=self.name)
            for reading in read_visible(self.denoiser, samples)
        ]
