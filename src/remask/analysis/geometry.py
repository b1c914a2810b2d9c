"""Geometry: do answers lie densely where round trips change little, and are the dense ones right?

Every standard answer is a point whose coordinates are the metrics of its composite. Density is a
Gaussian kernel estimate with Scott's bandwidth, in the metrics' own units; quality is the mean of
the coordinates. The space is made of what the records allow:

- a metric without a value for half of the answers or more, or with one value for all, is no
  coordinate; an answer that lacks one of the others is left out and counted;
- directions in which the answers do not vary are dropped, so that the covariance has an inverse.

Both axes come from the same metrics, and most of these crowd below their bound of 1. That alone
makes density rise with quality. `spearman_null` says by how much: every metric keeps its values,
but which answer has which is shuffled, for each metric anew. What is beyond it is the answers' own.

Departures from the paper: its bounds of density and quality are absolute and belong to its units.
It says how many answers it expects beyond them if the axes were independent, 12.3 and 15.7 %; here
both axes are cut at the quantiles that give these shares. Its boundary comes without a definition;
here it is where the shares of right and of wrong answers above it differ most. The contraction rate
needs the model and is not here.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.bootstrap import Interval, bootstrap
from remask.analysis.correlation import r_squared, spearman
from remask.analysis.figure import Figure, Figures, Place, of_interval, of_intervals
from remask.analysis.load_records import Source, StudyRecords, required_of_trips
from remask.analysis.pool import composite_metrics, pools
from remask.analysis.statistics import curve, proportion
from remask.decide.columns import trip_mean
from remask.records.record import Record

SECTION = "geometry"
DENSITY_BINS = 5
HALLUCINATION = 0.123  # expected by the paper in the zone of density > 20, quality < 0.5
SPARSE = 0.157  # and in that of density < 10, quality > 0.8
_DIGITS = 9  # of densities and qualities; their rounding errors begin at the 13th
_FLAT = 1e-6  # a direction this much shorter than the longest one is none

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """Standard answers in the space of their metrics."""

    names: tuple[str, ...]  # of the coordinates
    features: Array  # (n, d)
    right: NDArray[np.bool_]  # (n,)
    density: Array  # (n,)
    quality: Array  # (n,)
    directions: int  # in which the answers vary; at most d
    dropped: tuple[str, ...]  # metrics of the composite that are no coordinates
    absent: int  # answers left out


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """The density that parts right answers from wrong ones best."""

    density: float
    right_above: float  # share of the right answers that are as dense or denser
    wrong_above: float


@dataclass(frozen=True, kw_only=True)
class Zone:
    """A corner of the plane of density and quality."""

    share: Interval  # of the answers
    expected: float  # if density and quality were independent


@dataclass(frozen=True, kw_only=True)
class ChiSquare:
    """Right and wrong answers over bins of density, tested for independence."""

    statistic: float
    p: float
    df: int
    cramers_v: float  # sqrt(statistic / n), which does not grow with n
    smallest_expected: float  # below 5 the test is not to be trusted


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """What the plane of density and quality shows; None for what does not exist."""

    names: tuple[str, ...]
    dropped: tuple[str, ...]
    directions: int
    n: int
    absent: int
    spearman: Interval | None  # of density and quality; intervals hold the density fixed
    spearman_null: Interval | None  # the same of shuffled metrics: mean, and 95 % of the shuffles
    r2: Interval | None
    density_ratio: Interval | None  # mean density of right answers over that of wrong ones
    boundary: Boundary | None
    hallucination: Zone | None  # dense, of low quality
    sparse: Zone | None  # of high quality, not dense
    chi2: ChiSquare | None
    spearman_confidence: Interval | None  # of round trips and confidence

    def figures(self, study: str, *, is_main: bool = False) -> list[Figure]:
        """Return what exists of it."""
        place: Place = {"section": SECTION, "study": study, "is_main": is_main}
        intervals = {
            "spearman": (self.spearman, "Spearman"),
            "spearman_null": (self.spearman_null, "Spearman, metrics shuffled"),
            "spearman_confidence": (self.spearman_confidence, "Spearman"),
            "r2": (self.r2, "R^2"), "density_ratio": (self.density_ratio, "right / wrong"),
        }  # fmt: skip
        figures = of_intervals(intervals, **place)
        zones = {"hallucination_zone": self.hallucination, "sparse_zone": self.sparse}
        for name, zone in zones.items():
            if zone is not None:
                figures.append(of_interval(zone.share, **place, measure=name, unit="share"))
                expected: Place = {"measure": f"{name}_expected", "unit": "share"}
                figures.append(Figure(**place, **expected, value=zone.expected))
        return figures + self._separation(place)

    def _separation(self, place: Place) -> list[Figure]:
        numbers = []
        if self.boundary is not None:
            numbers.append(("boundary", self.boundary.density, "density"))
        if self.chi2 is not None:
            numbers.append(("chi2", self.chi2.statistic, f"chi-square, df {self.chi2.df}"))
            numbers.append(("cramers_v", self.chi2.cramers_v, "Cramer's V"))
        return [
            Figure(**place, measure=measure, value=value, unit=unit, n=self.n)
            for measure, value, unit in numbers
        ]


def geometry_figures(source: Source) -> Figures:
    """Return density and quality of the answers in the space of their metrics."""
    figures = Figures()
    for study in source.studies:
        if any(row.by_trip for row in study.rows):
            figures |= plane(study, is_main=study.name == source.main)
    return required_of_trips(figures, source)


def plane(study: StudyRecords, *, is_main: bool = False) -> Figures:
    """Return the geometry of one study; nothing where its answers span no space."""
    measured = geometry(study.rows)
    return Figures() if measured is None else Figures(measured.figures(study.name, is_main=is_main))


def geometry(
    rows: Iterable[Record], *, resamples: int = 1000, shuffles: int = 100, seed: int = 0
) -> Geometry | None:
    """Return the geometry of the standard answers; None where they span no space."""
    standard = [pool[0] for pool in pools(rows)]
    answers = points(standard)
    if answers is None:
        return None
    plane, labelled = (answers.density, answers.quality), (answers.density, answers.right)
    return Geometry(
        names=answers.names,
        dropped=answers.dropped,
        directions=answers.directions,
        n=len(answers.right),
        absent=answers.absent,
        spearman=bootstrap(spearman, *plane, resamples=resamples, seed=seed),
        spearman_null=shuffled(answers.features, shuffles=shuffles, seed=seed),
        r2=bootstrap(r_squared, *plane, resamples=resamples, seed=seed),
        density_ratio=bootstrap(density_ratio, *labelled, resamples=resamples, seed=seed),
        boundary=boundary(*labelled),
        hallucination=corner(answers.density, -answers.quality, HALLUCINATION),
        sparse=corner(-answers.density, answers.quality, SPARSE),
        chi2=chi_square(*labelled),
        spearman_confidence=confidence_correlation(standard, resamples=resamples, seed=seed),
    )


def points(rows: Sequence[Record]) -> Points | None:
    """Return the answers as points with density and quality; None where they span no space."""
    metrics = tuple(dict.fromkeys(name for row in rows for name in composite_metrics(row)))
    values = [[trip_mean(row, name) for name in metrics] for row in rows]
    table = np.asarray(values, np.float64).reshape(len(rows), len(metrics))  # None becomes NaN
    chosen, complete = coordinates(table)
    features = table[np.ix_(complete, chosen)]
    directions = spanned(features)
    if directions.shape[1] == 0:
        return None
    names = tuple(name for name, is_chosen in zip(metrics, chosen, strict=True) if is_chosen)
    return Points(
        names=names,
        features=features,
        right=np.asarray([row.right for row in rows], bool)[complete],
        density=density(directions),
        quality=quality(features),
        directions=directions.shape[1],
        dropped=tuple(name for name in metrics if name not in names),
        absent=int((~complete).sum()),
    )


def coordinates(table: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which columns are coordinates, and which rows have all of these; NaN is absent."""
    values = np.asarray(table, np.float64)
    present = ~np.isnan(values)
    chosen = present.sum(0) > len(values) / 2
    complete = np.asarray(present[:, chosen].all(axis=1))
    if complete.any():
        chosen[chosen] = np.ptp(values[np.ix_(complete, chosen)], axis=0) > 0
    return chosen, complete


