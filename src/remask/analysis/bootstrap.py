"""The bootstrap: problems are drawn with replacement, and every number is measured in each draw.

    bootstrap(auroc, scores, right, groups=problems)    # an interval of one statistic
    draws = Draws.of(problems)                          # many numbers in the same draws
    (draws.mean(a) - draws.mean(b)).interval()          # paired

All answers to a problem are drawn together. With several runs (seeds of a study) a draw also picks
runs with replacement, and a number is the mean over the runs picked. In simulations with three runs
the interval holds the truth in 99 % of cases if runs differ only by their problems, in 94 % if they
differ by as much again, and in 84 % if they differ three times as much.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.decide.auroc import auroc

LEVEL = (2.5, 97.5)  # percentiles of a 95 % interval
RESAMPLES = 1000
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Statistic = Callable[..., float | None]
Run = Sequence[ArrayLike]  # the problem of each answer, then the columns of a statistic


@dataclass(frozen=True)
class Interval:
    """A measured number with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int  # answers or problems it was measured on


@dataclass(frozen=True, eq=False)
class Estimate:
    """A measured number and its value in every draw; numbers of the same draws can be combined."""

    value: float
    drawn: Floats  # (D,) NaN if undefined
    n: int

    def __add__(self, other: "Estimate") -> "Estimate":
        """Return the sum."""
        return Estimate(self.value + other.value, self.drawn + other.drawn, self.n)

    def __sub__(self, other: "Estimate") -> "Estimate":
        """Return the paired difference."""
        return Estimate(self.value - other.value, self.drawn - other.drawn, self.n)

    def __truediv__(self, other: "Estimate") -> "Estimate":
        """Return the ratio."""
        return Estimate(self.value / other.value, self.drawn / other.drawn, self.n)

    def interval(self) -> Interval:
        """Return the percentile interval; it always contains the value."""
        known = self.drawn[~np.isnan(self.drawn)]
        low, high = np.percentile([*known, self.value], LEVEL)
        return Interval(
            self.value, min(float(low), self.value), max(float(high), self.value), self.n
        )


@dataclass(frozen=True, eq=False)
class Draws:
    """How often each answer is in each draw."""

    times: Counts  # (D, n)
    run: NDArray[np.intp]  # (n,) the run of each answer
    picked: NDArray[np.intp]  # (D, R) the runs of each draw

    @staticmethod
    def of(
        problems: ArrayLike,
        run: ArrayLike | None = None,
        *,
        name: str = "",
        resamples: int | None = None,
        seed: int = 0,
    ) -> "Draws":
        """Draw the problems of some answers.

        Args:
            problems: the problem of each answer.
            run: the run of each answer, counted from 0; by default there is one.
            name: of a set of problems, which then has draws of its own.
            resamples: number of draws, by default `RESAMPLES`.
            seed: of the draws.
        """
        resamples = RESAMPLES if resamples is None else resamples
        known, problem = np.unique(np.asarray(problems), return_inverse=True)
        runs = np.zeros(len(problem), np.intp) if run is None else np.asarray(run, np.intp)
        generator = np.random.default_rng([seed, zlib.crc32(name.encode())] if name else seed)
        n, num_runs = len(known), int(runs.max(initial=0)) + 1
        times = np.empty((resamples, n), np.int64)
        picked = np.empty((resamples, num_runs), np.intp)
        for k in range(resamples):
            times[k] = np.bincount(generator.integers(0, n, n), minlength=n)
            picked[k] = generator.integers(0, num_runs, num_runs)
        return Draws(times[:, problem], runs, picked)

    def only(self, chosen: ArrayLike) -> "Draws":
        """Return the same draws of some of the answers."""
        rows = np.asarray(chosen, bool)
        return Draws(self.times[:, rows], self.run[rows], self.picked)

    def measure(self, statistic: Statistic, *columns: ArrayLike) -> Estimate | None:
        """Return a statistic of columns with one entry per answer; None if it is undefined."""
        data = [np.asarray(column) for column in columns]
        members = [np.flatnonzero(self.run == k) for k in range(self.picked.shape[1])]

        def over_runs(rows: Sequence[NDArray[np.intp]], picked: Sequence[int]) -> float:
            values = {k: statistic(*(column[rows[k]] for column in data)) for k in set(picked)}
            known = [value for k in picked if (value := values[k]) is not None]
            return fmean(known) if known else np.nan

        value = over_runs(members, range(len(members)))
        if np.isnan(value):
            return None
        drawn = [
            over_runs([np.repeat(rows, times[rows]) for rows in members], picked.tolist())
            for times, picked in zip(self.times, self.picked, strict=True)
        ]
        return Estimate(value, np.array(drawn), len(self.run))

    def mean(self, values: ArrayLike) -> Estimate | None:
        """Return the mean over the answers of one run; NaN counts as no value."""
        column = np.asarray(values, np.float64)
        known = ~np.isnan(column)
        if not known.any():
            return None
        value, n = float(column[known].mean()), int(known.sum())
        if np.ptp(column[known]) == 0:  # rounding would make an interval of a constant
            value = float(column[known][0])
            return Estimate(value, np.full(len(self.times), value), n)
        times = self.times[:, known].astype(np.float64)
        with np.errstate(invalid="ignore"):  # a draw can miss all known values
            return Estimate(value, times @ column[known] / times.sum(1), n)

    def auroc(
        self, scores: ArrayLike, right: ArrayLike, strata: ArrayLike | None = None
    ) -> Estimate | None:
        """Return the AUROC of one run, or the mean AUROC of several fits with scores (K, n).

        Only pairs of a right and a wrong answer with the same entry in `strata` count, ties half.
        In a draw a pair counts as often as both of its answers, so that with the counts r and w of
        right and wrong answers, the shares won W and the pairs that count S, both (R, W),

            AUROC = r' W w / r' S w
        """
        labels, fits = np.asarray(right, bool), np.atleast_2d(np.asarray(scores, np.float64))
        bins = np.zeros(len(labels)) if strata is None else np.asarray(strata)
        counted = np.equal.outer(bins[labels], bins[~labels]).astype(np.float32)
        if not counted.any():
            return None
        won = sum(pairs_won(fit, labels) for fit in fits) / np.float32(len(fits)) * counted
        value = float(won.sum(dtype=np.float64) / counted.sum(dtype=np.float64))
        with np.errstate(invalid="ignore"):  # a draw can hold no pair
            drawn = self._over_pairs(won, labels) / self._over_pairs(counted, labels)
        return Estimate(value, drawn, len(labels))

    def _over_pairs(self, pairs: NDArray[np.float32], labels: NDArray[np.bool_]) -> Floats:
        """Return in each draw the sum of (R, W), weighted by how often each pair was drawn."""
        times = self.times.astype(np.float32)
        total: Floats = ((times[:, ~labels] @ pairs.T) * times[:, labels]).sum(1, dtype=np.float64)
        return total


