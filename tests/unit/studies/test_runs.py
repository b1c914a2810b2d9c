"""Means over runs and their t-intervals, against the table of Student's t."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.analysis.bootstrap import Interval
from remask.errors import InputError
from studies.align.over_runs import differences, log_odds, over_runs, verdict


def test_the_interval_is_that_of_student() -> None:
    """The earlier study: -9.6, -6.4 and -0.8 points; t with 2 degrees is 4.303.

    Mean -5.6, sd sqrt((16 + 0.64 + 23.04) / 2) = 4.454; half 4.303 x 4.454 / sqrt 3 = 11.07.
    """
    found = over_runs([-9.6, -6.4, -0.8])
    assert found.value == pytest.approx(-5.6)
    assert [found.low, found.high] == pytest.approx([-16.67, 5.47], abs=0.01)
    assert found.n == 3
    assert verdict(found) == "cannot be told"


def test_one_run_has_no_interval() -> None:
    with pytest.raises(InputError, match="1 run has no interval; train with more seeds"):
        over_runs([0.5])


def test_runs_are_paired_by_their_seeds() -> None:
    assert differences({2: 5.0, 0: 1.0, 7: 9.0}, {0: 0.5, 2: 3.0, 5: 0.0}) == [0.5, 2.0]


def test_log_odds_of_nothing_and_of_all_are_finite() -> None:
    """0 of 4: 0.5 against 4.5, one to nine; half: even."""
    assert log_odds(0.0, 4) == pytest.approx(-math.log(9))
    assert log_odds(1.0, 4) == pytest.approx(math.log(9))
    assert log_odds(0.5, 10) == 0


def test_a_verdict_needs_the_whole_interval() -> None:
    assert verdict(Interval(0.2, 0.1, 0.3, 5)) == "above"
    assert verdict(Interval(-0.2, -0.3, -0.1, 5)) == "below"
    assert verdict(Interval(0.2, 0.0, 0.4, 5)) == "cannot be told"
    assert verdict(Interval(0.0, -0.01, 0.01, 5), bound=-0.02) == "above"


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.floats(-3, 3))
def test_an_interval_moves_with_its_runs(values: list[float], by: float) -> None:
    one, other = over_runs(values), over_runs([value + by for value in values])
    assert other.low == pytest.approx(one.low + by, abs=1e-9)
    assert one.low <= one.value <= one.high
