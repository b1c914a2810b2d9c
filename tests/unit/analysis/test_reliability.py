"""Calibration against numbers worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from remask.analysis.bootstrap import bootstrap
from remask.analysis.reliability import brier, diagram, ece

ROWS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30)


def test_the_brier_score_is_the_mean_squared_distance() -> None:
    """(.9 - 1)^2 = .01, (.4 - 0)^2 = .16: a mean of .085."""
    assert brier([0.9, 0.4], [True, False]) == pytest.approx(0.085)


def test_bins_hold_their_lower_edge_and_the_last_one_both() -> None:
    """Of two bins: .1 and .3 in the left, one right; .5, .9 and 1 in the right, two right."""
    said, came, sizes = diagram([0.1, 0.3, 0.5, 0.9, 1.0], [0, 1, 0, 1, 1], num_bins=2)
    assert said == pytest.approx([0.2, 0.8])
    assert came == pytest.approx([1 / 2, 2 / 3])
    assert sizes.tolist() == [2, 3]


def test_the_calibration_error_weighs_bins_by_their_answers() -> None:
    """The bins above: 2/5 x |.2 - 1/2| + 3/5 x |.8 - 2/3| = .12 + .08."""
    scores, right = [0.1, 0.3, 0.5, 0.9, 1.0], [0, 1, 0, 1, 1]
    assert ece(scores, right, num_bins=2) == pytest.approx(0.2)


def test_bins_without_answers_say_nothing() -> None:
    """Of ten bins one is filled: |.95 - 1/2|."""
    assert ece([0.95, 0.95], [True, False]) == pytest.approx(0.45)
    assert [len(column) for column in diagram([0.95, 0.95], [True, False])] == [1, 1, 1]


def test_a_score_that_keeps_its_word_has_no_error() -> None:
    """Of four answers scored .75 three are right."""
    assert ece([0.75] * 4, [1, 1, 1, 0]) == 0


@pytest.mark.parametrize("scores", [[1.2, 0.5], [-0.1, 0.5], []])
def test_what_is_no_probability_has_no_calibration(scores: list[float]) -> None:
    right = [True, False][: len(scores)]
    assert ece(scores, right) is None
    assert brier(scores, right) is None
    assert bootstrap(ece, scores, right) is None


@given(ROWS)
def test_the_brier_score_is_that_of_scikit_learn(rows: list[tuple[float, bool]]) -> None:
    scores, right = zip(*rows, strict=True)
    expected = brier_score_loss(right, scores, pos_label=True)
    assert brier(scores, right) == pytest.approx(expected)


@given(ROWS, st.integers(1, 12))
def test_the_error_lies_between_that_of_the_whole_and_one(
    rows: list[tuple[float, bool]], num_bins: int
) -> None:
    """Errors of bins may cancel over the whole, never grow."""
    scores, right = (np.asarray(column, float) for column in zip(*rows, strict=True))
    found = ece(scores, right, num_bins)
    assert found is not None
    assert abs(scores.mean() - right.mean()) - 1e-9 <= found <= 1 + 1e-9