def spanned(features: ArrayLike) -> Array:
    """Return the points in the directions in which they vary, (n, d) -> (n, directions).

    Axes are turned, not stretched: volumes, and so densities, keep the units of the features.
    """
    table = np.asarray(features, np.float64)
    if table.size == 0:
        return np.empty((len(table), 0))
    centred = table - table.mean(0)
    _, lengths, axes = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ axes[lengths > _FLAT * max(lengths[0], _FLAT)].T)


def density(directions: Array) -> Array:
    """Return the kernel estimate at each of the points that it is made of."""
    from scipy.stats import gaussian_kde  # collecting, where scipy may be missing, imports this

    return _rounded(gaussian_kde(directions.T, bw_method="scott")(directions.T))


def quality(features: Array) -> Array:
    """Return the mean of the coordinates of each point."""
    return _rounded(features.mean(1))


def _rounded(values: Array) -> Array:
    """Return values that differ by rounding as equal ones, so that they share a rank."""
    return np.asarray([float(f"{value:.{_DIGITS}g}") for value in values])


def shuffled(features: Array, *, shuffles: int = 100, seed: int = 0) -> Interval | None:
    """Return the Spearman of density and quality when each column is shuffled by itself.

    The mean over the shuffles, and the interval that holds 95 % of them.
    """
    generator = np.random.default_rng(seed)
    tables = (generator.permuted(features, axis=0) for _ in range(shuffles))
    drawn = [spearman(density(spanned(table)), quality(table)) for table in tables]
    values = [value for value in drawn if value is not None]
    if not values:
        return None
    low, middle, high = np.percentile(values, 2.5), np.mean(values), np.percentile(values, 97.5)
    return Interval(float(middle), float(min(low, middle)), float(max(high, middle)), len(features))


