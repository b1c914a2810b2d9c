"""Ranking within a problem, worked out by hand and against the plain AUROC."""

import numpy as np
import pytest

from remask.decide.auroc import auroc
from studies.shared.within_pool import within_pools


def test_each_pool_is_ranked_by_itself() -> None:
    """Right .2 and .9 against wrong .5: half. Right .1 ties with .1 and loses to .3: a quarter."""
    scores = np.array([[0.2, 0.9, 0.5], [0.1, 0.1, 0.3], [0.5, 0.6, 0.7]])
    right = np.array([[True, True, False], [True, False, False], [True, True, True]])
    assert within_pools(scores, right) == pytest.approx([0.5, 0.25, np.nan], nan_ok=True)


def test_it_is_the_auroc_of_every_pool() -> None:
    rng = np.random.default_rng(0)
    scores, right = rng.integers(0, 4, (50, 10)).astype(float), rng.random((50, 10)) < 0.5
    for value, row, labels in zip(within_pools(scores, right), scores, right, strict=True):
        assert value == pytest.approx(auroc(row, labels))


def test_a_score_of_the_problem_says_nothing_within_it() -> None:
    scores = np.repeat([[0.1], [0.9]], 2, axis=1)
    right = np.array([[True, False], [False, True]])
    assert within_pools(scores, right).tolist() == [0.5, 0.5]
