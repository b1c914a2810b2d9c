"""Self-evaluation: ask the model whether its answer is right (the paper's prompt)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from remask.denoisers.base import Denoiser
from remask.sampling.sampler import SamplerSettings, sample
from remask.values import Sample, Score

PROMPT = (
    "Question: {question}\n\nYour Answer: {answer}\n\nIs this answer correct? Respond with a "
    "confidence score between 0.0 (definitely wrong) and 1.0 (definitely correct). Only output the "
    "numerical score, nothing else."
)
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")


@dataclass(frozen=True, kw_only=True, eq=False)
class SelfEvaluation:
    """The number the model answers with; absent, and said so, where it answers with none."""

    denoiser: Denoiser
    questions: Mapping[str, str]  # item -> the prompt as text
    settings: SamplerSettings
    seed: int = 0
    name: str = "self_evaluation"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        prompts = [PROMPT.format(question=self.questions[s.item], answer=s.text) for s in samples]
        replies = sample(
            self.denoiser,
            [self.denoiser.tokenizer.render(prompt) for prompt in prompts],
            self.settings,
            items=[f"{s.item}/{s.number}/judge" for s in samples],
            seed=self.seed,
        )
        return [self._score(reply) for reply in replies]

    def _score(self, reply: Sample) -> Score:
        value = read_confidence(reply.text)
        reason = "" if value is not None else f"no number in the reply {reply.text[:60]!r}"
        return Score(value=value, forwards=reply.forwards, reason=reason)


def read_confidence(text: str) -> float | None:
    """Return the first number in [0, 1]; above 1 it is read on a scale of 10, then clipped."""
    found = _NUMBER.search(text)
    if found is None:
        return None
    value = float(found.group()[:32])
    return min(1.0, max(0.0, value / 10 if value > 1 else value))
