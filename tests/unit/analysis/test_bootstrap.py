"""Draws of problems and of runs: values worked out by hand, and where intervals come from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from remask.analysis.bootstrap import (
    Draws,
    Estimate,
    auroc_gap,
    bootstrap,
    mean_of,
    over_seeds,
    pairs_won,
)
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


def test_each_draw_holds_as_many_problems_as_there_are() -> None:
    draws = Draws.of(range(7), name="a", resamples=5)
    assert draws.times.shape == (5, 7)
    assert draws.times.sum(1).tolist() == [7] * 5


def test_draws_belong_to_the_name_and_the_seed() -> None:
    def counts(name: str, seed: int) -> list[list[float]]:
        return Draws.of(range(20), name=name, resamples=3, seed=seed).times.tolist()

    assert counts("a", 0) == counts("a", 0)
    assert counts("a", 0) != counts("b", 0)
    assert counts("a", 0) != counts("a", 1)


def test_a_mean_is_measured_in_every_draw_and_leaves_out_what_is_absent() -> None:
    draws = Draws.of(range(4), name="a", resamples=50)
    column = np.array([1.0, 2.0, np.nan, 6.0])
    mean = draws.mean(column)
    assert mean is not None
    assert (mean.value, mean.n) == (3.0, 3)
    for counts, drawn in zip(draws.times, mean.drawn, strict=True):
        known = [value for value, k in zip(column, counts, strict=True) for _ in range(int(k))]
        expected = np.nanmean(known) if np.isfinite(known).any() else np.nan
        assert drawn == pytest.approx(expected, nan_ok=True)
    assert draws.mean([np.nan] * 4) is None


def test_a_difference_is_that_of_every_draw() -> None:
    """Two columns that differ by 1 on every problem differ by 1 in every draw."""
    draws = Draws.of(range(30), name="a", resamples=40)
    values = np.random.default_rng(0).normal(size=30)
    one, other = draws.mean(values + 1), draws.mean(values)
    assert one is not None
    assert other is not None
    gap = (one - other).interval()
    assert (gap.value, gap.low, gap.high) == pytest.approx((1, 1, 1))
    assert one.interval().low < one.interval().high
    assert (one / other).value == pytest.approx(one.value / other.value)


def test_the_mean_over_sets_counts_every_set_alike() -> None:
    """(1 + 5) / 2, and in the draws (0 + 4) / 2 and (2 + 8) / 2, whatever the sets' sizes."""
    mean = mean_of([Estimate(1, np.array([0.0, 2]), 10), Estimate(5, np.array([4.0, 8]), 90)])
    assert (mean.value, mean.drawn.tolist(), mean.n) == (3, [2, 5], 100)


def test_an_interval_holds_its_number_and_leaves_out_draws_without_one() -> None:
    interval = Estimate(0.9, np.array([0.5, np.nan, 0.6]), 3).interval()
    assert interval.high == 0.9
    assert 0.5 <= interval.low < 0.51


ANSWERS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30)


@given(ANSWERS)
def test_over_all_pairs_it_is_the_auroc_of_every_draw(answers: list[tuple[int, bool]]) -> None:
    scores, right = np.array([s for s, _ in answers], float), np.array([r for _, r in answers])
    draws = Draws.of(range(len(answers)), name="a", resamples=20)
    measured = draws.auroc(scores, right)
    if right.all() or not right.any():
        assert measured is None
        return
    assert measured is not None
    assert measured.value == pytest.approx(auroc(scores, right))
    for counts, drawn in zip(draws.times.astype(int), measured.drawn, strict=True):
        expected = auroc(np.repeat(scores, counts), np.repeat(right, counts))
        assert drawn == pytest.approx(np.nan if expected is None else expected, nan_ok=True)


def test_an_answer_without_a_score_loses_and_ties_with_its_like() -> None:
    """Right .5 and none, wrong none and .2: won are 1, 1, a half and 0 of four."""
    scores = np.array([0.5, -np.inf, -np.inf, 0.2])
    right = np.array([True, True, False, False])
    assert pairs_won(scores, right).tolist() == [[1, 1], [0.5, 0]]


def test_of_several_fits_the_mean_of_the_pairs_gives_the_mean_auroc() -> None:
    rng = np.random.default_rng(1)
    scores, right = rng.normal(size=(3, 40)), rng.random(40) < 0.4
    draws = Draws.of(range(40), name="a", resamples=10)
    together = draws.auroc(scores, right)
    single = [measured for row in scores if (measured := draws.auroc(row, right)) is not None]
    assert together is not None
    assert together.value == pytest.approx(np.mean([each.value for each in single]), abs=1e-6)
    assert together.drawn == pytest.approx(np.mean([e.drawn for e in single], axis=0), abs=1e-5)


def test_a_run_without_answers_does_not_count() -> None:
    run = (["a", "b"], [1.0, 3.0])
    assert over_seeds(mean, [([], []), run], resamples=20) == over_seeds(mean, [run], resamples=20)
    assert bootstrap(mean, []) is None


def test_some_of_the_answers_keep_their_draws() -> None:
    draws, chosen = Draws.of(list("aabbc"), resamples=20), np.array([1, 0, 0, 1, 1], bool)
    assert (draws.only(chosen).times == draws.times[:, chosen]).all()
    assert (draws.times[:, 0] == draws.times[:, 1]).all(), "of one problem"
