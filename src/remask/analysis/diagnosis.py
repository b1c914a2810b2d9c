"""Diagnosis: which score tells right answers from wrong ones?

Every method is judged on whether sample 0 of the pool is right; right is positive. A method's cost
is what its score needs, generation included: one answer for confidence, one answer and its round
trips for these, the whole pool for self-consistency.

How hard a problem is says the share of right answers among its other samples: sample 0, which is
judged, has no say in it. A share of labels favours no score by its own values, as terciles of the
vote would, whose range they cut. Still, self-consistency is bound to fail where most samples are
wrong: that is what the word hard means here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.pool import (
    RECORDED,
    Pool,
    Row,
    agreement,
    baseline_forwards,
    composite_metrics,
    others_right,
    pool_size,
    pools,
    score_of,
    verify_forwards,
    vote,
)
from remask.analysis.reliability import brier, ece
from remask.analysis.selective import accuracy_at, aurc, precision, prr, recall
from remask.analysis.statistics import (
    Interval,
    Statistic,
    aupr,
    bootstrap,
    mean,
    paired_difference,
    proportion,
)
from remask.decide.auroc import auroc
from remask.decide.columns import trip_mean

THRESHOLD = 0.75  # the paper's
COVERAGES = (50, 80, 90)  # per cent of the answers
DIFFICULTIES = ("hard", "middle", "easy")


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to score the standard answer of a pool."""

    name: str
    score: Callable[[Pool], float | None]
    forwards: Callable[[Pool], float]
    is_part: bool = False  # one metric of the round trips, alone


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """How well one method told right from wrong."""

    method: str
    auroc: Interval | None  # None where all answers are right, or all wrong
    aupr: Interval | None
    base_rate: float  # share of right answers: what AUPR is without any skill
    absent: int  # answers to which the method gave no score; they are left out
    forwards: float  # per answer
    # What only `full_diagnosis` measures. The first two are absent if a score is outside 0..1.
    ece: Interval | None = None
    brier: Interval | None = None
    aurc: Interval | None = None
    prr: Interval | None = None
    accuracy_at: Mapping[int, Interval] = field(default_factory=dict)  # by coverage, in per cent
    mean_right: Interval | None = None  # score of the right answers
    mean_wrong: Interval | None = None
    precision: Interval | None = None  # above the paper's threshold
    recall: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Round trips against self-consistency on problems of one difficulty."""

    difficulty: str  # one of DIFFICULTIES
    shares: tuple[float, float]  # of right answers among the other samples: the least, the most
    n: int
    base_rate: float
    consistency: str  # the reading that does better on all problems together
    auroc: float | None  # of the round trips
    gap: Interval | None  # AUROC(round trips) - AUROC(consistency), paired


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What a threshold that was chosen elsewhere does in one study."""

    study: str
    absent: int  # answers without a score; they are left out
    base_rate: Interval | None
    coverage: Interval | None  # share of answers above the threshold
    precision: Interval | None  # share of right answers among those
    recall: Interval | None  # share of the right answers that is among those


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
        *(_alone(metric) for metric in metrics),
        *map(recorded, RECORDED),
    ]
    if pool_size(found) > 1:
        listed += CONSISTENCY
    return [method for method in listed if _is_there(method, found)]


def _is_there(method: Method, found: Sequence[Pool]) -> bool:
    """Say whether a method was tried: one that gave no number at all is to be seen as well."""
    return any(
        method.score(pool) is not None or method.name in pool[0].get("baselines", {})
        for pool in found
    )


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


def full_diagnosis(rows: Iterable[Row], *, resamples: int = 1000, seed: int = 0) -> list[Diagnosis]:
    """Return the diagnosis with calibration, selection and what the paper's threshold does.

    Single metrics are only ranked, as in `diagnosis`: nobody reads them as probabilities.
    """
    found = pools(rows)
    return [
        judge(method, found, resamples=resamples, seed=seed)
        if method.is_part
        else judge_fully(method, found, resamples=resamples, seed=seed)
        for method in methods(found)
    ]


