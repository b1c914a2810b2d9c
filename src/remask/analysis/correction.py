"""Correction: what does a pool of samples gain over the first one, and at what cost?

Methods are replayed from the records: rejection sampling follows `decide.rejection` and pays only
for the samples it looked at. Ties go to the first; an answer that cannot be read never wins a
vote; a sample without a score loses to any that has one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from numpy.typing import ArrayLike

from remask.analysis.bootstrap import Interval, bootstrap
from remask.analysis.diagnosis import by_difficulty, shares_right
from remask.analysis.figure import Figure, Figures, Place, of_intervals
from remask.analysis.load_records import Source, StudyRecords, required
from remask.analysis.pool import (
    Pool,
    is_scored,
    pool_size,
    pools,
    verify_forwards,
    vote_counts,
)
from remask.analysis.statistics import mean, proportion
from remask.decide.rejection import Attempt, Round, decide
from remask.errors import RecordError
from remask.records.record import Record
from remask.values import Sample, Score

SECTION, CURVE = "correction", "curve"
SIZES = (3, 10)  # of best-of-N and of the vote, as far as the pool reaches
BUDGET = max(SIZES)
THRESHOLDS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What one method settled on for one problem."""

    right: bool
    samples: int  # drawn
    forwards: float  # generation, and verification where the method verifies


@dataclass(frozen=True, kw_only=True)
class Correction:
    """What one method reached over all problems."""

    method: str
    accuracy: Interval
    n_avg: Interval  # samples drawn per problem
    eff: Interval | None  # points of accuracy gained per further sample; None at n_avg 1
    forwards: Interval  # per problem

    def figures(self, **place: str) -> list[Figure]:
        """Return all that was measured."""
        intervals = {
            "accuracy": (self.accuracy, "share"), "n_avg": (self.n_avg, "samples"),
            "eff": (self.eff, "points per further sample"), "forwards": (self.forwards, "forwards"),
        }  # fmt: skip
        return of_intervals(intervals, **place)


Chooser = Callable[[Pool], Settled]


def correction_figures(source: Source) -> Figures:
    """Return what a pool of samples gains over the first one, and at what cost."""
    figures = Figures()
    for study in source.studies:
        if pool_size(pools(study.rows)) > 1 and all(is_scored(row) for row in study.rows):
            figures |= correct(study)
    return required(figures, source, "pools with every sample scored", "--samples 10 --scored 10")


def correct(study: StudyRecords) -> Figures:
    """Return what each method makes of one study's pools, all of them scored."""
    place: Place = {"section": SECTION, "study": study.name}
    figures = [
        figure
        for row in correction(study.rows, study.threshold, BUDGET)
        for figure in row.figures(**place, method=row.method)
    ]
    threshold: Place = {"method": "mgrs", "measure": "threshold", "unit": "score"}
    figures.append(Figure(**place, **threshold, value=study.threshold))
    pooled = pools(study.rows)
    budget = min(BUDGET, pool_size(pooled))
    first = [standard(pool) for pool in pooled]
    for limit in THRESHOLDS:
        row = summarise("mgrs", first, [mgrs(pool, limit, budget) for pool in pooled])
        curve = {"section": CURVE, "method": "threshold", "part": f"{limit:g}"}
        figures += row.figures(**place | curve)
    if pool_size(pooled) > 1:
        figures += _samples_by_difficulty(study, pooled, budget)
        figures += _against_rivals(study, pooled, budget)
    return Figures(figures)


def _samples_by_difficulty(
    study: StudyRecords, pooled: Sequence[Pool], budget: int
) -> list[Figure]:
    """Return how many samples rejection sampling draws of hard, middle and easy problems."""
    figures = []
    for difficulty, group in by_difficulty(pooled).items():
        drawn = [mgrs(pool, study.threshold, budget).samples for pool in group]
        figures += of_intervals(
            {"n_avg": (bootstrap(mean, drawn), "samples")},
            section=SECTION, study=study.name, method="mgrs", part=difficulty,
            detail=shares_right(group),
        )  # fmt: skip
    return figures


def _against_rivals(study: StudyRecords, pooled: Sequence[Pool], budget: int) -> list[Figure]:
    """Return what rejection sampling gains over the other methods on the same problems."""
    ours = [mgrs(pool, study.threshold, budget).right for pool in pooled]
    figures = []
    for rival, (size, choose) in RIVALS.items():
        if size <= pool_size(pooled):
            theirs = [choose(pool).right for pool in pooled]
            gained = [int(a) - int(b) for a, b in zip(ours, theirs, strict=True)]
            intervals = {"accuracy": (bootstrap(mean, gained), "share above, paired")}
            method = f"mgrs_minus_{rival}"
            figures += of_intervals(intervals, section=SECTION, study=study.name, method=method)
    return figures


def correction(
    rows: Iterable[Record], threshold: float, budget: int = 10, *, resamples: int = 1000
) -> list[Correction]:
    """Return every method's accuracy and cost on the same pools."""
    pooled = pools(rows)
    size = pool_size(pooled)
    if size == 0:
        return []
    first = [standard(pool) for pool in pooled]
    choosers = _choosers(pooled, size, threshold, min(budget, size))
    tried = {name: [choose(pool) for pool in pooled] for name, choose in choosers.items()}
    tried |= _same_cost(pooled, size, tried["mgrs"])
    return [summarise(name, first, made, resamples) for name, made in tried.items()]


