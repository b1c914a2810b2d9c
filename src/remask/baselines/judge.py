"""Self-evaluation: ask the model whether its answer is right, with the paper's prompt.

The paper does not say how the reply is sampled. Here it is greedy, on a canvas of 32 tokens, one
token per step.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from remask.denoisers.base import Denoiser
from remask.errors import InputError
from remask.sampling.batches import check_length, whole_length
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.settings import Seed, checked
from remask.values import Sample, Score, skips_empty

PROMPT = (
    "Question: {question}\n\nYour Answer: {answer}\n\nIs this answer correct? Respond with a "
    "confidence score between 0.0 (definitely wrong) and 1.0 (definitely correct). Only output the "
    "numerical score, nothing else."
)
REPLY = 32  # tokens
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class SelfEvaluation:
    """The number in the reply of the model; absent if the reply has no number."""

    denoiser: Denoiser
    questions: Mapping[str, str]  # the prompt as text, by item, for samples without a `question`
    settings: SamplerSettings
    seed: Seed = 0
    name: str = "self_evaluation"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample; absent if the prompt is unknown or too long."""
        prompts = [self._prompt(one) for one in samples]
        able = [i for i, prompt in enumerate(prompts) if not isinstance(prompt, Score)]
        replies = sample(
            self.denoiser,
            [prompt for prompt in prompts if not isinstance(prompt, Score)],
            self.settings,
            items=[f"{samples[i].item}/{samples[i].number}/judge" for i in able],
            seed=self.seed,
        )
        scores = dict(zip(able, map(self._score, replies), strict=True))
        return [p if isinstance(p, Score) else scores[i] for i, p in enumerate(prompts)]

    def _prompt(self, answer: Sample) -> list[int] | Score:
        """Return the prompt for the judgement of an answer, or an absent score."""
        question = answer.question or self.questions.get(answer.item, "")
        if not question:
            reason = f"the prompt of item {answer.item!r} is not known"
            return Score(value=None, reason=reason, scorer=self.name)
        text = PROMPT.format(question=question, answer=answer.text)
        try:
            prompt = self.denoiser.tokenizer.render(text)
            length = whole_length(self.denoiser, len(prompt), self.settings.length)
            check_length(self.denoiser, len(prompt), length)
        except InputError as error:
            return Score(value=None, reason=f"it cannot be asked about: {error}", scorer=self.name)
        return prompt

    def _score(self, reply: Sample) -> Score:
        value = read_confidence(reply.text)
        reason = "" if value is not None else f"no number in the reply {reply.text[:60]!r}"
        return Score(value=value, forwards=reply.forwards, reason=reason, scorer=self.name)


def reply_settings(denoiser: Denoiser, sampler: SamplerSettings) -> SamplerSettings:
    """Return the sampler settings of a reply."""
    block = denoiser.block_size or (sampler.block if REPLY % sampler.block == 0 else REPLY)
    length = block * -(-REPLY // block)
    return replace(sampler.at(0.0), length=length, steps=length, block=block)


def read_confidence(text: str) -> float | None:
    """Return the first number clipped to [0, 1]; above 1 it is divided by 10 first."""
    number = _NUMBER.search(text)
    if number is None:
        return None
    value = float(number.group()[:32])
    return min(1.0, max(0.0, value / 10 if value > 1 else value))
