"""How two columns go together. numpy alone.

A correlation with a constant does not exist and is None.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.decide.auroc import ranks
from remask.decide.columns import absent_as_nan
from remask.errors import InputError


def spearman(a: ArrayLike, b: ArrayLike) -> float | None:
    """Return the rank correlation; equal values share their mean rank."""
    return _pearson(ranks(absent_as_nan(a)), ranks(absent_as_nan(b)))


def r_squared(a: ArrayLike, b: ArrayLike) -> float | None:
    """Return the share of the variance of either that a straight line in the other explains."""
    correlation = _pearson(absent_as_nan(a), absent_as_nan(b))
    return None if correlation is None else correlation**2


def _pearson(a: NDArray[np.float64], b: NDArray[np.float64]) -> float | None:
    if a.shape != b.shape:
        raise InputError(f"columns must have the same length, got {a.shape} and {b.shape}.")
    if len(a) == 0 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    x, y = a - a.mean(), b - b.mean()
    # Rounding may carry a perfect correlation past 1 by the last digit.
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))
