"""Calibration: map scores to probabilities of being right, fitted on a validation split.

    isotonic   non-decreasing least-squares fit, linear between knots; needs a few hundred answers
    platt      logistic curve with two parameters; for few answers

Both are non-decreasing, so they change the AUROC only by ties. Platt's targets include one
pseudo-answer of each class, which keeps the curve finite, and the slope is at least 0. `analysis`
measures calibration.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from remask.decide.columns import Column, Flags, Floats, Scores, absent_as_nan, labelled
from remask.decide.provenance import Fitted, Provenance
from remask.errors import InputError, SettingsError
from remask.settings import checked

Method = Literal["isotonic", "platt"]


@dataclass(frozen=True, kw_only=True)
class Calibrator(Fitted):
    """A fitted curve from scores to probabilities, with its provenance."""

    KIND = "calibrator"

    def curve(self, scores: Floats) -> Floats:
        """Return the probabilities of scores."""
        raise NotImplementedError

    def probabilities(self, scores: Column) -> list[float | None]:
        """Return the probability that each answer is right; None without a score."""
        values = self.curve(absent_as_nan(scores)).tolist()
        return [None if np.isnan(value) else value for value in values]

    @classmethod
    def _class_of(cls, document: Mapping[str, Any]) -> type[Self]:
        method = document.get("method")
        if method not in CURVES:
            raise SettingsError(f"method is {method!r:.80}, not {' or '.join(CURVES)}")
        return CURVES[method]  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True)
class Isotonic(Calibrator):
    """A non-decreasing curve through knots, flat outside them."""

    knots: tuple[float, ...]  # scores, ascending
    heights: tuple[float, ...]  # probabilities there
    method: Literal["isotonic"] = "isotonic"
    n: int  # answers with a score

    def __post_init__(self) -> None:
        x, y = np.array(self.knots, np.float64), np.array(self.heights, np.float64)
        rising = x.shape == y.shape and x.size > 0 and (np.diff(x) > 0).all()
        if not rising or not ((np.diff(y) >= 0).all() and y[0] >= 0 and y[-1] <= 1):
            raise SettingsError("knots must ascend, and heights must not descend and be in 0..1.")

    def curve(self, scores: Floats) -> Floats:
        """Return the probabilities of scores."""
        return np.interp(scores, self.knots, self.heights)


@dataclass(frozen=True, kw_only=True)
class Platt(Calibrator):
    """The logistic curve 1 / (1 + exp(-(slope x score + intercept)))."""

    slope: float
    intercept: float
    method: Literal["platt"] = "platt"
    n: int  # answers with a score

    def __post_init__(self) -> None:
        if not (self.slope >= 0 and np.isfinite([self.slope, self.intercept]).all()):
            raise SettingsError(
                f"slope must be at least 0, got {self.slope} and intercept {self.intercept}."
            )

    def curve(self, scores: Floats) -> Floats:
        """Return the probabilities of scores."""
        return np.exp(-np.logaddexp(0, -(self.slope * scores + self.intercept)))


CURVES: dict[str, type[Isotonic] | type[Platt]] = {"isotonic": Isotonic, "platt": Platt}


@checked
def fit_calibrator(
    scores: Scores, right: ArrayLike, provenance: Provenance, method: Method = "isotonic"
) -> Isotonic | Platt:
    """Return a calibrator fitted to the answers that have a score."""
    values, labels = labelled(scores, right)
    present = np.isfinite(values)
    if not present.any():
        raise InputError(f"scores must hold a number, got {len(values)} absent ones.")
    fit = _fit_isotonic if method == "isotonic" else _fit_platt
    return fit(values[present], labels[present], provenance)


def _fit_isotonic(scores: Floats, labels: Flags, provenance: Provenance) -> Isotonic:
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0, y_max=1).fit(scores, labels.astype(np.float64))
    x, y = fitted.X_thresholds_, np.maximum.accumulate(fitted.y_thresholds_)
    return Isotonic(
        knots=tuple(x.tolist()),
        heights=tuple(y.clip(0, 1).tolist()),
        n=len(scores),
        provenance=provenance,
    )


def _fit_platt(scores: Floats, labels: Flags, provenance: Provenance) -> Platt:
    from sklearn.linear_model import LogisticRegression

    num_right = int(labels.sum())
    num_wrong = len(labels) - num_right
    targets = np.where(labels, (num_right + 1) / (num_right + 2), 1 / (num_wrong + 2))
    centre, spread, share = scores.mean(), scores.std(), targets.mean()
    slope, intercept = 0.0, float(np.log(share / (1 - share)))  # if higher scores are not better
    if spread > 0:
        # A soft target is one right and one wrong answer with weights.
        x = np.tile((scores - centre) / spread, 2)[:, None]
        kinds, weights = np.repeat([1, 0], len(scores)), np.concatenate([targets, 1 - targets])
        model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10)
        model.fit(x, kinds, weights)
        if model.coef_[0, 0] > 0:
            slope = float(model.coef_[0, 0] / spread)
            intercept = float(model.intercept_[0] - slope * centre)
    return Platt(slope=slope, intercept=intercept, n=len(scores), provenance=provenance)
