"""The answers that a model had in mind while it wrote one, read from the answer's trace.

Wang et al. (arXiv:2508.09138) read the final answer out of what every step would have written.
Temporal self-consistency voting gives step s of S the weight exp(alpha s / S), with alpha 5 in
their published runs, and takes the answer with most weight; a step whose answer cannot be read has
no vote. Here the vote says how far to trust the answer that was written: its share of the weight.

Temporal semantic entropy is the entropy over groups of steps that say the same. Known here from the
abstract. Assumed: every step counts alike, one that cannot be read not at all, and two answers are
one group where the caller's key says so, as in self-consistency.

Departure: a step is read once it has predicted the response to its end, where they read all
(`remask.sampling.trajectory`).
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from remask.baselines.entropy import NO_TRACE
from remask.denoisers.tokenizer import Tokenizer
from remask.sampling.trajectory import tentative_answers
from remask.settings import checked
from remask.values import Sample, Score, Trace, skips_empty

Key = Callable[[Sample], str | None]  # what two answers are compared by; None: unreadable
ALPHA = 5.0
NO_STEP = "no step had an answer that can be read"


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class TemporalVote:
    """Share of the steps' votes, late ones weighing more, that the answer has."""

    tokenizer: Tokenizer
    key: Key
    alpha: float = ALPHA
    name: str = "temporal_vote"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample: 0 where it cannot be read itself.

        None without a trace, or where no step can be read.
        """
        return [self._score(sample) for sample in samples]

    def _score(self, sample: Sample) -> Score:
        if sample.trace is None:
            return Score(value=None, reason=NO_TRACE, scorer=self.name)
        own = self.key(sample)
        votes = _tentative_keys(self.tokenizer, sample, sample.trace, self.key)
        weights = [math.exp(self.alpha * step / len(votes)) for step in range(len(votes))]
        cast = [(vote, w) for vote, w in zip(votes, weights, strict=True) if vote is not None]
        if own is None:
            return Score(value=0.0, scorer=self.name)
        if not cast:
            return Score(value=None, reason=NO_STEP, scorer=self.name)
        agreeing = sum(weight for vote, weight in cast if vote == own)
        return Score(value=agreeing / sum(weight for _, weight in cast), scorer=self.name)


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class TemporalEntropy:
    """Minus the entropy, in nats, over the answers that the steps had."""

    tokenizer: Tokenizer
    key: Key
    name: str = "temporal_entropy"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample; None without a trace, or where no step can be read."""
        return [self._score(sample) for sample in samples]

    def _score(self, sample: Sample) -> Score:
        if sample.trace is None:
            return Score(value=None, reason=NO_TRACE, scorer=self.name)
        keys = _tentative_keys(self.tokenizer, sample, sample.trace, self.key)
        groups = Counter(key for key in keys if key is not None)
        if not groups:
            return Score(value=None, reason=NO_STEP, scorer=self.name)
        shares = [number / groups.total() for number in groups.values()]
        return Score(value=sum(share * math.log(share) for share in shares), scorer=self.name)


def _tentative_keys(
    tokenizer: Tokenizer, sample: Sample, trace: Trace, key: Key
) -> list[str | None]:
    """Return what the answer of every step is compared by."""

    def read(text: str) -> str | None:
        return key(replace(sample, text=text))

    return tentative_answers(trace, sample.num_response, tokenizer.decode, read)
