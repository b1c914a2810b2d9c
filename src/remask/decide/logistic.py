"""Logistic regression from features of an answer to the probability that it is right.

    fit_regression(columns, base, right, seed).regression.probability(columns)

    logit P(right) = a + b z(m) + sum of w_j z(x_j)

m is the label-free value, the mean of the base columns, each in 0..1. The x_j are the features. z
standardises by the mean and standard deviation of the answers of the fit. A ridge penalty shrinks
the w towards 0, so the fit towards the order of m; cross-validation chooses its strength, up to no
w at all (`ridge`). An absent feature counts as its mean, and a constant feature has weight 0. An
absent base column counts as its mean if no answer of the fit lacked it, so that m stays the mean of
the same columns.

The probabilities are nearly calibrated: Platt's curve on the cross-validated logits did not help in
simulation (docs/LOG.md).

With fewer than 5 right or 5 wrong answers nothing is fitted. The probability is then m itself, and
`reason` says so. Evaluate a fit on other answers than these.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from remask.decide.columns import Column, Flags, Floats, absent_as_nan, labelled
from remask.decide.provenance import CLOSED, Provenance
from remask.decide.ridge import choose_ridge, fit_ridge, sigmoid
from remask.errors import InputError, SettingsError

FEWEST = 5  # answers of either kind: one for each fold
DIGITS = 6  # of a coefficient: more would differ between machines
_ROUNDING = 1e-6  # exp of log p in single precision may be this far above 1


@dataclass(frozen=True, kw_only=True)
class Term:
    """One term of the logit: weight x (value - centre) / spread."""

    __pydantic_config__: ClassVar = CLOSED

    centre: float  # mean over the answers of the fit
    spread: float  # their standard deviation; 0 if they are all equal
    weight: float

    def __post_init__(self) -> None:
        if not self.spread >= 0 or (self.spread == 0 and self.weight != 0):
            raise SettingsError(
                f"spread must be above 0 with weight {self.weight}, got {self.spread}."
            )

    def standardise(self, values: Floats) -> Floats:
        """Return (values - centre) / spread; 0 for absent values."""
        if self.spread == 0:
            return np.zeros(len(values))
        return np.nan_to_num((values - self.centre) / self.spread)


@dataclass(frozen=True, kw_only=True)
class Regression:
    """Coefficients of named columns, or the label-free mean if there are too few labels."""

    __pydantic_config__: ClassVar = CLOSED

    base: tuple[str, ...]  # columns whose mean is the label-free value
    intercept: float
    mean: Term  # of the label-free value; its weight is never negative
    terms: Mapping[str, Term]  # by feature
    ridge: float | None  # on the weights of the features; None: they are all 0
    centres: Mapping[str, float] = field(default_factory=dict)  # of base columns never absent
    reason: str = ""  # why the probability is the label-free value; "" where it is fitted

    def __post_init__(self) -> None:
        if not self.base or not self.mean.weight >= 0:
            raise SettingsError(
                f"base {self.base} must have columns and a weight >= 0, got {self.mean.weight}."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(dict.fromkeys((*self.base, *self.terms)))

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the columns that are used: only the base if there were too few labels."""
        return self.base if self.reason else self.names

    def probability(self, columns: Mapping[str, Column]) -> list[float]:
        """Return the probability that each answer is right."""
        return [float(chance) for chance in self.chances(read_columns(columns, self.names))]

    def knows(self, columns: Mapping[str, Column]) -> list[bool]:
        """Return whether each answer has a label-free value."""
        mean = base_mean(read_columns(columns, self.base), self.base)
        return [bool(known) for known in ~np.isnan(mean)]

    def chances(self, table: Mapping[str, Floats]) -> Floats:
        """Return the probabilities, (n,), from columns read by `read_columns`."""
        mean = base_mean(table, self.base)
        if self.reason:
            return np.where(np.isnan(mean), self.mean.centre, mean)
        mean = np.where(np.isnan(mean), mean, base_mean(self._filled(table), self.base))
        logits = self.intercept + self.mean.weight * self.mean.standardise(mean)
        for name, term in self.terms.items():
            logits = logits + term.weight * term.standardise(table[name])
        return sigmoid(logits)

    def _filled(self, table: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return the base columns with absent values replaced by `centres`."""
        return {
            name: np.where(np.isnan(table[name]), self.centres.get(name, np.nan), table[name])
            for name in self.base
        }


class RegressionFit(NamedTuple):
    """A regression with its cross-validated probabilities."""

    regression: Regression
    mean: Floats  # (n,) the label-free value
    probability: Floats  # (n,) by fits that have not seen the answer


def fit_regression(
    columns: Mapping[str, Column], base: Mapping[str, Column], right: ArrayLike, seed: int
) -> RegressionFit:
    """Return the regression of the labels on these columns.

    Args:
        columns: features; one value per answer, None if absent.
        base: columns in 0..1 whose mean is the label-free value; they may be features too.
        right: the labels.
        seed: of the folds of the cross-validation.
    """
    if not base:
        raise InputError("base must name at least one column.")
    for name in base.keys() & columns.keys():
        if list(base[name]) != list(columns[name]):
            raise InputError(f"column {name} differs as a feature and as a base; rename one.")
    table = read_columns({**columns, **base}, (*base, *columns))
    mean, labels = labelled(base_mean(table, tuple(base)), right)
    if np.isnan(mean).all():
        raise InputError(f"none of {len(mean)} answers has a value of {', '.join(base)}.")
    level, terms = _scale(mean), {name: _scale(table[name]) for name in columns}
    mean = np.where(np.isnan(mean), level.centre, mean)
    reason = _too_few(labels)
    whole = [name for name in base if not np.isnan(table[name]).any()]
    centres = {name: round(float(table[name].mean()), DIGITS) for name in whole}
    fit = partial(Regression, base=tuple(base), reason=reason, centres=centres)
    if reason:
        return RegressionFit(fit(intercept=0.0, mean=level, terms=terms, ridge=None), mean, mean)
    scaled = level.standardise(mean)
    features = np.array([term.standardise(table[name]) for name, term in terms.items()])
    features = features.reshape(len(terms), len(labels)).T  # (n, J); J may be 0
    ridge, logits = choose_ridge(scaled, features, labels, seed)
    intercept, slope, *weights = fit_ridge(scaled, features, labels, ridge).round(DIGITS).tolist()
    regression = fit(
        intercept=intercept,
        mean=replace(level, weight=slope),
        terms={
            name: replace(term, weight=weight)
            for (name, term), weight in zip(terms.items(), weights, strict=True)
        },
        ridge=None if math.isinf(ridge) else ridge,
    )
    return RegressionFit(regression, mean, sigmoid(logits))


def read_columns(columns: Mapping[str, Column], names: Sequence[str]) -> dict[str, Floats]:
    """Return the named columns as arrays; None becomes NaN."""
    missing = [name for name in names if name not in columns]
    if missing:
        raise InputError(f"there is no column {', '.join(missing)}; compute it as in the fit.")
    for name in names:
        broken = [x for x in columns[name] if x is not None and not math.isfinite(x)]
        if broken:
            raise InputError(f"column {name} has {broken[0]}; give a number, or None for absent.")
    table = {name: absent_as_nan(columns[name]) for name in names}
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"columns have different lengths ({lengths}); give a value per answer.")
    return table


def base_mean(table: Mapping[str, Floats], base: Sequence[str]) -> Floats:
    """Return the label-free value, (n,): the mean of the present columns; NaN without any."""
    for name in base:
        outside = table[name][(table[name] < -_ROUNDING) | (table[name] > 1 + _ROUNDING)]
        if len(outside):
            raise InputError(f"base column {name} has {outside[0]:g}; its values are in 0..1.")
    values = np.stack([table[name] for name in base], 1).clip(0, 1)  # (n, M)
    number = (~np.isnan(values)).sum(1)
    mean = np.full(len(values), np.nan)
    mean[number > 0] = np.nansum(values, 1)[number > 0] / number[number > 0]
    return mean


def check_names(names: Sequence[str], provenance: Provenance) -> None:
    """Raise unless these columns are the metrics of a provenance."""
    if set(names) != set(provenance.metrics):
        raise SettingsError(
            f"columns {', '.join(names)} are not the provenance's metrics "
            f"{', '.join(provenance.metrics)}."
        )


def _too_few(labels: Flags) -> str:
    """Return why these labels are too few for a fit; "" if they are enough."""
    num_right = int(labels.sum())
    num_wrong = len(labels) - num_right
    if min(num_right, num_wrong) >= FEWEST:
        return ""
    return (
        f"{num_right} right and {num_wrong} wrong answers are too few, {FEWEST} of each are "
        "needed; the label-free mean is used"
    )


def _scale(values: Floats) -> Term:
    """Return the rounded centre and spread of the present values as a term of weight 0."""
    present = values[~np.isnan(values)]
    if not len(present) or np.ptp(present) <= 1e-9 * np.abs(present).max():  # rounding, no signal
        return Term(centre=float(present[0]) if len(present) else 0.0, spread=0.0, weight=0.0)
    spread = float(f"{present.std():.{DIGITS}g}")
    places = DIGITS - math.floor(math.log10(spread))  # of the centre: a millionth of the spread
    return Term(centre=round(float(present.mean()), places), spread=spread, weight=0.0)
