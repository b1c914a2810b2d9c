"""AUROC over pairs, against the AUROC of resampled answers and against counting by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.analysis.answer_pairs import all_pairs, pairs_won
from remask.analysis.equal_length import equal_length_pairs
from remask.analysis.problem_draws import draw_problems
from remask.decide.auroc import auroc

ANSWERS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30)


@given(ANSWERS)
def test_over_all_pairs_it_is_the_auroc_of_every_draw(answers: list[tuple[int, bool]]) -> None:
    scores, right = np.array([s for s, _ in answers], float), np.array([r for _, r in answers])
    draws = draw_problems(len(answers), "a", resamples=20)
    measured = all_pairs(right, draws).auroc(pairs_won(scores, right))
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
    pairs = all_pairs(right, draw_problems(40, "a", resamples=10))
    won = [pairs_won(row, right) for row in scores]
    together = pairs.auroc(np.mean(won, axis=0))
    single = [measured for each in won if (measured := pairs.auroc(each)) is not None]
    assert together is not None
    assert together.value == pytest.approx(np.mean([each.value for each in single]), abs=1e-6)
    assert together.drawn == pytest.approx(np.mean([e.drawn for e in single], axis=0), abs=1e-5)


# Length, score, right.
SIX = [(3, 0.9, True), (3, 0.8, False), (4, 0.1, True), (4, 0.7, False), (9, 0.6, True),
       (8, 0.2, False)]  # fmt: skip


def of_equal_length(fewest: int) -> tuple[float, int, int]:
    lengths, scores, right = (np.array(column) for column in zip(*SIX, strict=True))
    draws = draw_problems(6, "a", resamples=10)
    pairs, width = equal_length_pairs(lengths, right, draws, fewest=fewest)
    measured = pairs.auroc(pairs_won(scores, right))
    assert measured is not None
    return measured.value, pairs.num, width


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
    draws = draw_problems(200, "a", resamples=10)
    pairs, width = equal_length_pairs(lengths, right, draws)
    measured = pairs.auroc(pairs_won(lengths.astype(float), right))
    assert measured is not None
    assert width == 1
    assert measured.value == 0.5
    assert np.allclose(measured.drawn, 0.5)
