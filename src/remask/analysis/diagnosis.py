"""Diagnosis: which score tells right answers from wrong ones?

Every method is judged on whether sample 0 of the pool is right; right is positive.

How hard a problem is says the share of right answers among its other samples: sample 0, which is
judged, has no say in it. A share of labels favours no score by its own values, as terciles of the
vote would, whose range they cut. Still, self-consistency is bound to fail where most samples are
wrong: that is what the word hard means here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.bootstrap import Interval, Statistic, auroc_gap, bootstrap
from remask.analysis.figure import Figure, Figures, Place, of_interval, of_intervals
from remask.analysis.fitted_methods import fitted_methods
from remask.analysis.load_records import Source, StudyRecords, required
from remask.analysis.methods import (
    ROUNDTRIPS,
    THRESHOLD,
    Method,
    better_consistency,
    columns,
    methods,
    plain_mean,
    ranked,
    recorded,
)
from remask.analysis.pool import Pool, is_scored, others_right, pool_size, pools
from remask.analysis.reliability import brier, ece
from remask.analysis.selective import accuracy_at, aurc, precision, prr, recall
from remask.analysis.statistics import aupr, mean, proportion
from remask.decide.auroc import auroc
from remask.records.record import Record
from remask.verifier.columns import PROBE, VERIFIER

SECTION, CARRIED = "diagnosis", "carried"
COVERAGES = (50, 80, 90)  # per cent of the answers
DIFFICULTIES = ("hard", "middle", "easy")
GAP = "roundtrips_minus_consistency"
JUDGE = "self_evaluation"
RIVALS = ("confidence", "consistency", "roundtrips", "baselines", "agreement_same_cost", JUDGE)


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """How well one method separates right from wrong."""

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

    def figures(self, study: str) -> list[Figure]:
        """Return all that was measured."""
        place: Place = {"section": SECTION, "study": study, "method": self.method}
        intervals = {
            "auroc": (self.auroc, "AUROC"), "aupr": (self.aupr, "AUPR"), "ece": (self.ece, "ECE"),
            "brier": (self.brier, "Brier score"), "aurc": (self.aurc, "AURC"),
            "prr": (self.prr, "PRR"), "mean_right": (self.mean_right, "score"),
            "mean_wrong": (self.mean_wrong, "score"),
            f"precision_at_{THRESHOLD:g}": (self.precision, "share"),
            f"recall_at_{THRESHOLD:g}": (self.recall, "share"),
        }  # fmt: skip
        for coverage, accuracy in self.accuracy_at.items():
            intervals[f"accuracy_at_coverage_{coverage}"] = (accuracy, "share")
        figures = of_intervals(intervals, **place)
        figures.append(Figure(**place, measure="forwards", value=self.forwards, unit="forwards"))
        if self.absent:
            figures.append(Figure(**place, measure="absent", value=self.absent, unit="absent"))
        return figures


def diagnosis_figures(source: Source) -> Figures:
    """Return which score tells right from wrong: every method, the gaps, a carried threshold."""
    figures = Figures()
    for study in source.studies:
        if any(is_scored(row) for row in study.rows):
            figures |= diagnose(study, source.chooser)
    return required(figures, source, "round trips", "--scored 1")


def diagnose(study: StudyRecords, carried_threshold: float) -> Figures:
    """Return the figures of one study, with what a threshold chosen elsewhere does in it."""
    pooled = pools(study.rows)
    figures = [figure for row in full_diagnosis(study.rows) for figure in row.figures(study.name)]
    if base := proportion([pool[0].right for pool in pooled]):
        place: Place = {"section": SECTION, "study": study.name, "measure": "base_rate"}
        figures.append(of_interval(base, **place, unit="share"))
    if pool_size(pooled) > 1:  # one sample agrees with itself: that is no vote
        figures += against_consistency(study.name, study.rows)
        figures += gaps_by_difficulty(study.name, study.rows)
    figures += at_threshold(study)
    figures += carried(study.name, study.rows, carried_threshold)
    return Figures(figures + _fitted(study, pooled))


def diagnosis(rows: Iterable[Record], *, resamples: int = 1000, seed: int = 0) -> list[Diagnosis]:
    """Return how well each method separates right standard answers from wrong ones."""
    pooled = pools(rows)
    return [judge(method, pooled, resamples=resamples, seed=seed) for method in methods(pooled)]


def judge(
    method: Method, pooled: Sequence[Pool], *, resamples: int = 1000, seed: int = 0
) -> Diagnosis:
    """Return how well one method ranks the answers of these pools."""
    scores, right = ranked(method, pooled)
    return Diagnosis(
        method=method.name,
        auroc=bootstrap(auroc, scores, right, resamples=resamples, seed=seed),
        aupr=bootstrap(aupr, scores, right, resamples=resamples, seed=seed),
        base_rate=fmean(right) if right else 0.0,
        absent=len(pooled) - len(columns(method, pooled)[0]),
        forwards=fmean(method.forwards(pool) for pool in pooled),
    )


def full_diagnosis(
    rows: Iterable[Record], *, resamples: int = 1000, seed: int = 0
) -> list[Diagnosis]:
    """Return the diagnosis with calibration, selection and what the paper's threshold does.

    Single metrics are only ranked, as in `diagnosis`: nobody reads them as probabilities.
    """
    pooled = pools(rows)
    return [
        (judge if method.is_part else judge_fully)(method, pooled, resamples=resamples, seed=seed)
        for method in (*methods(pooled), *_probed(pooled))
    ]


def _probed(pooled: Sequence[Pool]) -> list[Method]:
    """Return the label-free scorers whose probes read these answers."""
    scorers = map(plain_mean, (PROBE, VERIFIER))
    return [m for m in scorers if any(m.score(pool) is not None for pool in pooled)]


def judge_fully(
    method: Method, pooled: Sequence[Pool], *, resamples: int = 1000, seed: int = 0
) -> Diagnosis:
    """Return all that is measured of one method on the pools it has a score for."""
    scores, right = (np.asarray(column) for column in columns(method, pooled))
    right = right.astype(bool)  # of no answers at all, too

    def measured(statistic: Statistic, *data: ArrayLike) -> Interval | None:
        return bootstrap(statistic, *data, resamples=resamples, seed=seed)

    ranks = ranked(method, pooled)
    given = {x: measured(partial(accuracy_at, coverage=x / 100), *ranks) for x in COVERAGES}
    return replace(
        judge(method, pooled, resamples=resamples, seed=seed),
        ece=measured(ece, scores, right),
        brier=measured(brier, scores, right),
        aurc=measured(aurc, *ranks),
        prr=measured(prr, *ranks),
        accuracy_at={x: interval for x, interval in given.items() if interval is not None},
        mean_right=measured(mean, scores[right]),
        mean_wrong=measured(mean, scores[~right]),
        precision=precision(*ranks, THRESHOLD),
        recall=recall(*ranks, THRESHOLD),
    )


def against_consistency(
    study: str, rows: Iterable[Record], *, resamples: int = 1000, seed: int = 0
) -> list[Figure]:
    """Return AUROC(round trips) - AUROC(the better reading of self-consistency), paired."""
    pooled = [pool for pool in pools(rows) if ROUNDTRIPS.score(pool) is not None]
    best = better_consistency(pooled)
    if best is None:
        return []
    gap = _gap(ROUNDTRIPS, best[0], pooled, resamples=resamples, seed=seed)
    intervals = {"auroc": (gap, f"AUROC above {best[0].name}, paired")}
    return of_intervals(intervals, section=SECTION, study=study, method=GAP)


def gaps_by_difficulty(
    study: str, rows: Iterable[Record], *, resamples: int = 1000, seed: int = 0
) -> list[Figure]:
    """Return the gap to self-consistency on hard, middle and easy problems; none where no pool is.

    The reading of self-consistency is the one that does better on all of them together.
    """
    pooled = [p for p in pools(rows) if len(p) > 1 and ROUNDTRIPS.score(p) is not None]
    best = better_consistency(pooled)
    if best is None:
        return []
    figures = []
    for difficulty, group in by_difficulty(pooled).items():
        gap = _gap(ROUNDTRIPS, best[0], group, resamples=resamples, seed=seed)
        figures += of_intervals(
            {"auroc": (gap, f"AUROC above {best[0].name}, paired")},
            section=SECTION, study=study, method=GAP, part=difficulty, detail=shares_right(group),
        )  # fmt: skip
    return figures


def by_difficulty(pooled: Sequence[Pool]) -> dict[str, list[Pool]]:
    """Return the pools of hard, middle and easy problems, without what holds none."""
    places = terciles([others_right(pool) for pool in pooled])
    groups = {
        difficulty: [pool for pool, place in zip(pooled, places, strict=True) if place == k]
        for k, difficulty in enumerate(DIFFICULTIES)
    }
    return {difficulty: group for difficulty, group in groups.items() if group}


def shares_right(group: Sequence[Pool]) -> str:
    """Return which problems these are, by the right answers among their other samples."""
    shares = [others_right(pool) for pool in group]
    return f"{min(shares):.0%} to {max(shares):.0%} of others right"


def terciles(values: ArrayLike) -> NDArray[Any]:
    """Return 0, 1 or 2 for each value: the third in which the middle of its equals stands.

    Equal values stay together, so that the thirds are as unequal as the ties make them.
    """
    _, level, sizes = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    middle = sizes.cumsum() - sizes / 2
    return (3 * middle / max(len(level), 1)).astype(np.intp)[level]


def at_threshold(study: StudyRecords) -> list[Figure]:
    """Return what the round trips' threshold of these very answers does to them."""
    scores, right = columns(ROUNDTRIPS, pools(study.rows))
    place: Place = {"section": SECTION, "study": study.name, "method": ROUNDTRIPS.name}
    intervals = {
        "coverage": (proportion(np.asarray(scores) > study.threshold), "share"),
        "precision": (precision(scores, right, study.threshold), "share"),
        "recall": (recall(scores, right, study.threshold), "share"),
    }
    own = Figure(**place, measure="threshold", value=study.threshold, unit="score")
    return [*of_intervals(intervals, **place), own] if scores else []


