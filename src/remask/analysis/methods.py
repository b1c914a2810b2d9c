"""Methods: the ways to score the standard answer of a pool, each with what its score costs.

A method's cost is what its score needs, generation included: one answer for confidence, one answer
and its round trips for these, the whole pool for self-consistency.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from remask.analysis.pool import (
    RECORDED,
    Pool,
    agreement,
    baseline_forwards,
    composite_metrics,
    pool_size,
    score_of,
    verify_forwards,
    vote,
)
from remask.decide.auroc import auroc
from remask.decide.columns import trip_mean
from remask.decide.settings import PAPER_THRESHOLD
from remask.probes.settings import Probe
from remask.records.record import Record
from remask.verifier.columns import MEANS, label_free, probes_in

THRESHOLD = PAPER_THRESHOLD


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to score the standard answer of a pool."""

    name: str
    score: Callable[[Pool], float | None]
    forwards: Callable[[Pool], float]
    is_part: bool = False  # one metric of the round trips, alone


def _generated(pool: Pool) -> float:
    return float(pool[0].forwards)


def _verified(pool: Pool) -> float:
    return _generated(pool) + verify_forwards(pool[0])


def _drawn(pool: Pool) -> float:
    return float(sum(row.forwards for row in pool))


ROUNDTRIPS = Method(
    name="roundtrips", score=lambda pool: pool[0].scores.get("roundtrips"), forwards=_verified
)
CONSISTENCY = (  # self-consistency has two readings; the better one counts
    Method(name="vote", score=vote, forwards=_drawn),
    Method(name="agreement", score=agreement, forwards=_drawn),
)


def methods(pooled: Sequence[Pool]) -> list[Method]:
    """Return every method that these records allow."""
    metrics = _all_metrics(pooled)
    listed = [
        ROUNDTRIPS,
        *(_alone(metric) for metric in metrics),
        *map(recorded, RECORDED),
    ]
    if pool_size(pooled) > 1:
        listed += CONSISTENCY
    return [method for method in listed if _is_there(method, pooled)]


def _is_there(method: Method, pooled: Sequence[Pool]) -> bool:
    """Say whether a method was tried: one that gave no number at all is to be seen as well."""
    return any(
        method.score(pool) is not None or method.name in pool[0].baselines for pool in pooled
    )


def columns(method: Method, pooled: Sequence[Pool]) -> tuple[list[float], list[bool]]:
    """Return the scores there are, and whether each scored answer is right."""
    pairs = [(method.score(pool), bool(pool[0].right)) for pool in pooled]
    scored = [(score, right) for score, right in pairs if score is not None]
    return [score for score, _ in scored], [right for _, right in scored]


def ranked(method: Method, pooled: Sequence[Pool]) -> tuple[list[float], list[bool]]:
    """Return `columns` for measures of ranks, with the answers to which the method gave no score.

    Such an answer has null in the records, and ranks below every score.
    """
    pairs = [(method.score(pool), pool[0]) for pool in pooled]
    if all(score is None for score, _ in pairs):
        return [], []
    tried = [p for p in pairs if p[0] is not None or p[1].scores.get(method.name, 0) is None]
    scores = [-math.inf if score is None else score for score, _ in tried]
    return scores, [bool(row.right) for _, row in tried]


def better_consistency(pooled: Sequence[Pool]) -> tuple[Method, float] | None:
    """Return the reading of self-consistency that does better here, and its AUROC."""
    measured = [(method, auroc(*columns(method, pooled))) for method in CONSISTENCY]
    present = [(method, value) for method, value in measured if value is not None]
    return max(present, key=lambda pair: pair[1], default=None)


def recorded(name: str) -> Method:
    """Return a score that was written down with the answer, at the cost that stands beside it."""
    return Method(
        name=name,
        score=lambda pool: pool[0].scores.get(name),
        forwards=lambda pool: _generated(pool) + baseline_forwards(pool[0], name),
    )


def of_trips(trips: int) -> Method:
    """Return the round trips as they would be with fewer of them."""
    return Method(
        name=f"roundtrips with {trips} trips",
        score=lambda pool: score_of(pool[0], trips),
        forwards=lambda pool: pool[0].forwards + verify_forwards(pool[0], trips),
    )


def agreement_of(size: int) -> Method:
    """Return self-consistency as it would be with the first `size` samples of each pool."""
    return Method(
        name=f"agreement{size}",
        score=lambda pool: agreement(pool[:size]) if len(pool) >= size else None,
        forwards=lambda pool: _drawn(pool[:size]),
    )


def _all_metrics(pooled: Sequence[Pool]) -> list[str]:
    """Return the composite's metrics first, then the others, in the order of the records."""
    inside = dict.fromkeys(m for pool in pooled for m in composite_metrics(pool[0]))
    outside = dict.fromkeys(m for pool in pooled for m in pool[0].by_trip)
    return list(inside | outside)


def _alone(metric: str) -> Method:
    return Method(
        name=f"{ROUNDTRIPS.name}.{metric}",
        score=lambda pool: trip_mean(pool[0], metric),
        forwards=_verified,
        is_part=True,
    )


def plain_mean(scorer: str) -> Method:
    """Return the method of a scorer whose score is a plain mean of values in the features."""
    return Method(
        name=scorer,
        score=lambda pool: label_free(scorer, pool[0].features),
        forwards=lambda pool: pool[0].forwards + price(pool[0], MEANS[scorer]),
    )


def price(row: Record, features: Sequence[str]) -> float:
    """Return what features or values cost beyond the answer, each probe once; no round trips."""
    return sum(_forwards(row, name) for name in dict.fromkeys(f.split(".")[0] for f in features))


def _forwards(row: Record, source: str) -> float:
    """Return what a probe cost: as recorded, or as its name says; other features cost nothing."""
    spent = row.features.get(f"{source}.forwards")
    return _passes(source) if spent is None else spent


@cache
def _passes(source: str) -> float:
    return float(Probe.named(source).passes) if probes_in([source]) else 0.0