def _choosers(
    pooled: Sequence[Pool], size: int, threshold: float, budget: int
) -> dict[str, Chooser]:
    """Return the methods; best-of-N by round trips only where every sample was scored."""
    sizes = sorted({min(n, size) for n in SIZES})
    listed: dict[str, Chooser] = {"standard": standard}
    listed |= {f"vote{n}": _majority(n) for n in sizes}
    listed |= {f"best_of_{n}_confidence": _best(n, "confidence") for n in sizes}
    if all(is_scored(row) for pool in pooled for row in pool):
        listed |= {f"best_of_{n}": _best(n, "roundtrips") for n in sizes}
    listed["mgrs"] = lambda pool: mgrs(pool, threshold, budget)
    return listed


def standard(pool: Pool) -> Settled:
    """Return the first sample."""
    return Settled(right=pool[0].right, samples=1, forwards=pool[0].forwards)


def majority(pool: Pool) -> Settled:
    """Return the first sample with the most frequent answer."""
    votes = vote_counts(pool)
    chosen = max(pool, key=lambda row: votes.get(row.vote_key or "", 0))  # None has no vote
    return Settled(right=chosen.right, samples=len(pool), forwards=_generation(pool))


def best_of(pool: Pool, score: str) -> Settled:
    """Return the sample with the highest score."""
    chosen = max(pool, key=lambda row: Score(value=row.scores.get(score)).rank)
    spent = _generation(pool) + (_verification(pool) if score == "roundtrips" else 0)
    return Settled(right=chosen.right, samples=len(pool), forwards=spent)


def mgrs(pool: Pool, threshold: float, budget: int) -> Settled:
    """Return what rejection sampling settles on, replayed from the records."""
    budget = min(budget, len(pool))
    attempt = partial(_recorded, pool, threshold)
    (decision,) = decide(attempt, [pool[0].id], threshold=threshold, budget=budget)
    return Settled(
        right=pool[decision.sample.number].right,
        samples=len(decision.attempts),
        forwards=float(decision.forwards),
    )


def _recorded(pool: Pool, threshold: float, needed: Round) -> list[Attempt]:
    """Return the attempt of a round as it was recorded; its tokens are not needed."""
    row = pool[needed.number]
    if not is_scored(row):
        raise RecordError(
            f"sample {row.number} of {row.id} has no round trips, and none before it "
            f"scored above {threshold:g}; collect with more samples scored."
        )
    sample = Sample(
        item=row.id, number=needed.number, prompt=(), canvas=(), num_response=0, text="",
        forwards=row.forwards,
    )  # fmt: skip
    return [(sample, Score(value=row.scores.get("roundtrips"), forwards=row.verify_forwards or 0))]


def summarise(
    name: str, first: Sequence[Settled], made: Sequence[Settled], resamples: int = 1000
) -> Correction:
    """Return what a method reached, against the first samples of the same problems."""
    right = [settled.right for settled in made]
    samples = [settled.samples for settled in made]
    accuracy = proportion(right)
    n_avg = bootstrap(mean, samples, resamples=resamples)
    forwards = bootstrap(mean, [settled.forwards for settled in made], resamples=resamples)
    if accuracy is None or n_avg is None or forwards is None:
        raise ValueError("correction needs at least one problem.")
    gain = [int(m.right) - int(f.right) for m, f in zip(made, first, strict=True)]
    eff = bootstrap(efficiency, gain, samples, resamples=resamples)
    return Correction(method=name, accuracy=accuracy, n_avg=n_avg, eff=eff, forwards=forwards)


def efficiency(gain: ArrayLike, samples: ArrayLike) -> float | None:
    """Return Eff = (Acc - Acc_std) / (N_avg - 1), in points; None at N_avg = 1."""
    gained, drawn = mean(gain), mean(samples)
    return None if gained is None or drawn in (None, 1.0) else 100 * gained / (drawn - 1)


def _same_cost(
    pooled: Sequence[Pool], size: int, spent: Sequence[Settled]
) -> dict[str, list[Settled]]:
    """Return the vote and confidence with as many samples as rejection sampling's cost buys.

    The number is rounded up, in favour of the other methods; nothing where the pool is smaller.
    """
    budget = fmean(settled.forwards for settled in spent)
    n = math.ceil(budget / fmean(standard(pool).forwards for pool in pooled))
    if n > size:
        return {}
    return {
        "vote_same_cost": [majority(pool[:n]) for pool in pooled],
        "best_of_same_cost_confidence": [best_of(pool[:n], "confidence") for pool in pooled],
    }


def _majority(n: int) -> Chooser:
    return lambda pool: majority(pool[:n])


def _best(n: int, score: str) -> Chooser:
    return lambda pool: best_of(pool[:n], score)


def _generation(pool: Pool) -> float:
    return float(sum(row.forwards for row in pool))


def _verification(pool: Pool) -> float:
    return sum(verify_forwards(row) for row in pool)


RIVALS: dict[str, tuple[int, Chooser]] = {  # samples each looks at, and its choice
    "standard": (1, standard),
    "vote3": (3, _majority(3)),
    "vote10": (10, _majority(10)),
    "best_of_3_confidence": (3, _best(3, "confidence")),
    "best_of_3": (3, _best(3, "roundtrips")),
}
