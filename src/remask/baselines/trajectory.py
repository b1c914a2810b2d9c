"""Scores from the tentative answers of all denoising steps, from the trace of an answer.

Wang et al. (arXiv:2508.09138) extract an answer from the prediction of every step. Temporal
self-consistency voting weights step s of S by exp(alpha s / S), with alpha 5 in their published
runs, and returns the answer with the most weight; unreadable answers do not vote. The score here is
the weight share of the final answer.

Temporal semantic entropy is the entropy over groups of steps with equal answers. We know only the
abstract. Assumed: all steps have equal weight, unreadable ones do not count, and `key` decides
which answers are equal, as in self-consistency.

Departure: a step counts only if it predicted the whole response (`remask.sampling.trajectory`).
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from remask.baselines.entropy import NO_TRACE
from remask.baselines.per_answer import PerAnswer
from remask.denoisers.tokenizer import Tokenizer
from remask.sampling.trajectory import tentative_answers
from remask.settings import checked
from remask.values import Sample, Score, Trace

Key = Callable[[Sample], str | None]  # equal keys mean equal answers; None: unreadable
ALPHA = 5.0
NO_STEP = "no step had an answer that can be read"


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class TemporalVote(PerAnswer):
    """Weight share of the steps whose answer is the final one; 0 if that is unreadable.

    None without a trace, or if no step has a readable answer.
    """

    tokenizer: Tokenizer
    key: Key
    alpha: float = ALPHA
    name: str = "temporal_vote"

    def _score(self, sample: Sample) -> Score:
        if sample.trace is None:
            return self._absent(NO_TRACE)
        own = self.key(sample)
        votes = _tentative_keys(self.tokenizer, sample, sample.trace, self.key)
        weights = [math.exp(self.alpha * step / len(votes)) for step in range(len(votes))]
        cast = [(vote, w) for vote, w in zip(votes, weights, strict=True) if vote is not None]
        if own is None:
            return Score(value=0.0, scorer=self.name)
        if not cast:
            return self._absent(NO_STEP)
        agreeing = sum(weight for vote, weight in cast if vote == own)
        return Score(value=agreeing / sum(weight for _, weight in cast), scorer=self.name)


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class TemporalEntropy(PerAnswer):
    """Negative entropy, in nats, over the answers of the steps.

    None without a trace, or if no step has a readable answer.
    """

    tokenizer: Tokenizer
    key: Key
    name: str = "temporal_entropy"

    def _score(self, sample: Sample) -> Score:
        if sample.trace is None:
            return self._absent(NO_TRACE)
        keys = _tentative_keys(self.tokenizer, sample, sample.trace, self.key)
        groups = Counter(key for key in keys if key is not None)
        if not groups:
            return self._absent(NO_STEP)
        shares = [number / groups.total() for number in groups.values()]
        return Score(value=sum(share * math.log(share) for share in shares), scorer=self.name)


def _tentative_keys(
    tokenizer: Tokenizer, sample: Sample, trace: Trace, key: Key
) -> list[str | None]:
    def read(text: str) -> str | None:
        return key(replace(sample, text=text))

    return tentative_answers(trace, sample.num_response, tokenizer.decode, read)
