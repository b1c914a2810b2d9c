"""Answers kept or rejected by their scores: what does answering less gain? numpy alone.

Kept are the best-scored answers, or those that score above a threshold. Equal scores have no order:
while some of them are kept, each counts in equal parts, which is the mean over all orders. What
does not exist, such as the precision of nothing, is None.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.bootstrap import Interval
from remask.analysis.statistics import proportion
from remask.decide.auroc import pair


def aurc(scores: ArrayLike, right: ArrayLike) -> float | None:
    """Return the area under the risk-coverage curve; lower is better.

    That is the share of wrong answers among the k best-scored, averaged over k = 1 .. n.
    """
    right_among = _right_among_best(scores, right)
    if len(right_among) == 0:
        return None
    return float((1 - right_among / np.arange(1, len(right_among) + 1)).mean())


def prr(scores: ArrayLike, right: ArrayLike) -> float | None:
    """Return the prediction-rejection ratio: 1 for a perfect order, 0 for a random one.

    It is how much of the way from a random order's AURC to a perfect order's these scores go. Wrong
    answers are counted among those kept. Counted among all answers, the ratio would be
    2 AUROC - 1 and say nothing new.
    """
    right_among = _right_among_best(scores, right)
    if len(right_among) == 0 or not 0 < round(right_among[-1]) < len(right_among):
        return None
    given = np.arange(1, len(right_among) + 1)
    gained = (right_among / given).mean() - right_among[-1] / given[-1]
    return float(
        gained / (np.minimum(right_among[-1] / given, 1).mean() - right_among[-1] / given[-1])
    )


def accuracy_at(scores: ArrayLike, right: ArrayLike, coverage: float) -> float | None:
    """Return the share of right answers among the best-scored `coverage` of them, in 0..1.

    Where that share is no whole number of answers, the last one counts in part.
    """
    right_among = _right_among_best(scores, right)
    given = coverage * len(right_among)
    if given == 0:
        return None
    places = np.arange(1, len(right_among) + 1)
    return float(np.interp(given, places, right_among, left=given * right_among[0]) / given)


def precision(scores: ArrayLike, right: ArrayLike, threshold: float) -> Interval | None:
    """Return the share of right answers among those above the threshold."""
    values, labels = pair(scores, right)
    return proportion(labels[values > threshold])


def recall(scores: ArrayLike, right: ArrayLike, threshold: float) -> Interval | None:
    """Return the share of the right answers that is above the threshold."""
    values, labels = pair(scores, right)
    return proportion((values > threshold)[labels])


def _right_among_best(scores: ArrayLike, right: ArrayLike) -> NDArray[np.float64]:
    """Return how many of the k best-scored answers are right, for k = 1 .. n."""
    values, labels = pair(scores, right)
    _, level, sizes = np.unique(-values, return_inverse=True, return_counts=True)
    shares = np.bincount(level, weights=labels) / sizes
    return np.repeat(shares, sizes).cumsum()
