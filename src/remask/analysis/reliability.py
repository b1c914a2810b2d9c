"""Scores read as probabilities of being right: how far off are they? numpy alone.

A score outside 0..1 is no probability: what is asked of such scores is None, as it is of no answers
at all. Lower is better here. Turning scores into probabilities is done elsewhere.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.decide.auroc import pair

BINS = 10


def brier(scores: ArrayLike, right: ArrayLike) -> float | None:
    """Return the mean squared distance of the scores from 1 where right, from 0 where wrong."""
    values, labels = pair(scores, right)
    if not _are_probabilities(values):
        return None
    return float(((values - labels) ** 2).mean())


def ece(scores: ArrayLike, right: ArrayLike, num_bins: int = BINS) -> float | None:
    """Return the expected calibration error over bins of equal width.

    That is the distance between mean score and share of right answers, averaged over the answers.
    """
    values, labels = pair(scores, right)
    if not _are_probabilities(values):
        return None
    said, came, sizes = diagram(values, labels, num_bins)
    return float((np.abs(said - came) * sizes).sum() / len(values))


def diagram(
    scores: ArrayLike, right: ArrayLike, num_bins: int = BINS
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return mean score, share of right answers and size of each bin that holds any, from the left.

    Scores lie in 0..1. A bin holds its lower edge; the last one both.
    """
    values, labels = pair(scores, right)
    place = np.minimum((values * num_bins).astype(np.intp), num_bins - 1)
    sizes = np.bincount(place, minlength=num_bins)
    filled = sizes > 0
    said, came = (
        np.bincount(place, weights=column, minlength=num_bins)[filled] / sizes[filled]
        for column in (values, labels)
    )
    return said, came, sizes[filled]


def _are_probabilities(values: NDArray[np.float64]) -> bool:
    return len(values) > 0 and bool(values.min() >= 0 and values.max() <= 1)