def density_ratio(density: ArrayLike, right: ArrayLike) -> float | None:
    """Return the mean density of the right answers over that of the wrong ones."""
    values, labels = np.asarray(density, np.float64), np.asarray(right, bool)
    if labels.all() or not labels.any():
        return None
    return float(values[labels].mean() / values[~labels].mean())


def boundary(density: ArrayLike, right: ArrayLike) -> Boundary | None:
    """Return where right and wrong answers part best; None where dense ones are no more right."""
    wrong_above, right_above = curve(density, right)
    best = int((right_above - wrong_above).argmax())
    if best == 0 or wrong_above[-1] == 0:
        return None
    return Boundary(
        density=float(np.unique(np.asarray(density))[::-1][best - 1]),
        right_above=float(right_above[best]),
        wrong_above=float(wrong_above[best]),
    )


def corner(a: Array, b: Array, expected: float) -> Zone | None:
    """Return how many answers are high on both axes, cut so that `expected` are if independent."""
    side = 1 - math.sqrt(expected)
    high_a, high_b = (column > np.quantile(column, side) for column in (a, b))
    share = proportion(high_a & high_b)
    if share is None:
        return None
    return Zone(share=share, expected=float(high_a.mean() * high_b.mean()))


def chi_square(density: ArrayLike, right: ArrayLike) -> ChiSquare | None:
    """Return the test of right and wrong over bins of density that hold equally many answers."""
    from scipy.stats import chi2_contingency

    table = density_table(density, right)
    if table.shape[1] < 2 or not table.any(1).all():
        return None
    test = chi2_contingency(table, correction=False)
    return ChiSquare(
        statistic=float(test.statistic),
        p=float(test.pvalue),
        df=int(test.dof),
        cramers_v=math.sqrt(test.statistic / table.sum()),
        smallest_expected=float(test.expected_freq.min()),
    )


def density_table(density: ArrayLike, right: ArrayLike) -> NDArray[Any]:
    """Return how many answers are right and wrong in each bin of density that holds any, (2, 5)."""
    values, labels = np.asarray(density, np.float64), np.asarray(right, bool)
    edges = np.quantile(values, np.arange(1, DENSITY_BINS) / DENSITY_BINS)
    place = np.searchsorted(edges, values)
    table = np.stack(
        [np.bincount(place[kind], minlength=DENSITY_BINS) for kind in (labels, ~labels)]
    )
    return table[:, table.any(0)]


def confidence_correlation(
    rows: Sequence[Record], *, resamples: int = 1000, seed: int = 0
) -> Interval | None:
    """Return the Spearman of round trips and confidence over the answers that have both."""
    pairs = [(row.scores.get("roundtrips"), row.scores.get("confidence")) for row in rows]
    both = np.asarray([pair for pair in pairs if None not in pair], np.float64).reshape(-1, 2)
    return bootstrap(spearman, *both.T, resamples=resamples, seed=seed)
