"""Answers kept or rejected by their scores: what does answering less gain? numpy alone.

Kept are the best-scored answers, or those that score above a threshold. Equal scores have no order:
while some of them are kept, each counts in equal parts, which is the mean over all orders. What
does not exist, such as the precision of nothing, is None.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.statistics import Interval, proportion
from remask.decide.auroc import pair


def aurc(scores: ArrayLike, right: ArrayLike) -> float | None:
    """Return the area under the risk-coverage curve; lower is better.

    That is the share of wrong answers among the k best-scored, averaged over k = 1 .. n.
    """
    found = _right_among_best(scores, right)
    if len(found) == 0:
        return None
    return float((1 - found / np.arange(1, len(found) + 1)).mean())


def prr(scores: ArrayLike, right: ArrayLike) -> float | None:
    """Return the prediction-rejection ratio: 1 for a perfect order, 0 for a random one.

    It is how much of the way from a random order's AURC to a perfect order's these scores go. Wrong
    answers are counted among those kept. Counted among all answers, the ratio would be
    2 AUROC - 1 and say nothing new.
    """
    found = _right_among_best(scores, right)
    if len(found) == 0 or not 0 < round(found[-1]) < len(found):
        return None
    kept = np.arange(1, len(found) + 1)
    gained = (found / kept).mean() - found[-1] / kept[-1]
    return float(gained / (np.minimum(found[-1] / kept, 1).mean() - found[-1] / kept[-1]))


def accuracy_at(scores: ArrayLike, right: ArrayLike, coverage: float) -> float | None:
    """Return the share of right answers among the best-scored `coverage` of them, in 0..1.

    Where that share is no whole number of answers, the last one counts in part.
    """
    found = _right_among_best(scores, right)
    kept = coverage * len(found)
    if kept == 0:
        return None
    places = np.arange(1, len(found) + 1)
    return float(np.interp(kept, places, found, left=kept * found[0]) / kept)


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
