"""Baselines by name, each made for the answers at hand, and about what each costs.

Two of them read an answer's trajectory by what is extracted, not by a task's key for votes: a key
may run a program, and there is an answer for every step.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from remask.baselines.dcocoa import DCoCoA
from remask.baselines.dise import DiSE
from remask.baselines.editor import EditorAgreement
from remask.baselines.entropy import DenoisingEntropy, RevealEntropy
from remask.baselines.judge import SelfEvaluation, reply_settings
from remask.baselines.length import CriticalCount, Length
from remask.baselines.likelihood import DRAWS, Perplexity
from remask.baselines.trajectory import TemporalEntropy, TemporalVote
from remask.denoisers.base import Denoiser
from remask.sampling.settings import SamplerSettings
from remask.values import Sample, Scorer


class BaselineContext(NamedTuple):
    """What a baseline is made of."""

    denoiser: Denoiser
    questions: Mapping[str, str]  # item -> the prompt as text
    extract: Callable[[str], str | None]  # the final answer of a text
    critical: Callable[[Sample], Sequence[bool]]  # of each response token
    sampler: SamplerSettings
    seed: int

    def answer(self, sample: Sample) -> str | None:
        """Return what is read in an answer."""
        return self.extract(sample.text)


def _self_evaluation(context: BaselineContext) -> Scorer:
    return SelfEvaluation(
        denoiser=context.denoiser,
        questions=context.questions,
        settings=reply_settings(context.denoiser, context.sampler),
        seed=context.seed,
    )


MAKERS: Mapping[str, Callable[[BaselineContext], Scorer]] = {
    "self_evaluation": _self_evaluation,
    "editor": lambda c: EditorAgreement(denoiser=c.denoiser),
    "dise": lambda c: DiSE(denoiser=c.denoiser),
    "perplexity": lambda c: Perplexity(denoiser=c.denoiser, seed=c.seed),
    "dcocoa": lambda c: DCoCoA(denoiser=c.denoiser, seed=c.seed),
    "length": lambda c: Length(),
    "critical_count": lambda c: CriticalCount(critical=c.critical),
    "tre": lambda c: RevealEntropy(),
    "denoising_entropy": lambda c: DenoisingEntropy(),
    "temporal_vote": lambda c: TemporalVote(tokenizer=c.denoiser.tokenizer, key=c.answer),
    "temporal_entropy": lambda c: TemporalEntropy(tokenizer=c.denoiser.tokenizer, key=c.answer),
}


def baseline_forwards(names: Sequence[str], denoiser: Denoiser, sampler: SamplerSettings) -> int:
    """Return about how many passes these baselines take of an answer."""
    price = {
        "self_evaluation": reply_settings(denoiser, sampler).steps,
        "editor": 1,
        "dise": 1,
        "perplexity": DRAWS,
        "dcocoa": DRAWS,
    }
    return sum(price.get(name, 0) for name in names)
