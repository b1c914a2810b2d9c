"""Columns of numbers, one entry per answer, from records and lists.

An absent value is None in records and lists and NaN in arrays. Absent scores are never accepted
and never averaged.
"""

from collections.abc import Iterable, Sequence
from numbers import Real
from statistics import fmean
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.errors import InputError
from remask.records.record import Record
from remask.settings import fit, shown

Column = Annotated[Sequence[float | None], Any]  # `absent_as_nan` validates it
Scores = ArrayLike | Column | Sequence[Column]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def metric_columns(rows: Iterable[Record], metrics: Sequence[str]) -> dict[str, list[float | None]]:
    """Return the mean of each metric over the round trips of every row."""
    rows = list(rows)
    return {name: [trip_mean(row, name) for row in rows] for name in metrics}


def labelled(scores: Scores, right: ArrayLike) -> tuple[Floats, Flags]:
    """Return scores (absent: NaN) and labels as non-empty arrays of the same shape."""
    values, labels = absent_as_nan(scores), read_labels(right)
    if values.shape != labels.shape:
        raise InputError(
            f"scores and right must have the same shape, got {values.shape} and {labels.shape}."
        )
    if values.size == 0:
        raise InputError("scores must not be empty.")
    return values, labels


def absent_as_nan(scores: Scores, name: str = "scores") -> Floats:
    """Return the scores as an array of floats; None becomes NaN."""
    listed: Any = scores
    if not issubclass(type(scores), np.ndarray):
        listed = fit(name, list[Any], scores, error=InputError)
    try:
        column = np.asarray(listed)
        if column.dtype == object and all(v is None or isinstance(v, Real) for v in column.flat):
            column = column.astype(np.float64)  # numpy reads None as NaN
    except Exception:  # ragged lists, and objects that are not arrays
        column = np.asarray("")
    if column.ndim == 0 or (column.size > 0 and column.dtype.kind not in "biuf"):
        raise InputError(f"{name} must be a list of numbers, got {shown(scores)}.")
    return column.astype(np.float64, copy=False)


def read_labels(right: ArrayLike) -> Flags:
    """Return labels as an array of bool."""
    labels = absent_as_nan(right, "right")
    wrong = labels[(labels != 0) & (labels != 1)]
    if len(wrong):
        raise InputError(f"right must be true or false, got {shown(float(wrong[0]))}.")
    return labels.astype(bool)


def trip_mean(row: Record, name: str, trips: int | None = None) -> float | None:
    """Return a metric's mean over the first `trips` round trips of a row; None without a value."""
    values = row.by_trip.get(name, [])[:trips]
    present = [value for value in values if value is not None]
    return fmean(present) if present else None
