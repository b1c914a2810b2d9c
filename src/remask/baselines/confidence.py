"""Model confidence: how sure the model was of the tokens it wrote.

The paper averages, for each position, the probability of the final token over the steps that
unmasked it, then over positions. LLaDA unmasks every position once. The paper's letter averages
over the whole canvas, whose EOS tail is nearly certain; the response alone is the default here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from remask.settings import checked
from remask.values import Sample, Score, skips_empty


@checked
@dataclass(frozen=True, kw_only=True)
class ModelConfidence:
    """Mean probability of the tokens when they were unmasked, from untempered logits."""

    scope: Literal["response", "canvas"] = "response"

    @property
    def name(self) -> str:
        """Name in tables and records."""
        return "confidence" if self.scope == "response" else "confidence_canvas"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample; None for an answer that was not generated here."""
        return [self._score(sample) for sample in samples]

    def _score(self, sample: Sample) -> Score:
        if sample.probs is None:
            return Score(value=None, reason="the answer was not generated here", scorer=self.name)
        stop = sample.num_response if self.scope == "response" else len(sample.probs)
        return Score(value=fmean(sample.probs[:stop]), scorer=self.name)