def carried(study: str, rows: Iterable[Record], threshold: float) -> list[Figure]:
    """Return what a threshold that was chosen elsewhere, unchanged, does in one study."""
    scores, right = columns(ROUNDTRIPS, pools(rows))
    intervals = {
        "coverage": (proportion(np.asarray(scores) > threshold), "share"),
        "precision": (precision(scores, right, threshold), "share"),
        "recall": (recall(scores, right, threshold), "share"),
    }
    chosen = Figure(section=CARRIED, measure="threshold", value=threshold, unit="score")
    return [*of_intervals(intervals, section=CARRIED, study=study), chosen]


def _fitted(study: StudyRecords, pooled: Sequence[Pool]) -> list[Figure]:
    """Return optimized weights, combined baselines and cheaper agreement, judged and paired."""
    scored = [pool for pool in pooled if ROUNDTRIPS.score(pool) is not None]
    tried = {"roundtrips": ROUNDTRIPS, "confidence": recorded("confidence")}
    if any(pool[0].scores.get(JUDGE) is not None for pool in scored):
        tried[JUDGE] = recorded(JUDGE)
    best = better_consistency(scored) if pool_size(scored) > 1 else None
    if best is not None:
        tried["consistency"] = best[0]
    figures = []
    for method in fitted_methods(study, scored):
        figures += judge_fully(method, scored).figures(study.name)
        tried[method.name] = method
    return figures + _gaps(study.name, tried, scored)


def _gaps(study: str, tried: Mapping[str, Method], scored: Sequence[Pool]) -> list[Figure]:
    """Return the paired differences of AUROC but the one that `against_consistency` returns."""
    figures = []
    for ours in ("roundtrips", "optimized"):
        for theirs in RIVALS:
            method = f"{ours}_minus_{theirs}"
            if ours in tried and theirs in tried and ours != theirs and method != GAP:
                both = [
                    pool
                    for pool in scored
                    if tried[ours].score(pool) is not None and tried[theirs].score(pool) is not None
                ]
                gap = _gap(tried[ours], tried[theirs], both)
                intervals = {"auroc": (gap, f"AUROC above {tried[theirs].name}, paired")}
                figures += of_intervals(intervals, section=SECTION, study=study, method=method)
    return figures


def _gap(
    a: Method, b: Method, pooled: Sequence[Pool], *, resamples: int = 1000, seed: int = 0
) -> Interval | None:
    """Return AUROC(a) - AUROC(b) over pools that both score."""
    (ours, right), (theirs, _) = columns(a, pooled), columns(b, pooled)
    return bootstrap(auroc_gap, ours, right, theirs, right, resamples=resamples, seed=seed)
