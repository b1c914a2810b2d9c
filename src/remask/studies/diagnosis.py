"""Diagnosis: which score tells right answers from wrong ones?

Every method is judged on whether sample 0 of the pool is right; right is positive. A method's cost
is what its score needs, generation included: one answer for confidence, one answer and its round
trips for these, the whole pool for self-consistency.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from remask.studies.measures import Interval, aupr, auroc, bootstrap, paired_difference
from remask.studies.pool import (
    Pool,
    Row,
    agreement,
    composite_metrics,
    pool_size,
    pools,
    score_of,
    verify_forwards,
    vote,
)


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to score the standard answer of a pool."""

    name: str
    score: Callable[[Pool], float | None]
    forwards: Callable[[Pool], float]


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """How well one method told right from wrong."""

    method: str
    auroc: Interval | None  # None where all answers are right, or all wrong
    aupr: Interval | None
    base_rate: float  # share of right answers: what AUPR is without any skill
    absent: int  # answers to which the method gave no score; they are left out
    forwards: float  # per answer


def _generated(pool: Pool) -> float:
    return float(pool[0]["forwards"])


def _verified(pool: Pool) -> float:
    return _generated(pool) + verify_forwards(pool[0])


def _drawn(pool: Pool) -> float:
    return float(sum(row["forwards"] for row in pool))


ROUNDTRIPS = Method(
    name="roundtrips", score=lambda pool: pool[0]["scores"].get("roundtrips"), forwards=_verified
)
CONSISTENCY = (  # self-consistency has two readings; the better one counts
    Method(name="vote", score=vote, forwards=_drawn),
    Method(name="agreement", score=agreement, forwards=_drawn),
)


def methods(found: Sequence[Pool]) -> list[Method]:
    """Return every method that these records allow."""
    metrics = _all_metrics(found)
    listed = [
        ROUNDTRIPS,
        *(Method(name=f"roundtrips.{m}", score=_metric(m), forwards=_verified) for m in metrics),
        Method(name="confidence", score=_recorded("confidence"), forwards=_generated),
        Method(name="confidence_canvas", score=_recorded("confidence_canvas"), forwards=_generated),
    ]
    if pool_size(found) > 1:
        listed += CONSISTENCY
    return [m for m in listed if any(m.score(pool) is not None for pool in found)]


def diagnosis(rows: Iterable[Row], *, resamples: int = 1000, seed: int = 0) -> list[Diagnosis]:
    """Return how well each method told right standard answers from wrong ones."""
    found = pools(rows)
    return [judge(method, found, resamples=resamples, seed=seed) for method in methods(found)]


def judge(
    method: Method, found: Sequence[Pool], *, resamples: int = 1000, seed: int = 0
) -> Diagnosis:
    """Return how well one method did on the pools it has a score for."""
    scores, right = columns(method, found)
    return Diagnosis(
        method=method.name,
        auroc=bootstrap(auroc, scores, right, resamples=resamples, seed=seed),
        aupr=bootstrap(aupr, scores, right, resamples=resamples, seed=seed),
        base_rate=fmean(right) if right else 0.0,
        absent=len(found) - len(scores),
        forwards=fmean(method.forwards(pool) for pool in found),
    )


def columns(method: Method, found: Sequence[Pool]) -> tuple[list[float], list[bool]]:
    """Return the scores there are, and whether each scored answer is right."""
    pairs = [(method.score(pool), bool(pool[0]["right"])) for pool in found]
    kept = [(score, right) for score, right in pairs if score is not None]
    return [score for score, _ in kept], [right for _, right in kept]


def against_consistency(
    rows: Iterable[Row], *, resamples: int = 1000, seed: int = 0
) -> tuple[str, Interval] | None:
    """Return the better reading of self-consistency and AUROC(round trips) - AUROC(it), paired."""
    found = pools(rows)
    found = [pool for pool in found if ROUNDTRIPS.score(pool) is not None]
    best = better_consistency(found)
    if best is None:
        return None
    (ours, right), (theirs, _) = columns(ROUNDTRIPS, found), columns(best[0], found)
    gap = paired_difference(ours, theirs, right, resamples=resamples, seed=seed)
    return None if gap is None else (best[0].name, gap)


def better_consistency(found: Sequence[Pool]) -> tuple[Method, float] | None:
    """Return the reading of self-consistency that does better here, and its AUROC."""
    measured = [(method, auroc(*columns(method, found))) for method in CONSISTENCY]
    present = [(method, value) for method, value in measured if value is not None]
    return max(present, key=lambda pair: pair[1], default=None)


def of_trips(trips: int) -> Method:
    """Return the round trips as they would be with fewer of them."""
    return Method(
        name=f"roundtrips with {trips} trips",
        score=lambda pool: score_of(pool[0], trips),
        forwards=lambda pool: pool[0]["forwards"] + verify_forwards(pool[0], trips),
    )


def process(
    rows: Iterable[Row], *, resamples: int = 1000, seed: int = 0
) -> tuple[Interval, int] | None:
    """Return the AUROC of telling right steps from wrong ones, and how many had a wrong step.

    Right answers only, all samples that were scored, resampled by problem.
    """
    kept = [row for row in rows if row["right"] and row["scores"].get("roundtrips") is not None]
    found = bootstrap(
        auroc,
        [row["scores"]["roundtrips"] for row in kept],
        [row["process_ok"] for row in kept],
        groups=[row["id"] for row in kept],
        resamples=resamples,
        seed=seed,
    )
    return None if found is None else (found, sum(not row["process_ok"] for row in kept))


def _all_metrics(found: Sequence[Pool]) -> list[str]:
    """Return the composite's metrics first, then the others, in the order of the records."""
    inside = dict.fromkeys(m for pool in found for m in composite_metrics(pool[0]))
    outside = dict.fromkeys(m for pool in found for m in pool[0].get("by_trip", {}))
    return list(inside | outside)


def _recorded(name: str) -> Callable[[Pool], float | None]:
    return lambda pool: pool[0]["scores"].get(name)


def _metric(name: str) -> Callable[[Pool], float | None]:
    return lambda pool: score_of(pool[0], metrics=(name,))
