"""Trainings as the unit: means over runs with t-intervals, and what they tell.

Runs of one method differ by their seeds far more than an answer's noise explains, so what is
resampled by answers is too sure of itself. Runs of two methods with the same seed have the same
start, problems and batches: their differences are taken seed by seed.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from remask.analysis.bootstrap import Interval
from remask.errors import InputError

ABOVE, BELOW, OPEN = "above", "below", "cannot be told"


def over_runs(values: Sequence[float]) -> Interval:
    """Return the mean of one number per run with its 95 % t-interval; `n` counts the runs."""
    from scipy.stats import t

    if len(values) < 2:
        raise InputError(f"{len(values)} run has no interval; train with more seeds.")
    mean = fmean(values)
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half, len(values))


def differences(ours: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    """Return ours minus theirs, seed by seed, of the seeds that both have."""
    return [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]


def log_odds(share: float, num: int) -> float:
    """Return the log-odds of a share of `num` answers, half an answer added to either side."""
    count = share * num
    return math.log((count + 0.5) / (num - count + 0.5))


def verdict(interval: Interval, bound: float = 0.0) -> str:
    """Return on which side of the bound the interval lies, or that it cannot be told."""
    if interval.low > bound:
        return ABOVE
    return BELOW if interval.high < bound else OPEN
