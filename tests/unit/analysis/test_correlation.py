"""Correlations by hand and against scipy."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from remask.analysis.correlation import r_squared, spearman

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30)
VARIED = PAIRS.filter(lambda rows: all(len(set(column)) > 1 for column in zip(*rows, strict=True)))


def test_ranks_that_swap_one_pair_are_worked_out() -> None:
    """Ranks 1 2 3 and 1 3 2: 1 - 6 x (0 + 1 + 1) / (3 x 8) = 1/2."""
    assert spearman([10, 20, 30], [1, 9, 5]) == pytest.approx(0.5)


def test_a_bend_costs_the_line_and_not_the_ranks() -> None:
    """y = x^3 over 0 1 2: Spearman 1; Pearson 8 / sqrt(2 x 38), squared 64 / 76."""
    assert spearman([0, 1, 2], [0, 1, 8]) == pytest.approx(1)
    assert r_squared([0, 1, 2], [0, 1, 8]) == pytest.approx(64 / 76)
    assert r_squared([0, 1, 2], [0, -1, -8]) == pytest.approx(64 / 76)


@pytest.mark.parametrize(("a", "b"), [([], []), ([1, 1], [1, 2]), ([1, 2], [3, 3]), ([1], [1])])
def test_nothing_goes_together_with_a_constant(a: list[int], b: list[int]) -> None:
    assert spearman(a, b) is None
    assert r_squared(a, b) is None


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="same length, got"):
        spearman([1, 2], [1, 2, 3])


@given(VARIED)
def test_both_are_those_of_scipy(rows: list[tuple[int, int]]) -> None:
    a, b = (np.array(column) for column in zip(*rows, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of two points
        assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic)
        assert r_squared(a, b) == pytest.approx(pearsonr(a, b).statistic ** 2)
