"""Cost: the paper's formulas (appendix C.2) against the forwards that the records counted.

T steps write an answer, N trips of K steps verify it:

    generation           T
    verification         N K
    diagnosis            T + N K                     one answer, verified
    self_consistency     N_SC T                      the whole pool
    mgrs                 N_avg (T + N K)             N_avg is measured
    diagnosis_share      (T + N K) / (N_SC T)        "a fraction of the cost"

The formulas charge every step. Counted are forward passes per answer: one that ends early is
written in fewer steps than T, a rebuild of few tokens in fewer than K, and a block-causal model
spends passes on its past beside the steps. The paper calls N K negligible, with T = 1024.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remask.analysis.bootstrap import Interval, bootstrap
from remask.analysis.correction import SIZES, mgrs
from remask.analysis.figure import Figure, Figures, Place, of_intervals
from remask.analysis.load_records import Source, required
from remask.analysis.pool import Pool, is_scored, pool_size, pools, verify_forwards
from remask.analysis.statistics import mean
from remask.errors import RecordError
from remask.records.manifest import REMEDY, is_edited, manifest_path, read_manifest
from remask.records.record import Record

SECTION = "cost"
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What the records were collected with, in the paper's letters: T, K and N_BMC."""

    generation: int
    rebuild: int
    trips: int

    @property
    def verified(self) -> int:
        """Steps of one answer with its verification, T + N K."""
        return self.generation + self.trips * self.rebuild

    @staticmethod
    def read(path: Path) -> "Steps":
        """Return what the manifest beside a file of records says."""
        manifest = read_manifest(path)
        if is_edited(path, manifest):
            raise RecordError(f"{path} was edited after remask wrote it, so its cost is unknown.")
        settings = manifest.settings
        places = (("sampler", "steps"), ("consistency", "rebuild_steps"), ("consistency", "trips"))
        values: list[Any] = [(settings.get(part) or {}).get(name) for part, name in places]
        for (part, name), value in zip(places, values, strict=True):
            if not isinstance(value, int) or value < 1:
                raise RecordError(
                    f"{manifest_path(path)} is damaged: asked.{part}.{name} is {value!r:.80}, "
                    f"not a whole number from 1 up; {REMEDY}."
                )
        generation, rebuild, trips = values
        return Steps(generation=generation, rebuild=rebuild, trips=trips)


def cost_figures(source: Source) -> Figures:
    """Return the paper's formulas against counted forwards."""
    figures = Figures()
    for study in source.studies:
        if any(is_scored(row) for row in study.rows):
            steps = Steps.read(study.path)
            figures |= Figures(cost(study.name, study.rows, steps, study.threshold))
    return required(figures, source, "round trips", "--scored 1")


def cost(
    study: str,
    rows: Iterable[Record],
    steps: Steps,
    threshold: float,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Figure]:
    """Return every formula against what these records counted.

    Rejection sampling is replayed at `threshold`, where the whole pool was verified.
    """
    pooled = [pool for pool in pools(rows) if is_scored(pool[0])]
    if not pooled:
        return []
    first = np.asarray([pool[0].forwards for pool in pooled], np.float64)
    trips = np.asarray([verify_forwards(pool[0]) for pool in pooled])
    drawn = np.asarray([sum(row.forwards for row in pool) for pool in pooled], np.float64)
    size = pool_size(pooled)
    ones = np.ones(len(pooled))
    t, n_k, both = steps.generation, steps.trips * steps.rebuild, steps.verified
    against = partial(_against, study, resamples=resamples, seed=seed)
    figures = [
        *against("generation", "T", first, ones, t),
        *against("verification", "N K", trips, ones, n_k),
        *against("diagnosis", "T + N K", first + trips, ones, both),
    ]
    if size > 1:
        figures += against("self_consistency", "N_SC T", drawn, ones, size * t)
        share = _ratio(first + trips, drawn, 1.0, resamples=resamples, seed=seed)
        formula = "(T + N K) / (N_SC T)"
        figures += _compared(study, "diagnosis_share", formula, both / (size * t), share, "share")
    if all(is_scored(row) for pool in pooled for row in pool):
        samples, spent = _replayed(pooled, threshold, min(max(SIZES), size))
        figures += against("mgrs", "N_avg (T + N K)", spent, samples, both)
    return figures


def _against(
    study: str,
    what: str,
    formula: str,
    counted: Floats,
    each: Floats,
    at: float,
    *,
    resamples: int,
    seed: int,
) -> list[Figure]:
    """Return a cost; the formula says `at` for every unit of `each`."""
    measured = bootstrap(mean, counted, resamples=resamples, seed=seed)
    if measured is None:
        raise ValueError("costs need at least one problem.")
    ratio = _ratio(counted, each, at, resamples=resamples, seed=seed)
    says = at * float(each.mean())
    return _compared(study, what, formula, says, measured, "forwards", ratio)


def _ratio(
    counted: Floats, each: Floats, at: float, *, resamples: int, seed: int
) -> Interval | None:
    """Return what was counted as a share of `at` for every unit of `each`."""

    def ratio(spent: Floats, units: Floats) -> float:
        return float(spent.mean() / (at * units.mean()))

    return bootstrap(ratio, counted, each, resamples=resamples, seed=seed)


def _compared(
    study: str,
    what: str,
    formula: str,
    says: float,
    counted: Interval | None,
    unit: str,
    ratio: Interval | None = None,
) -> list[Figure]:
    """Return what the formula says, what was counted, and their ratio: by default a quotient."""
    if ratio is None and counted is not None:
        low, high = counted.low / says, counted.high / says
        ratio = Interval(counted.value / says, low, high, counted.n)
    place: Place = {"section": SECTION, "study": study, "method": what}
    intervals = {"counted": (counted, unit), "ratio": (ratio, f"counted / {formula}")}
    said = Figure(**place, measure="formula", value=says, unit=unit)
    return [said, *of_intervals(intervals, **place)]


def _replayed(pooled: Sequence[Pool], threshold: float, budget: int) -> tuple[Floats, Floats]:
    """Return the samples that rejection sampling drew of each problem, and what they cost."""
    made = [mgrs(pool, threshold, budget) for pool in pooled]
    samples, spent = zip(*((settled.samples, settled.forwards) for settled in made), strict=True)
    return np.asarray(samples, np.float64), np.asarray(spent, np.float64)
