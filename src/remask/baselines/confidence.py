"""Model confidence: the mean probability of the generated tokens.

The paper averages the probability of the final token over the steps that unmasked a position, then
over positions. LLaDA unmasks every position once. The paper averages over the whole canvas, whose
EOS tail is nearly certain; the default here is the response.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from remask.baselines.per_answer import PerAnswer
from remask.settings import checked
from remask.values import Sample, Score


@checked
@dataclass(frozen=True, kw_only=True)
class ModelConfidence(PerAnswer):
    """Mean probability of the tokens when they were unmasked, from untempered logits."""

    scope: Literal["response", "canvas"] = "response"

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in tables and records."""
        return "confidence" if self.scope == "response" else "confidence_canvas"

    def _score(self, sample: Sample) -> Score:
        if sample.probs is None:
            return self._absent("the answer was not generated here")
        stop = sample.num_response if self.scope == "response" else len(sample.probs)
        return Score(value=fmean(sample.probs[:stop]), scorer=self.name)
