"""Means over seeds, worked out by hand, and where their intervals come from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from remask.analysis.seeds import auroc_gap, over_seeds
from remask.analysis.statistics import mean
from remask.decide.auroc import auroc


def test_the_value_is_the_mean_of_the_seeds() -> None:
    """Means 1, 2 and 6 of one, two and three rows: 3, not the 24 / 6 of all rows."""
    runs = [(["a"], [1.0]), (["b", "c"], [1.0, 3.0]), (["d", "e", "f"], [5.0, 6.0, 7.0])]
    found = over_seeds(mean, runs, resamples=50)
    assert found is not None
    assert (found.value, found.n) == (3.0, 6)


def test_a_seed_without_the_statistic_is_left_out() -> None:
    """The second seed has right answers only."""
    runs = [("ab", [0.9, 0.1], [True, False]), ("cd", [0.5, 0.6], [True, True])]
    found = over_seeds(auroc, [(list(q), s, r) for q, s, r in runs], resamples=50)
    assert found is not None
    assert found.value == 1.0
    assert over_seeds(auroc, [(["c"], [0.5], [True])], resamples=50) is None
    assert over_seeds(auroc, [], resamples=50) is None


def test_seeds_that_differ_widen_the_interval_of_questions_that_do_not() -> None:
    """All answers of a seed are equal: drawing questions changes nothing, drawing seeds does."""
    runs = [(list(range(k, k + 50)), [float(k)] * 50) for k in (0, 100)]
    both = over_seeds(mean, runs, resamples=300)
    alone = over_seeds(mean, runs[:1], resamples=300)
    assert both is not None
    assert alone is not None
    assert (both.value, both.low, both.high) == (50.0, 0.0, 100.0)
    assert (alone.value, alone.low, alone.high) == (0.0, 0.0, 0.0)


def test_a_question_that_several_seeds_asked_is_drawn_for_all_of_them() -> None:
    """In one resample, twenty seeds of the same questions see the same rows; of others they do not.

    The first twenty calls are of the rows as they are.
    """
    for step, alike in ((0, True), (9, False)):
        seen: list[tuple[int, ...]] = []

        def note(column: NDArray[np.intp], seen: list[tuple[int, ...]] = seen) -> float:
            seen.append(tuple(column))
            return 0.0

        runs = [([f"q{k + step * run}" for k in range(9)], range(9)) for run in range(20)]
        over_seeds(note, runs, resamples=1)
        assert (len(set(seen[20:])) == 1) is alike


def test_the_gap_is_that_of_two_aurocs_with_their_own_labels() -> None:
    """1 for the first, and 0 for the second, whose right answer is below its wrong one."""
    assert auroc_gap([0.9, 0.1], [True, False], [0.9, 0.1], [False, True]) == 1.0
    assert auroc_gap([0.9, 0.1], [True, True], [0.9, 0.1], [False, True]) is None


@given(st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=4))
def test_the_interval_holds_the_value(columns: list[list[float]]) -> None:
    runs = [(list(range(len(column))), column) for column in columns]
    found = over_seeds(mean, runs, resamples=20)
    assert found is not None
    assert found.low <= found.value <= found.high
    assert found.value == pytest.approx(np.mean([np.mean(column) for column in columns]))
