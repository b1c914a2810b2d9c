"""One bootstrap for many numbers: problems are drawn once, and everything is measured in each draw.

    draws = draw_problems(400, "wordmath-hard")
    ours, theirs = draws.mean(a), draws.mean(b)
    (ours - theirs).interval()      of the differences, both measured on the same problems

The draws of a set belong to its name: they are the same whatever else is studied beside it. A mean
over sets has as its draws the means of theirs.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.statistics import LEVEL, Interval
from remask.decide.columns import Floats

RESAMPLES = 2000


@dataclass(frozen=True, eq=False)
class Resampled:
    """A measured number, and the same number in every draw."""

    value: float
    drawn: Floats  # (D,) NaN where it does not exist
    n: int  # problems it was measured on

    def __add__(self, other: "Resampled") -> "Resampled":
        """Return the sum with another number of the same draws."""
        return Resampled(self.value + other.value, self.drawn + other.drawn, self.n)

    def __sub__(self, other: "Resampled") -> "Resampled":
        """Return how much more this is than another number of the same draws."""
        return Resampled(self.value - other.value, self.drawn - other.drawn, self.n)

    def __truediv__(self, other: "Resampled") -> "Resampled":
        """Return how many times another number of the same draws this is."""
        return Resampled(self.value / other.value, self.drawn / other.drawn, self.n)

    def interval(self) -> Interval:
        """Return it with its 95 % interval, which holds the number itself."""
        known = self.drawn[~np.isnan(self.drawn)]
        low, high = np.percentile([*known, self.value], LEVEL)
        return Interval(
            self.value, min(float(low), self.value), max(float(high), self.value), self.n
        )


def mean_of(numbers: Sequence[Resampled]) -> Resampled:
    """Return the mean of numbers, each of its own set; every set counts alike."""
    return Resampled(
        fmean(number.value for number in numbers),
        np.mean([number.drawn for number in numbers], axis=0),
        sum(number.n for number in numbers),
    )


@dataclass(frozen=True, eq=False)
class ProblemDraws:
    """How often each problem of a set stands in each draw."""

    times: NDArray[np.float32]  # (D, n)

    def mean(self, values: ArrayLike) -> Resampled | None:
        """Return the mean over problems, (n,); NaN is no value. None where there is none at all."""
        column = np.asarray(values, np.float64)
        known = ~np.isnan(column)
        if not known.any():
            return None
        if np.ptp(column[known]) == 0:  # as most costs are
            value = float(column[known][0])
            return Resampled(value, np.full(len(self.times), value), int(known.sum()))
        counts = self.times[:, known].astype(np.float64)
        with np.errstate(invalid="ignore"):  # a draw may hold none of the known
            drawn = counts @ column[known] / counts.sum(1)
        return Resampled(float(column[known].mean()), drawn, int(known.sum()))


def draw_problems(n: int, name: str, *, resamples: int = RESAMPLES, seed: int = 0) -> ProblemDraws:
    """Return the draws of a set of `n` problems: as many of them each time, with replacement."""
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    counts = np.empty((resamples, n), np.float32)
    for k in range(resamples):
        counts[k] = np.bincount(generator.integers(0, n, n), minlength=n)
    return ProblemDraws(counts)
