"""AUROC over pairs of answers of equal length, counted by hand."""

import numpy as np
import pytest

from remask.analysis.bootstrap import Draws
from studies.shared.sets import length_bins

# Length, score, right.
SIX = [(3, 0.9, True), (3, 0.8, False), (4, 0.1, True), (4, 0.7, False), (9, 0.6, True),
       (8, 0.2, False)]  # fmt: skip


def of_equal_length(fewest: int) -> tuple[float, int, int]:
    lengths, scores, right = (np.array(column) for column in zip(*SIX, strict=True))
    bins, width = length_bins(lengths, right, fewest)
    measured = Draws.of(range(6), resamples=10).auroc(scores, right, bins)
    assert measured is not None
    num = sum(bins[i] == bins[j] for i in np.flatnonzero(right) for j in np.flatnonzero(~right))
    return measured.value, num, width


def test_over_pairs_of_equal_length_only_those_count() -> None:
    """Exact: .9 beats .8 and .1 loses to .7, one of two; over all nine pairs it is 5 of 9.

    In twos 2-3, 4-5 and 8-9 stand together, and .6 beats .2: two of three.
    In eights 0-7 and 8-15: .9 beats .8 and .7, .1 loses to both, .6 beats .2: three of five.
    """
    assert of_equal_length(fewest=2) == (pytest.approx(1 / 2), 2, 1)
    assert of_equal_length(fewest=3) == (pytest.approx(2 / 3), 3, 2)
    assert of_equal_length(fewest=4) == (pytest.approx(3 / 5), 5, 8)


def test_where_no_width_gives_enough_pairs_the_widest_is_taken() -> None:
    assert of_equal_length(fewest=1000)[1:] == (9, 32)


def test_a_score_that_is_the_length_says_nothing_at_equal_length() -> None:
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 6, 200)
    right = rng.random(200) < lengths / 6
    bins, width = length_bins(lengths, right)
    measured = Draws.of(range(200), resamples=10).auroc(lengths, right, bins)
    assert measured is not None
    assert width == 1
    assert measured.value == 0.5
    assert np.allclose(measured.drawn, 0.5)
