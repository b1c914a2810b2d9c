"""How well scores tell right answers from wrong ones, with intervals. numpy alone.

Higher scores mean right, everywhere. A measure that does not exist, such as an AUROC over right
answers only, is None and never a made-up 0.5. Intervals are 95 %.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.decide.auroc import auroc, pair
from remask.decide.columns import absent_as_nan, read_labels

Statistic = Callable[..., float | None]
Rows = NDArray[np.intp]

LEVEL = (2.5, 97.5)  # percentiles of a 95 % interval
_Z = 1.959963984540054  # the normal quantile that goes with them


@dataclass(frozen=True)
class Interval:
    """A measured number with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int  # answers or problems it was measured on


def interval_text(interval: Interval | None, digits: int = 3) -> str:
    """Return "0.931 [0.912, 0.949]", or a dash."""
    if interval is None:
        return "–"
    return f"{interval.value:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def aupr(scores: ArrayLike, right: ArrayLike) -> float | None:
    """Return average precision, right answers being the positives; equal scores are one step."""
    values, labels = pair(scores, right)
    if labels.all() or not labels.any():
        return None
    order = np.argsort(-values, kind="stable")
    values, right_above = values[order], labels[order].cumsum()
    ends = np.flatnonzero(values[1:] != values[:-1])
    last = np.append(ends, len(values) - 1)  # of each distinct score
    precision = right_above[last] / (last + 1)
    gained = np.diff(right_above[last], prepend=0) / right_above[-1]
    return float((precision * gained).sum())


def curve(scores: ArrayLike, right: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ROC curve: the shares of wrong and of right answers above each threshold."""
    values, labels = pair(scores, right)
    order = np.argsort(-values, kind="stable")
    labels = labels[order]
    ordered = values[order]
    last = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(values) - 1)
    shares = (np.cumsum(kind)[last] / max(kind.sum(), 1) for kind in (~labels, labels))
    wrong_above, right_above = (np.concatenate([[0.0], share]) for share in shares)
    return wrong_above, right_above


def mean(values: ArrayLike) -> float | None:
    """Return the mean; None of nothing."""
    column = absent_as_nan(values, "values")
    return float(column.mean()) if len(column) else None


def proportion(flags: ArrayLike) -> Interval | None:
    """Return a share with Wilson's interval, which keeps its width at 0 and at 1."""
    column = read_labels(flags)
    n = len(column)
    if n == 0:
        return None
    share = float(column.mean())
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
    # At 0 and at 1 rounding may leave the share outside by the last digit.
    return Interval(share, min(max(middle - half, 0.0), share), max(middle + half, share), n)


def bootstrap(
    statistic: Statistic,
    *columns: ArrayLike,
    groups: ArrayLike | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval | None:
    """Return the statistic of the columns with its percentile interval; None where it is absent.

    Args:
        statistic: takes the columns, returns a number or None.
        columns: one row per answer.
        groups: the question of each row: questions are then drawn, with all their rows.
        resamples: how many times; those in which the statistic does not exist are left out.
        seed: of the draws.
    """
    data = [np.asarray(column) for column in columns]
    value = statistic(*data)
    if value is None:
        return None
    values = [
        drawn
        for rows in _resamples(len(data[0]), groups, resamples, seed)
        if (drawn := statistic(*(column[rows] for column in data))) is not None
    ]
    low, high = np.percentile([*values, value], LEVEL)
    # On a handful of rows the percentiles may leave the value outside: an interval holds its value.
    return Interval(value, min(float(low), value), max(float(high), value), len(data[0]))


def paired_difference(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    right: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval | None:
    """Return AUROC(a) - AUROC(b) on the same answers, both resampled together."""
    return bootstrap(
        _difference, scores_a, scores_b, right, groups=groups, resamples=resamples, seed=seed
    )


def _difference(a: ArrayLike, b: ArrayLike, right: ArrayLike) -> float | None:
    one, other = auroc(a, right), auroc(b, right)
    return None if one is None or other is None else one - other


def _resamples(n: int, groups: ArrayLike | None, resamples: int, seed: int) -> Iterator[Rows]:
    """Yield row numbers, drawn with replacement: rows, or whole groups of them."""
    generator = np.random.default_rng(seed)
    if groups is None:
        for _ in range(resamples):
            yield generator.integers(0, n, n)
        return
    _, first, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    members = np.split(np.argsort(first, kind="stable"), sizes.cumsum()[:-1])
    table = np.stack(members) if len(np.unique(sizes)) == 1 else None  # (G, size): one index
    for _ in range(resamples):
        drawn = generator.integers(0, len(members), len(members))
        if table is not None:
            yield table[drawn].ravel()
        else:
            yield np.concatenate([members[group] for group in drawn])
