"""Records and plain lists -> columns of numbers, one entry per answer. numpy alone.

An absent value is None in records and lists, and NaN in arrays: it is no score, so it is never
accepted and never averaged.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.errors import InputError
from remask.records.record import Record

Column = Sequence[float | None]
Scores = ArrayLike | Column | Sequence[Column]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def metric_columns(rows: Iterable[Record], metrics: Sequence[str]) -> dict[str, list[float | None]]:
    """Return each metric's mean over the round trips of every row."""
    rows = list(rows)
    return {name: [trip_mean(row, name) for row in rows] for name in metrics}


def labelled(scores: Scores, right: ArrayLike) -> tuple[Floats, Flags]:
    """Return scores, absent ones as NaN, and labels, as arrays of one shape that is not empty."""
    values, labels = absent_as_nan(scores), np.asarray(right, bool)
    if values.shape != labels.shape:
        raise InputError(f"there are {values.shape} scores for {labels.shape} labels; pair them.")
    if values.size == 0:
        raise InputError("there are no answers; give at least one with its label.")
    return values, labels


def absent_as_nan(scores: Scores) -> Floats:
    """Return the scores as an array; numpy reads None as NaN."""
    return np.asarray(scores, np.float64)


def trip_mean(row: Record, name: str, trips: int | None = None) -> float | None:
    """Return a metric's mean over the first `trips` round trips of a row; None without a value."""
    values = row.by_trip.get(name, [])[:trips]
    present = [value for value in values if value is not None]
    return fmean(present) if present else None
