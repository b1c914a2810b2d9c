"""Logistic regression with a ridge that cross-validation chooses. Arrays in, arrays out.

    logit P(right) = a + b m + sum of w_j x_j

m and the x_j are standardised. The loss is the sum over the answers, so a ridge r is a Gaussian
prior of variance 1 / r on each w; an infinite ridge leaves a + b m. b is at least 0, because a
larger m means that an answer is more likely to be right, and has a light ridge of its own.
Scikit-learn's Newton solver reaches the optimum to the last digits, so that fits agree between
machines.
"""

import math

import numpy as np

from remask.decide.columns import Flags, Floats

RIDGES = (math.inf, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)  # the strongest first: it wins ties
FOLDS = 5
_LIGHT = 0.1  # the ridge of b: keeps it finite where m separates all answers


def fit_ridge(mean: Floats, features: Floats, labels: Flags, ridge: float) -> Floats:
    """Return a, b and the w of (n,) means and (n, J) features, (2 + J,)."""
    theta = np.zeros(2 + features.shape[1])
    if math.isinf(ridge):
        theta[:2] = _fit(mean[:, None], labels, _LIGHT)
        return theta
    scale = math.sqrt(ridge / _LIGHT)  # gives b its own ridge
    theta[:] = _fit(np.column_stack([mean * scale, features]), labels, ridge)
    theta[1] *= scale
    return theta


def _fit(design: Floats, labels: Flags, ridge: float) -> Floats:
    """Return the intercept and the coefficients; the first coefficient is at least 0."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / ridge, solver="newton-cholesky", tol=1e-10)
    model.fit(design, labels)
    if model.coef_[0, 0] < 0:
        model.fit(design * (np.arange(design.shape[1]) > 0), labels)
    return np.concatenate([model.intercept_, model.coef_[0]])


def predict(theta: Floats, mean: Floats, features: Floats) -> Floats:
    """Return the logits of answers, (n,)."""
    logits: Floats = theta[0] + theta[1] * mean + features @ theta[2:]
    return logits


def choose_ridge(mean: Floats, features: Floats, labels: Flags, seed: int) -> tuple[float, Floats]:
    """Return the ridge of the least cross-validated loss, and its held-out logits, (n,)."""
    folds = assign_folds(labels, seed)
    best = (math.inf, math.inf, np.zeros(len(labels)))
    for ridge in RIDGES:
        logits = np.zeros(len(labels))
        for fold in range(FOLDS):
            seen, out = folds != fold, folds == fold
            theta = fit_ridge(mean[seen], features[seen], labels[seen], ridge)
            logits[out] = predict(theta, mean[out], features[out])
        loss = log_loss(logits, labels)
        if loss < best[0] - 1e-9:  # smaller differences vary between machines
            best = (loss, ridge, logits)
    return best[1], best[2]


def assign_folds(labels: Flags, seed: int) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """Return the fold of each answer, (n,), stratified by label."""
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
