"""AUROC: how well a score ranks right answers above wrong ones. numpy alone.

It is here because weights are chosen by it; what else is measured, and every interval, is in
`analysis`.
"""

from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from remask.decide.columns import Flags, Floats
from remask.errors import InputError
from remask.settings import checked, shown

Column = Annotated[ArrayLike, Any]  # validated by `pair`


@checked
def auroc(scores: Column, right: Column) -> float | None:
    """Return the chance that a right answer outscores a wrong one, ties counted half.

    None if there are no right answers, or no wrong ones. A score of None ranks below every number.
    """
    values, labels = pair(scores, right)
    num_right = int(labels.sum())
    num_wrong = len(labels) - num_right
    if num_right == 0 or num_wrong == 0:
        return None
    above = ranks(values)[labels].sum() - num_right * (num_right + 1) / 2  # Mann and Whitney's U
    return float(above / (num_right * num_wrong))


def expected_auroc(scores: ArrayLike, chances: ArrayLike) -> float:
    """Return the AUROC that scores have, ties counted half, where answers are right by chance.

    That is the mean over all pairs of two answers, weighted by the chance that one of them is right
    and the other wrong. At least two answers must have a chance above 0, or below 1.
    """
    q = np.asarray(chances, np.float64)
    _, level = np.unique(np.asarray(scores, np.float64), return_inverse=True)
    right, wrong = np.bincount(level, q), np.bincount(level, 1 - q)  # per value, ascending
    own = (q * (1 - q)).sum()  # an answer is no pair with itself
    above = right @ (wrong.cumsum() - wrong / 2) - own / 2
    return float(above / (q.sum() * (1 - q).sum() - own))


def ranks(values: ArrayLike) -> Floats:
    """Return the rank of each value, from 1; equal ones share their mean rank."""
    column = np.asarray(values)  # `np.unique` takes twice as long on the rows of a resample
    order = column.argsort()
    ordered = column[order]
    begins = np.ones(len(order) + 1, bool)  # a run of equal values; one more behind the last
    begins[1:-1] = ordered[1:] != ordered[:-1]
    bounds = begins.nonzero()[0]
    out = np.empty(len(order))
    out[order] = np.repeat((bounds[:-1] + bounds[1:] + 1) / 2, bounds[1:] - bounds[:-1])
    return out


def pair(scores: ArrayLike, right: ArrayLike) -> tuple[Floats, Flags]:
    """Return scores and labels as columns of one length; None becomes minus infinity."""
    values, labels = _column("scores", scores), _column("right", right)
    if len(values) != len(labels):
        raise InputError(
            f"scores and right must have the same length, got {len(values)} and {len(labels)}."
        )
    wrong = labels[(labels != 0) & (labels != 1)]
    if len(wrong):
        raise InputError(f"right must be true or false, got {shown(float(wrong[0]))}.")
    return values, labels.astype(bool)


def _column(name: str, given: Any) -> Floats:
    """Return numbers as a column, (n,)."""
    try:
        if not isinstance(given, np.ndarray | str | bytes | dict | set):
            listed = given.tolist() if hasattr(given, "tolist") else list(given)
            lowest = -np.inf if name == "scores" else None
            given = [lowest if value is None else value for value in listed]
        column = np.asarray(given)
        is_number = column.ndim == 1 and (column.size == 0 or column.dtype.kind in "biuf")
        column = column.astype(np.float64) if is_number else column
    except Exception:  # ragged lists, and objects that are not arrays
        is_number = False
    if not is_number:
        raise InputError(f"{name} must be a list of numbers, got {shown(given)}.")
    if np.isnan(column).any():
        raise InputError(f"{name} must not hold NaN.")
    return column