def judge_fully(
    method: Method, found: Sequence[Pool], *, resamples: int = 1000, seed: int = 0
) -> Diagnosis:
    """Return all that is measured of one method on the pools it has a score for."""
    scores, right = (np.asarray(column) for column in columns(method, found))
    right = right.astype(bool)  # of no answers at all, too

    def measured(statistic: Statistic, *data: ArrayLike) -> Interval | None:
        return bootstrap(statistic, *data, resamples=resamples, seed=seed)

    kept = {x: measured(partial(accuracy_at, coverage=x / 100), scores, right) for x in COVERAGES}
    return replace(
        judge(method, found, resamples=resamples, seed=seed),
        ece=measured(ece, scores, right),
        brier=measured(brier, scores, right),
        aurc=measured(aurc, scores, right),
        prr=measured(prr, scores, right),
        accuracy_at={x: interval for x, interval in kept.items() if interval is not None},
        mean_right=measured(mean, scores[right]),
        mean_wrong=measured(mean, scores[~right]),
        precision=precision(scores, right, THRESHOLD),
        recall=recall(scores, right, THRESHOLD),
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


def gap_by_difficulty(rows: Iterable[Row], *, resamples: int = 1000, seed: int = 0) -> list[Gap]:
    """Return the gap to self-consistency on hard, middle and easy problems; none where no pool is.

    The reading of self-consistency is the one that does better on all of them together.
    """
    found = [p for p in pools(rows) if len(p) > 1 and ROUNDTRIPS.score(p) is not None]
    best = better_consistency(found)
    if best is None:
        return []
    places = terciles([others_right(pool) for pool in found])
    groups = {
        difficulty: [pool for pool, place in zip(found, places, strict=True) if place == k]
        for k, difficulty in enumerate(DIFFICULTIES)
    }
    return [
        _gap(difficulty, group, best[0], resamples=resamples, seed=seed)
        for difficulty, group in groups.items()
        if group
    ]


def terciles(values: ArrayLike) -> NDArray[Any]:
    """Return 0, 1 or 2 for each value: the third in which the middle of its equals stands.

    Equal values stay together, so that the thirds are as unequal as the ties make them.
    """
    _, level, sizes = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    middle = sizes.cumsum() - sizes / 2
    return (3 * middle / max(len(level), 1)).astype(np.intp)[level]


def carried(studies: Mapping[str, Iterable[Row]], threshold: float) -> list[Carried]:
    """Return what one threshold, unchanged, does in each study."""
    return [_carried(study, pools(rows), threshold) for study, rows in studies.items()]


def recorded(name: str) -> Method:
    """Return a score that was written down with the answer, at the cost that stands beside it."""
    return Method(
        name=name,
        score=lambda pool: pool[0]["scores"].get(name),
        forwards=lambda pool: _generated(pool) + baseline_forwards(pool[0], name),
    )


def of_trips(trips: int) -> Method:
    """Return the round trips as they would be with fewer of them."""
    return Method(
        name=f"roundtrips with {trips} trips",
        score=lambda pool: score_of(pool[0], trips),
        forwards=lambda pool: pool[0]["forwards"] + verify_forwards(pool[0], trips),
    )


def composite(row: Row) -> float | None:
    """Return the score of the round trips."""
    value: float | None = row["scores"].get("roundtrips")
    return value


def process(
    rows: Iterable[Row],
    score: Callable[[Row], float | None] = composite,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[Interval, int] | None:
    """Return the AUROC of telling right steps from wrong ones, and how many had a wrong step.

    Right answers only, all samples that were scored and whose steps have labels, resampled by
    problem.
    """
    labelled = (row for row in rows if row["right"] and row["process_ok"] is not None)
    pairs = [(row, value) for row in labelled if (value := score(row)) is not None]
    found = bootstrap(
        auroc,
        [value for _, value in pairs],
        [row["process_ok"] for row, _ in pairs],
        groups=[row["id"] for row, _ in pairs],
        resamples=resamples,
        seed=seed,
    )
    return None if found is None else (found, sum(not row["process_ok"] for row, _ in pairs))


def _gap(
    difficulty: str, group: Sequence[Pool], consistency: Method, *, resamples: int, seed: int
) -> Gap:
    (ours, right), (theirs, _) = columns(ROUNDTRIPS, group), columns(consistency, group)
    shares = [others_right(pool) for pool in group]
    return Gap(
        difficulty=difficulty,
        shares=(min(shares), max(shares)),
        n=len(group),
        base_rate=fmean(right),
        consistency=consistency.name,
        auroc=auroc(ours, right),
        gap=paired_difference(ours, theirs, right, resamples=resamples, seed=seed),
    )


def _carried(study: str, found: Sequence[Pool], threshold: float) -> Carried:
    scores, right = columns(ROUNDTRIPS, found)
    return Carried(
        study=study,
        absent=len(found) - len(scores),
        base_rate=proportion(right),
        coverage=proportion(np.asarray(scores) > threshold),
        precision=precision(scores, right, threshold),
        recall=recall(scores, right, threshold),
    )


def _all_metrics(found: Sequence[Pool]) -> list[str]:
    """Return the composite's metrics first, then the others, in the order of the records."""
    inside = dict.fromkeys(m for pool in found for m in composite_metrics(pool[0]))
    outside = dict.fromkeys(m for pool in found for m in pool[0].get("by_trip", {}))
    return list(inside | outside)


def _alone(metric: str) -> Method:
    return Method(
        name=f"{ROUNDTRIPS.name}.{metric}",
        score=lambda pool: trip_mean(pool[0], metric),
        forwards=_verified,
        is_part=True,
    )
