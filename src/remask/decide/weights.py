"""Weights of the composite, fitted on a validation split: `optimized` beside `uniform`.

    fit_weights(metric_columns(rows, metrics), right, provenance)       the composite's metrics
    fit_weights({"confidence": ..., "vote": ..., ...}, right, ...)      baselines

The paper has task-specific, optimized weights, but does not say how. Here they minimise the
logistic loss

    logit P(right) = a + b S,   S = sum of w x metric over those present / sum of their w,

over w on the simplex, b >= 0 and a. AUROC is a step function of w, so optimising it directly
overfits single pairs of answers. The logistic loss is smooth, convex if no metric is absent, and
independent of the scale of S. A ridge on the standardised metrics shares weight among correlated
metrics and keeps b finite if they separate all answers.

Uniform weights are kept if the fitted ones have a lower AUROC on the answers of the fit. Evaluate
weights on other answers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remask.decide.auroc import auroc
from remask.decide.columns import Column, Flags, Floats, absent_as_nan, labelled
from remask.decide.provenance import Fitted, Provenance
from remask.errors import InputError, SettingsError
from remask.settings import checked

RIDGE = 10.0  # simulated: a tenth of it does worse than uniform weights on 60 answers
DIGITS = 4  # of a weight: more would differ between machines
_FLOOR = 1e-6  # of a coefficient in the descent, so that any answer with a metric has a score


@dataclass(frozen=True, kw_only=True)
class Weights(Fitted):
    """Fitted weights with their AUROC on the answers of the fit."""

    KIND = "weights"

    values: Mapping[str, float]
    n: int  # answers they were fitted on
    auroc: float  # on these answers
    auroc_uniform: float  # of uniform weights on the same

    def __post_init__(self) -> None:
        total = math.fsum(self.values.values())
        if not min(self.values.values(), default=-1) >= 0 or not abs(total - 1) <= 1e-6:
            raise SettingsError(
                f"weights must be at least 0 and sum to 1, got {dict(self.values)}."
            )
        if set(self.values) != set(self.provenance.metrics):
            raise SettingsError(
                f"weights of {', '.join(self.values)} are not those of the metrics "
                f"{', '.join(self.provenance.metrics)}."
            )


@checked
def fit_weights(columns: Mapping[str, Column], right: ArrayLike, provenance: Provenance) -> Weights:
    """Return the weights whose weighted mean best separates right from wrong answers.

    Args:
        columns: one value per answer for each metric; None if absent.
        right: the labels; both classes must occur.
        provenance: of the answers; its metrics are the columns.
    """
    if set(provenance.metrics) != set(columns):
        raise InputError(
            f"columns {', '.join(columns)} are not the provenance's metrics "
            f"{', '.join(provenance.metrics)}; name the same."
        )
    table, labels = _table(columns, right)
    if labels.all() or not labels.any():
        same = "right" if labels.all() else "wrong"
        raise InputError(f"all {len(labels)} answers are {same}; weights need both kinds.")
    even = np.full(table.shape[1], 1 / table.shape[1])
    fitted = _shares(_coefficients(table, labels))
    reached, uniform = (_auroc(table, w, labels) for w in (fitted, even))
    chosen = fitted if reached >= uniform else even
    return Weights(
        values=dict(zip(columns, chosen.tolist(), strict=True)),
        n=len(labels),
        auroc=max(reached, uniform),
        auroc_uniform=uniform,
        provenance=provenance,
    )


@checked
def combine(columns: Mapping[str, Column], weights: Mapping[str, float]) -> list[float | None]:
    """Return the weighted mean of the present columns of each answer; None without any."""
    if set(columns) != set(weights):
        raise InputError(f"weights name {', '.join(weights)}, columns {', '.join(columns)}.")
    table = np.stack([absent_as_nan(columns[name]) for name in weights], 1)  # (n, M)
    scores = _combine(table, np.array(list(weights.values())))
    return [None if np.isnan(score) else float(score) for score in scores]


def _table(columns: Mapping[str, Column], right: ArrayLike) -> tuple[Floats, Flags]:
    """Return the columns (n, M) and labels of the answers with at least one value."""
    pairs = [labelled(column, right) for column in columns.values()]
    table = np.stack([values for values, _ in pairs], 1)  # (n, M)
    measured = ~np.isnan(table).all(1)
    return table[measured], pairs[0][1][measured]


def _combine(table: Floats, weights: Floats) -> Floats:
    """Return the weighted mean of the present values of each row, (n,); NaN without any."""
    total = np.where(np.isnan(table), 0, weights).sum(1)
    summed = (np.nan_to_num(table) * weights).sum(1)
    scores: Floats = np.divide(summed, total, out=np.full(len(table), np.nan), where=total > 0)
    return scores


def _coefficients(table: Floats, labels: Flags) -> Floats:
    """Return b w, one coefficient per metric; 0 for a constant metric."""
    from scipy.optimize import minimize

    spread = np.array([_spread(column) for column in table.T])  # (M,)
    varied = spread > 1e-9
    coefficients = np.zeros(len(spread))
    measured = ~np.isnan(table[:, varied]).all(1)
    if not varied.any() or len(set(labels[measured])) < 2:
        return coefficients
    values, spread = table[np.ix_(measured, varied)], spread[varied]
    signs = np.where(labels[measured], 1.0, -1.0)
    data = (np.nan_to_num(values), ~np.isnan(values), signs, spread)
    start = np.concatenate([[0.0], spread / spread.mean()])  # uniform weights
    bounds = [(None, None)] + [(_FLOOR, None)] * len(spread)
    options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
    done = minimize(_loss, start, data, "L-BFGS-B", True, bounds=bounds, options=options)
    scaled = done.x[1:]
    coefficients[varied] = np.where(scaled > 10 * _FLOOR, scaled, 0) / spread
    return coefficients


def _spread(column: Floats) -> float:
    """Return the standard deviation of the present values; 0 without any."""
    present = column[~np.isnan(column)]
    return float(present.std()) if len(present) else 0.0


def _loss(
    theta: Floats, values: Floats, present: Flags, signs: Floats, spread: Floats
) -> tuple[float, Floats]:
    """Return the ridged logistic loss at (a, b w x spread) and its gradient."""
    scaled = theta[1:]
    beta = scaled / spread  # (M,)
    total, weight = beta.sum(), present @ beta  # of all metrics, of those present (n,)
    mean = values @ beta / weight  # (n,) the score
    margin = signs * (theta[0] + total * mean)
    loss = np.logaddexp(0, -margin).mean() + RIDGE / (2 * len(signs)) * scaled @ scaled
    pull = -signs * np.exp(-np.logaddexp(0, margin)) / len(signs)  # (n,) of the loss by the logit
    away = values - mean[:, None] * present  # (n, M)
    by_beta = pull @ mean + (pull * total / weight) @ away  # (M,)
    by_scaled = by_beta / spread + RIDGE / len(signs) * scaled
    return float(loss), np.concatenate([[pull.sum()], by_scaled])


def _shares(coefficients: Floats) -> Floats:
    """Return the coefficients as rounded weights; uniform ones if all coefficients are 0."""
    if not coefficients.any():
        return np.full(len(coefficients), 1 / len(coefficients))
    shares: Floats = (coefficients / coefficients.sum()).round(DIGITS)
    shares[shares.argmax()] += 1 - shares.sum()
    return shares.round(DIGITS)


def _auroc(table: Floats, weights: Floats, labels: Flags) -> float:
    scores = _combine(table, weights)
    value = auroc(np.where(np.isnan(scores), -np.inf, scores), labels)
    assert value is not None, "both kinds of answers occur"
    return value
