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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remask.analysis.correction import SIZES, mgrs
from remask.analysis.figures import Figures, plain, present
from remask.analysis.pool import Pool, Row, pool_size, pools, verify_forwards
from remask.analysis.statistics import Interval, bootstrap, mean
from remask.errors import RecordError
from remask.records import manifest

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
        asked = manifest.read(path)["asked"]
        places = (("sampler", "steps"), ("consistency", "rebuild_steps"), ("consistency", "trips"))
        found: list[Any] = [(asked.get(part) or {}).get(name) for part, name in places]
        for (part, name), value in zip(places, found, strict=True):
            if not isinstance(value, int) or value < 1:
                raise RecordError(
                    f"{manifest.path_of(path)} is damaged: asked.{part}.{name} is {value!r:.80}, "
                    f"not a whole number from 1 up; {manifest.REMEDY}."
                )
        return Steps(generation=found[0], rebuild=found[1], trips=found[2])


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One formula and what was counted, per problem."""

    what: str
    formula: str
    says: float
    counted: Interval
    ratio: Interval  # counted / says
    unit: str = "forwards"


def cost(
    rows: Iterable[Row],
    steps: Steps,
    threshold: float,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Cost]:
    """Return every formula against what these records counted.

    Rejection sampling is replayed at `threshold`, where the whole pool was verified.
    """
    found = [pool for pool in pools(rows) if "verify_forwards" in pool[0]]
    if not found:
        return []
    first = np.asarray([pool[0]["forwards"] for pool in found], np.float64)
    trips = np.asarray([verify_forwards(pool[0]) for pool in found])
    pool = np.asarray([sum(row["forwards"] for row in pool) for pool in found], np.float64)
    size = pool_size(found)
    ones = np.ones(len(found))
    t, n_k, both = steps.generation, steps.trips * steps.rebuild, steps.verified

    def against(what: str, formula: str, counted: Floats, each: Floats, at: float) -> Cost:
        return _against(what, formula, counted, each, at, resamples=resamples, seed=seed)

    told = [
        against("generation", "T", first, ones, t),
        against("verification", "N K", trips, ones, n_k),
        against("diagnosis", "T + N K", first + trips, ones, both),
    ]
    if size > 1:
        told.append(against("self_consistency", "N_SC T", pool, ones, size * t))
        share = against("diagnosis_share", "(T + N K) / (N_SC T)", first + trips, pool, 1.0)
        told.append(_share(share, both / (size * t)))
    if all("verify_forwards" in row for pool in found for row in pool):
        samples, spent = _replayed(found, threshold, min(max(SIZES), size))
        told.append(against("mgrs", "N_avg (T + N K)", spent, samples, both))
    return told


def formula_figures(study: str, told: Iterable[Cost]) -> Figures:
    """Return the figures of every formula of a study."""
    found: Figures = {}
    for row in told:
        name = f"cost/{study}/{row.what}"
        intervals = {
            "counted": (row.counted, row.unit), "ratio": (row.ratio, f"counted / {row.formula}")
        }  # fmt: skip
        found |= {f"{name}/formula": plain(row.says, row.unit)} | present(name, intervals)
    return found


def _against(
    what: str,
    formula: str,
    counted: Floats,
    each: Floats,
    at: float,
    *,
    resamples: int,
    seed: int,
) -> Cost:
    """Return a cost; the formula says `at` for every unit of `each`."""

    def ratio(spent: Floats, units: Floats) -> float:
        return float(spent.mean() / (at * units.mean()))

    measured = bootstrap(mean, counted, resamples=resamples, seed=seed)
    relative = bootstrap(ratio, counted, each, resamples=resamples, seed=seed)
    if measured is None or relative is None:
        raise ValueError("costs need at least one problem.")
    says = at * float(each.mean())
    return Cost(what=what, formula=formula, says=says, counted=measured, ratio=relative)


def _share(found: Cost, says: float) -> Cost:
    """Return a quotient of two counted costs beside what the formula makes it."""
    share = found.ratio
    scaled = Interval(share.value / says, share.low / says, share.high / says, share.n)
    return Cost(
        what=found.what, formula=found.formula, says=says, counted=share, ratio=scaled, unit="share"
    )


def _replayed(found: Sequence[Pool], threshold: float, budget: int) -> tuple[Floats, Floats]:
    """Return the samples that rejection sampling drew of each problem, and what they cost."""
    made = [mgrs(pool, threshold, budget) for pool in found]
    samples, spent = zip(*((settled.samples, settled.forwards) for settled in made), strict=True)
    return np.asarray(samples, np.float64), np.asarray(spent, np.float64)