def bootstrap(
    statistic: Statistic,
    *columns: ArrayLike,
    groups: ArrayLike | None = None,
    resamples: int | None = None,
    seed: int = 0,
) -> Interval | None:
    """Return a statistic of columns with its interval; None if it is undefined.

    Args:
        statistic: takes the columns, returns a number or None.
        columns: one entry per answer.
        groups: the problem of each answer; by default every answer has its own.
        resamples: number of draws, by default `RESAMPLES`.
        seed: of the draws.
    """
    if not columns or (n := len(np.asarray(columns[0]))) == 0:
        return None
    draws = Draws.of(range(n) if groups is None else groups, resamples=resamples, seed=seed)
    estimate = draws.measure(statistic, *columns)
    return None if estimate is None else estimate.interval()


def over_seeds(
    statistic: Statistic, runs: Sequence[Run], *, resamples: int | None = None, seed: int = 0
) -> Interval | None:
    """Return the mean of a statistic over runs with its interval; None if it is undefined."""
    data = [[np.asarray(column) for column in run] for run in runs]
    data = [run for run in data if len(run[0])]
    if not data:
        return None
    problems, *columns = (np.concatenate(column) for column in zip(*data, strict=True))
    run = np.repeat(np.arange(len(data)), [len(problems) for problems, *_ in data])
    estimate = Draws.of(problems, run, resamples=resamples, seed=seed).measure(statistic, *columns)
    return None if estimate is None else estimate.interval()


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean over sets of problems; every set has the same weight."""
    return Estimate(
        fmean(each.value for each in estimates),
        np.mean([each.drawn for each in estimates], axis=0),
        sum(each.n for each in estimates),
    )


def pairs_won(scores: ArrayLike, right: ArrayLike) -> NDArray[np.float32]:
    """Return 1 for each pair (R, W) in which the right answer scores higher, 1/2 for a tie."""
    values, labels = np.asarray(scores), np.asarray(right, bool)
    ours, theirs = values[labels][:, None], values[~labels][None, :]
    return np.asarray((ours > theirs) + 0.5 * (ours == theirs), np.float32)


def auroc_gap(a: ArrayLike, right_a: ArrayLike, b: ArrayLike, right_b: ArrayLike) -> float | None:
    """Return AUROC(a) - AUROC(b), each with its own labels; None if one is undefined."""
    one, other = auroc(a, right_a), auroc(b, right_b)
    return None if one is None or other is None else one - other
