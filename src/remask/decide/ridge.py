"""Logistic regression with a ridge that cross-validation chooses. Arrays in, arrays out.

    logit P(right) = a + b m + sum of w_j x_j

m and the x_j are standardised. The loss is the sum over the answers, so a ridge r is a Gaussian
prior of variance 1 / r on each w, whatever n is; an infinite one leaves a + b m. b is held at 0 or
above, and its own ridge is light: m is known to rise with being right. Newton's steps end at the
optimum to the last digits, which is what makes a fit the same on every machine.
"""

import math

import numpy as np

from remask.decide.columns import Flags, Floats

RIDGES = (math.inf, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)  # the strongest first: it wins ties
FOLDS = 5
_LIGHT = 0.1  # the ridge of b: keeps it finite where m separates all answers
_STEPS = 50  # Newton takes about 6
_LEAST_STEP = 1e-10  # a smaller one is the last


def fit_ridge(
    mean: Floats, features: Floats, labels: Flags, ridge: float, *, nonnegative: bool = False
) -> Floats:
    """Return a, b and the w of (n,) means and (n, J) features, (2 + J,)."""
    num_free = 0 if math.isinf(ridge) else features.shape[1]
    design = _design(mean, features[:, :num_free])
    penalty = np.array([0.0, _LIGHT] + [ridge] * num_free)
    lower = np.array([-np.inf, 0.0] + [0.0 if nonnegative else -np.inf] * num_free)
    theta = np.zeros(2 + features.shape[1])
    theta[: 2 + num_free] = _minimise(design, labels.astype(np.float64), penalty, lower)
    return theta


def predict(theta: Floats, mean: Floats, features: Floats) -> Floats:
    """Return the logits of answers, (n,)."""
    return _design(mean, features) @ theta


def choose_ridge(
    mean: Floats, features: Floats, labels: Flags, seed: int, *, nonnegative: bool = False
) -> tuple[float, Floats]:
    """Return the ridge of the least cross-validated loss, and the logits it gave, (n,).

    Each logit is by a fit that has not seen its answer.
    """
    folds = assign_folds(labels, seed)
    best = (math.inf, math.inf, np.zeros(len(labels)))
    for ridge in RIDGES:
        logits = np.zeros(len(labels))
        for fold in range(FOLDS):
            seen, out = folds != fold, folds == fold
            theta = fit_ridge(
                mean[seen], features[seen], labels[seen], ridge, nonnegative=nonnegative
            )
            logits[out] = predict(theta, mean[out], features[out])
        loss = log_loss(logits, labels)
        if loss < best[0] - 1e-9:  # below that, machines differ
            best = (loss, ridge, logits)
    return best[1], best[2]


def assign_folds(labels: Flags, seed: int) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """Return the fold of each answer, (n,): right and wrong ones are spread evenly over them."""
    generator = np.random.default_rng(seed)
    folds = np.zeros(len(labels), np.intp)
    for kind in (True, False):
        places = generator.permutation(np.flatnonzero(labels == kind))
        folds[places] = np.arange(len(places)) % FOLDS
    return folds


def log_loss(logits: Floats, labels: Flags) -> float:
    """Return the mean negative log likelihood of the labels, in nats."""
    return float(np.logaddexp(0, np.where(labels, -logits, logits)).mean())


def sigmoid(logits: Floats) -> Floats:
    """Return the probabilities of logits."""
    return np.exp(-np.logaddexp(0, -logits))


def _design(mean: Floats, features: Floats) -> Floats:
    return np.column_stack([np.ones(len(mean)), mean, features])  # (n, 2 + J)


def _minimise(design: Floats, labels: Floats, penalty: Floats, lower: Floats) -> Floats:
    """Return where the ridged loss is least at or above `lower`, (P,)."""

    def loss(theta: Floats) -> float:
        logits = design @ theta
        return float((np.logaddexp(0, logits) - labels * logits).sum() + penalty @ theta**2 / 2)

    theta = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        chance = sigmoid(design @ theta)  # (n,)
        slope = design.T @ (chance - labels) + penalty * theta
        curvature = (design.T * (chance * (1 - chance))) @ design + np.diag(penalty)  # (P, P)
        step = _bounded_step(curvature, slope, lower - theta)
        height = loss(theta)
        while loss(theta + step) > height + 1e-12 * abs(height):
            step = step / 2
        theta = theta + step
        if np.abs(step).max() < _LEAST_STEP:
            break
    # A halved step ends a hair above a bound that it was to reach.
    return np.where(theta - lower < _LEAST_STEP, lower, theta)


def _bounded_step(curvature: Floats, slope: Floats, lower: Floats) -> Floats:
    """Return the step to where the quadratic that fits the loss here is least, within bounds."""
    step = np.asarray(np.linalg.solve(curvature, -slope), np.float64)
    if (step >= lower).all():
        return step
    from scipy.optimize import lsq_linear

    root = np.linalg.cholesky(curvature)
    bounded = lsq_linear(root.T, root.T @ step, (lower, np.inf), method="bvls", tol=1e-14)
    return np.asarray(bounded.x, np.float64)
