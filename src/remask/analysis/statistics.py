"""How well scores tell right answers from wrong ones, with intervals. numpy alone.

Higher scores mean right, everywhere. A measure that does not exist, such as an AUROC over right
answers only, is None and never a made-up 0.5. Intervals are 95 %.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.bootstrap import Interval
from remask.decide.auroc import pair
from remask.decide.columns import absent_as_nan, read_labels

_Z = 1.959963984540054  # the normal quantile that goes with them


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
