"""The methods on the frontier: what each says of the first sample of a pool, and what that costs.

What is read in the records: the scores of the round trips and of the baselines, how many samples
agree, and the features, by the names that `verifier.columns` gives them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from remask.analysis.methods import ROUNDTRIPS, Method, agreement_of, plain_mean, price, recorded
from remask.analysis.pool import RECORDED, Pool, pool_size
from remask.decide.columns import Floats
from remask.records.record import Record
from remask.verifier.columns import MEANS

DISE = "visible.response_mean"
SIZES = (2, 3, 5, 10)  # of self-consistency


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodScores:
    """What a method says of the first sample of each of n pools, by each of its K fits."""

    name: str
    scores: Floats  # (K, n) -inf where absent; K is 1 where nothing is fitted
    extra: Floats  # (K, n) forwards beyond those that wrote the sample

    @property
    def absent(self) -> int:
        """How many pools have no score."""
        return int(np.isinf(self.scores).any(0).sum())


def score_pools(method: Method, pooled: Sequence[Pool]) -> MethodScores:
    """Return what a method says of these pools."""
    values = [method.score(pool) for pool in pooled]
    return MethodScores(
        name=method.name,
        scores=np.array([[-math.inf if value is None else value for value in values]]),
        extra=np.array([[method.forwards(pool) - pool[0].forwards for pool in pooled]]),
    )


def frontier_methods(pooled: Sequence[Pool]) -> list[Method]:
    """Return every method without a fit that these records allow."""
    listed = [ROUNDTRIPS, *map(plain_mean, MEANS)]
    listed += [agreement_of(size) for size in SIZES if size <= pool_size(pooled)]
    listed += [recorded(name) for name in RECORDED if name != "confidence_canvas"]
    listed += [  # what features and round trips tell where it was not recorded as a baseline
        Method(name="dise", score=_dise, forwards=lambda p: p[0].forwards + price(p[0], [DISE])),
        Method(name="length", score=_length, forwards=_written),
        Method(name="critical_count", score=_critical_count, forwards=_written),
    ]
    allowed = [m for m in listed if any(m.score(pool) is not None for pool in pooled)]
    return list({method.name: method for method in reversed(allowed)}.values())[::-1]


def length_of(row: Record) -> int:
    """Return the number of response tokens: a feature, a score, or the entries of the drift."""
    value = row.features.get("length", row.scores.get("length"))
    return len(row.drift) if value is None else abs(round(value))


def in_first_place(pool: Pool, number: int) -> Pool:
    """Return the pool with another sample as the first, which is the one that methods judge."""
    return [pool[number], *pool[:number], *pool[number + 1 :]]


def _written(pool: Pool) -> float:
    return float(pool[0].forwards)


def _dise(pool: Pool) -> float | None:
    return pool[0].features.get(DISE)


def _length(pool: Pool) -> float | None:
    return -float(length_of(pool[0])) or None  # an answer has its end token at least


def _critical_count(pool: Pool) -> float | None:
    value = pool[0].features.get("critical_count")
    return None if value is None else -value
