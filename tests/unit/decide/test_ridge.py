"""Ridge logistic regression against other optimisers and the optimality conditions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

from remask.decide import ridge as module
from remask.decide.columns import Flags, Floats
from remask.decide.ridge import RIDGES, assign_folds, choose_ridge, fit_ridge, log_loss, predict


def drawn(n: int, num_features: int, seed: int) -> tuple[Floats, Floats, Flags]:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(n, num_features))
    mean = features[:, 0] + generator.normal(size=n)
    right = generator.random(n) < 1 / (1 + np.exp(-1 - mean + features[:, 1]))
    return mean, features, right


def test_one_feature_ends_where_its_derivative_is_zero() -> None:
    """40 answers at x = 1, 30 of them right, and 40 at x = -1, 10 right; ridge 10.

    By symmetry a = 0, and m is flat, so b = 0. The loss has the derivative
    80 (sigmoid(w) - 3/4) + 10 w, which is 0 at w = 0.6836: 80 (0.66455 - 0.75) = -6.836.
    """
    x = np.repeat([1.0, -1.0], 40)
    right = np.concatenate([np.arange(40) < 30, np.arange(40) < 10])
    theta = fit_ridge(np.zeros(80), x[:, None], right, 10.0)
    root = brentq(lambda w: 80 * (1 / (1 + math.exp(-w)) - 0.75) + 10 * w, 0, 2, xtol=1e-14)
    assert theta == pytest.approx([0, 0, root], abs=1e-10)
    assert root == pytest.approx(0.6836, abs=1e-4)


def test_an_infinite_ridge_leaves_the_mean_alone() -> None:
    """Right are 1 of 4 at m = -1 and 3 of 4 at m = 1: the logits are -log 3 and log 3."""
    mean = np.repeat([-1.0, 1.0], 4000)
    right = np.tile([True, False, False, False], 1000).tolist() + [True, True, True, False] * 1000
    features = np.random.default_rng(0).normal(size=(8000, 3))
    theta = fit_ridge(mean, features, np.array(right), math.inf)
    assert theta == pytest.approx([0, math.log(3), 0, 0, 0], abs=1e-3)


@pytest.mark.parametrize("ridge", [1.0, 30.0])
def test_the_optimum_is_that_of_another_method(ridge: float) -> None:
    mean, features, right = drawn(120, 4, 1)
    design = np.column_stack([np.ones(120), mean, features])
    penalty = np.array([0, 0.1, *[ridge] * 4])

    def loss(theta: Floats) -> float:
        logits = design @ theta
        return float(
            np.logaddexp(0, np.where(right, -logits, logits)).sum() + penalty @ theta**2 / 2
        )

    bounds = [(None, None), (0, None), *[(None, None)] * 4]
    other = minimize(loss, np.zeros(6), method="L-BFGS-B", bounds=bounds, tol=1e-14)
    theta = fit_ridge(mean, features, right, ridge)
    assert theta == pytest.approx(other.x, abs=1e-3)
    assert loss(theta) <= loss(other.x) + 1e-12


def test_a_mean_that_points_the_wrong_way_gets_nothing() -> None:
    """Then a alone remains: 12 of 16 are right, so it is log 3."""
    right = np.array([True] * 12 + [False] * 4)
    theta = fit_ridge(np.where(right, -1.0, 3.0), np.zeros((16, 0)), right, math.inf)
    assert theta == pytest.approx([math.log(3), 0], abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(RIDGES), st.floats(0, 40))
def test_every_fit_is_an_optimum(seed: int, ridge: float, scale: float) -> None:
    """At a bound the loss rises inwards; elsewhere it is level. With outliers and separation."""
    generator = np.random.default_rng(seed)
    n, num_features = int(generator.integers(10, 40)), int(generator.integers(0, 5))
    features = generator.standard_t(2, size=(n, num_features)) * scale
    right = np.arange(n) < n // 2
    mean = generator.normal(size=n) + scale * right * generator.integers(-1, 2)
    theta = fit_ridge(mean, features, right, ridge)
    free = 2 if math.isinf(ridge) else 2 + num_features
    design = np.column_stack([np.ones(n), mean, features])[:, :free]
    penalty = np.array([0, 0.1, *[ridge] * num_features])[:free]
    slope = design.T @ (module.sigmoid(design @ theta[:free]) - right) + penalty * theta[:free]
    bounded = np.array([False, True, *[False] * num_features])[:free]
    at_bound = bounded & (theta[:free] <= 0)
    size = 1 + np.abs(design).sum(0)
    assert (np.abs(slope / size)[~at_bound] < 1e-7).all()
    assert (slope / size)[at_bound].min(initial=0) > -1e-7
    assert (theta[:free][bounded] >= 0).all()


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 5))
def test_folds_share_right_and_wrong_answers_evenly(right: list[bool], seed: int) -> None:
    labels = np.array(right)
    folds = assign_folds(labels, seed)
    for kind in (True, False):
        sizes = np.bincount(folds[labels == kind], minlength=module.FOLDS)
        assert sizes.max() - sizes.min() <= 1


def test_the_ridge_has_the_least_loss_on_answers_left_out() -> None:
    mean, features, right = drawn(90, 6, 2)
    folds = assign_folds(right, 3)
    losses = {}
    for ridge in RIDGES:
        logits = np.empty(90)
        for fold in range(5):
            seen = folds != fold
            theta = fit_ridge(mean[seen], features[seen], right[seen], ridge)
            logits[~seen] = predict(theta, mean[~seen], features[~seen])
        losses[ridge] = log_loss(logits, right), logits
    chosen, logits = choose_ridge(mean, features, right, 3)
    best = min(losses, key=lambda ridge: losses[ridge][0])
    assert chosen == best
    assert logits == pytest.approx(losses[best][1])


def test_the_loss_is_that_of_a_coin_and_of_certainty() -> None:
    """Logit 0: log 2. Logit log 3 on a right answer: -log 3/4; on a wrong one: -log 1/4."""
    logits = np.array([0.0, math.log(3), math.log(3)])
    expected = (math.log(2) + math.log(4 / 3) + math.log(4)) / 3
    assert log_loss(logits, np.array([True, True, False])) == pytest.approx(expected)
