"""Calibrators: scores -> probabilities of being right, fitted on a validation split.

    isotonic   the least-squares non-decreasing curve, straight between its knots; assumes no shape
               and wants a few hundred answers
    platt      a logistic curve of two parameters; for few answers

Both are monotone, so they change no order and no AUROC beyond ties, and both end in [0, 1]. Platt's
targets are drawn in by one pseudo-answer of each kind, as he did, so that the curve stays finite;
his slope is kept from turning the score around. How well calibrated something is, is measured in
`studies`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from remask.decide.columns import Column, Flags, Floats, Scores, absent_as_nan, labelled
from remask.decide.provenance import Provenance, check, read, write
from remask.errors import InputError, SettingsError

Method = Literal["isotonic", "platt"]


@dataclass(frozen=True, kw_only=True)
class Isotonic:
    """A non-decreasing curve through knots, flat outside them."""

    knots: tuple[float, ...]  # scores, ascending
    heights: tuple[float, ...]  # probabilities there

    def __post_init__(self) -> None:
        """Refuse what is no such curve."""
        x, y = np.array(self.knots, np.float64), np.array(self.heights, np.float64)
        rising = x.shape == y.shape and x.size > 0 and (np.diff(x) > 0).all()
        if not rising or not ((np.diff(y) >= 0).all() and y[0] >= 0 and y[-1] <= 1):
            raise SettingsError("knots must ascend, and heights not descend, within 0 and 1.")

    def curve(self, scores: Floats) -> Floats:
        """Return the probabilities of scores."""
        return np.interp(scores, self.knots, self.heights)


@dataclass(frozen=True, kw_only=True)
class Platt:
    """The logistic curve 1 / (1 + exp(-(slope x score + intercept)))."""

    slope: float
    intercept: float

    def __post_init__(self) -> None:
        """Refuse a curve that turns the score around."""
        if not (self.slope >= 0 and np.isfinite([self.slope, self.intercept]).all()):
            raise SettingsError(f"slope {self.slope} and intercept {self.intercept} cannot be.")

    def curve(self, scores: Floats) -> Floats:
        """Return the probabilities of scores."""
        return np.exp(-np.logaddexp(0, -(self.slope * scores + self.intercept)))


SHAPES: dict[Method, type[Isotonic] | type[Platt]] = {"isotonic": Isotonic, "platt": Platt}


@dataclass(frozen=True, kw_only=True)
class Calibrator:
    """A fitted curve from scores to probabilities, and what it was fitted on."""

    method: Method
    shape: Isotonic | Platt
    n: int  # answers with a score
    provenance: Provenance

    def probabilities(self, scores: Column) -> list[float | None]:
        """Return the chance that each answer is right; None where it has no score."""
        found = self.shape.curve(absent_as_nan(scores))
        return [None if np.isnan(p) else p for p in found.tolist()]

    def save(self, path: Path) -> None:
        """Write it with its provenance."""
        about = {"method": self.method, "n": self.n, "provenance": asdict(self.provenance)}
        write(path, "calibrator", asdict(self.shape) | about)

    @staticmethod
    def load(path: Path, metric_set: str, metrics: Sequence[str]) -> "Calibrator":
        """Return the calibrator in a file; one of another metric set is refused."""
        return read(path, "calibrator", metric_set, metrics, partial(_calibrator, path))


def _calibrator(path: Path, *, provenance: Provenance, **told: Any) -> Calibrator:
    """Return the calibrator whose curve has these fields, as a file lists them."""
    about: dict[str, Any] = {name: told.pop(name) for name in ("method", "n") if name in told}
    check(path, Calibrator, about)
    kind = SHAPES[about["method"]]
    check(path, kind, told)
    curve: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in told.items()}
    return Calibrator(shape=kind(**curve), provenance=provenance, **about)


def fit_calibrator(
    scores: Scores, right: ArrayLike, provenance: Provenance, method: Method = "isotonic"
) -> Calibrator:
    """Return the calibrator of one score, fitted to answers that have one."""
    if method not in SHAPES:
        raise SettingsError(f"method {method!r} is unknown; choose {' or '.join(SHAPES)}.")
    values, labels = labelled(scores, right)
    present = np.isfinite(values)
    if not present.any():
        raise InputError(f"none of {len(values)} answers has a score; nothing can be calibrated.")
    fit = _fit_isotonic if method == "isotonic" else _fit_platt
    shape = fit(values[present], labels[present])
    return Calibrator(method=method, shape=shape, n=int(present.sum()), provenance=provenance)


def _fit_isotonic(scores: Floats, labels: Flags) -> Isotonic:
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0, y_max=1).fit(scores, labels.astype(np.float64))
    x, y = fitted.X_thresholds_, np.maximum.accumulate(fitted.y_thresholds_)
    return Isotonic(knots=tuple(x.tolist()), heights=tuple(y.clip(0, 1).tolist()))


def _fit_platt(scores: Floats, labels: Flags) -> Platt:
    from scipy.optimize import minimize

    num_right = int(labels.sum())
    num_wrong = len(labels) - num_right
    targets = np.where(labels, (num_right + 1) / (num_right + 2), 1 / (num_wrong + 2))
    centre, spread = scores.mean(), scores.std()
    x = (scores - centre) / spread if spread > 0 else np.zeros(len(scores))

    def loss(theta: Floats) -> tuple[float, Floats]:
        logits = theta[0] * x + theta[1]
        pull = np.exp(-np.logaddexp(0, -logits)) - targets  # of the loss by the logit
        value = (np.logaddexp(0, logits) - targets * logits).mean()
        return float(value), np.array([(pull * x).mean(), pull.mean()])

    options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-10}
    bounds = [(0, None), (None, None)]
    done = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    slope = float(done.x[0] / spread) if spread > 0 else 0.0
    return Platt(slope=slope, intercept=float(done.x[1] - slope * centre))
