"""AUROC. Fits are chosen by it; other metrics and confidence intervals are in `analysis`."""

from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from remask.decide.columns import Flags, Floats, absent_as_nan, read_labels
from remask.errors import InputError
from remask.settings import checked, fit

Column = Annotated[ArrayLike, Any]  # validated by `pair`


@checked
def auroc(scores: Column, right: Column) -> float | None:
    """Return the probability that a right answer outscores a wrong one; ties count half.

    None unless there are both right and wrong answers. A score of None ranks last.
    """
    values, labels = pair(scores, right)
    num_right = int(labels.sum())
    num_wrong = len(labels) - num_right
    if num_right == 0 or num_wrong == 0:
        return None
    above = ranks(values)[labels].sum() - num_right * (num_right + 1) / 2  # Mann and Whitney's U
    return float(above / (num_right * num_wrong))


def expected_auroc(scores: ArrayLike, chances: ArrayLike) -> float:
    """Return the expected AUROC of scores if answer i is right with probability `chances[i]`.

    This is the mean over all pairs of answers, weighted by the probability that the first is right
    and the second wrong. Ties count half.
    """
    q = np.asarray(chances, np.float64)
    _, level = np.unique(np.asarray(scores, np.float64), return_inverse=True)
    right, wrong = np.bincount(level, q), np.bincount(level, 1 - q)  # per value, ascending
    own = (q * (1 - q)).sum()  # an answer does not form a pair with itself
    above = right @ (wrong.cumsum() - wrong / 2) - own / 2
    return float(above / (q.sum() * (1 - q).sum() - own))


def ranks(values: ArrayLike) -> Floats:
    """Return the rank of each value, from 1; equal values share their mean rank."""
    column = np.asarray(values)  # `np.unique` takes twice as long on the rows of a resample
    order = column.argsort()
    ordered = column[order]
    begins = np.ones(len(order) + 1, bool)  # starts of runs of equal values, and the end
    begins[1:-1] = ordered[1:] != ordered[:-1]
    bounds = begins.nonzero()[0]
    out = np.empty(len(order))
    out[order] = np.repeat((bounds[:-1] + bounds[1:] + 1) / 2, bounds[1:] - bounds[:-1])
    return out


def pair(scores: ArrayLike, right: ArrayLike) -> tuple[Floats, Flags]:
    """Return scores and labels as arrays of the same length; None becomes minus infinity."""
    if not issubclass(type(scores), np.ndarray):
        listed = fit("scores", list[Any], scores, error=InputError)
        scores = [-np.inf if value is None else value for value in listed]
    values, labels = absent_as_nan(scores), read_labels(right)
    if np.isnan(values).any():
        raise InputError("scores must not hold NaN.")
    if values.ndim != 1 or values.shape != labels.shape:
        raise InputError(
            f"scores and right must be lists of the same length, got shapes {values.shape} and "
            f"{labels.shape}."
        )
    return values, labels
