"""Measures against numbers worked by hand and against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from remask.analysis.bootstrap import Interval, auroc_gap, bootstrap
from remask.analysis.statistics import aupr, curve, interval_text, mean, proportion
from remask.decide.auroc import auroc

# Few distinct scores, so that ties abound.
ROWS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40)
MIXED = ROWS.filter(lambda rows: len({right for _, right in rows}) == 2)


def split(rows: list[tuple[int, bool]]) -> tuple[list[float], list[bool]]:
    return [score / 8 for score, _ in rows], [right for _, right in rows]


def test_auroc_counts_the_pairs_in_order_and_half_the_ties() -> None:
    """Right .9 .5, wrong .5 .1: .9 beats both, .5 ties one and beats one: (2 + 1.5) / 4."""
    assert auroc([0.9, 0.5, 0.5, 0.1], [True, True, False, False]) == 3.5 / 4


def test_average_precision_adds_precision_times_recall_gained() -> None:
    """Down the list R W R: 1/1 x 1/2 + 2/3 x 1/2 = 5/6; a tie of R and W is one step of 1/2."""
    assert aupr([0.9, 0.5, 0.1], [True, False, True]) == pytest.approx(5 / 6)
    assert aupr([0.5, 0.5], [True, False]) == 0.5


@pytest.mark.parametrize("right", [[True, True], [False, False], []])
def test_a_measure_of_one_class_alone_is_absent(right: list[bool]) -> None:
    scores = [0.2, 0.8][: len(right)]
    assert auroc(scores, right) is None
    assert aupr(scores, right) is None
    assert bootstrap(auroc, scores, right) is None
    assert bootstrap(auroc_gap, scores, right, scores, right) is None


@given(MIXED)
def test_both_measures_and_the_curve_are_those_of_scikit_learn(
    rows: list[tuple[int, bool]],
) -> None:
    scores, right = split(rows)
    assert auroc(scores, right) == pytest.approx(roc_auc_score(right, scores))
    assert aupr(scores, right) == pytest.approx(average_precision_score(right, scores))
    wrong_above, right_above, _ = roc_curve(right, scores, drop_intermediate=False)
    assert np.allclose(curve(scores, right), (wrong_above, right_above))


@given(MIXED)
def test_only_the_order_of_the_scores_counts(rows: list[tuple[int, bool]]) -> None:
    scores, right = split(rows)
    stretched = np.exp(3 * np.array(scores)) - 7
    assert auroc(stretched, right) == auroc(scores, right)
    assert aupr(stretched, right) == aupr(scores, right)


@given(MIXED)
def test_labels_turned_around_turn_the_auroc_around(rows: list[tuple[int, bool]]) -> None:
    scores, right = split(rows)
    forth, back = auroc(scores, right), auroc(scores, ~np.array(right))
    assert forth is not None
    assert back == pytest.approx(1 - forth)


@given(MIXED, st.integers(0, 3))
def test_an_interval_holds_its_value_and_is_the_seeds_own(
    rows: list[tuple[int, bool]], seed: int
) -> None:
    scores, right = split(rows)
    found = bootstrap(auroc, scores, right, resamples=20, seed=seed)
    assert found is not None
    assert found.value == auroc(scores, right)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.n == len(rows)
    assert found == bootstrap(auroc, scores, right, resamples=20, seed=seed)


def test_the_interval_of_a_mean_has_the_width_that_theory_gives() -> None:
    """400 draws of a fair coin: 2 x 1.96 x 0.5 / 20 = 0.098."""
    found = bootstrap(mean, [0.0, 1.0] * 200)
    assert found is not None
    assert found.value == 0.5
    assert found.high - found.low == pytest.approx(0.098, rel=0.1)


def test_rows_of_one_question_count_as_one() -> None:
    """400 rows that are 40 questions, ten equal rows each: 2 x 1.96 x 0.5 / sqrt(40) = 0.31."""
    answers, questions = np.repeat([0.0, 1.0] * 20, 10), np.repeat(np.arange(40), 10)
    found = bootstrap(mean, answers, groups=questions)
    assert found is not None
    assert found.n == 400
    assert found.high - found.low == pytest.approx(0.31, rel=0.1)


def test_groups_are_drawn_whole_wherever_their_rows_stand() -> None:
    """Questions a and b hold 3 + 1 and 2 + 2: every resample then has a mean of 2."""
    found = bootstrap(mean, [3.0, 2.0, 1.0, 2.0], groups=["a", "b", "a", "b"])
    assert found == Interval(2.0, 2.0, 2.0, 4)


def test_a_paired_difference_is_surer_than_the_two_intervals() -> None:
    """b is a with a little noise: the pair knows that they err on the same answers."""
    generator = np.random.default_rng(1)
    right = np.arange(300) % 3 > 0
    a = right + generator.normal(0, 0.8, 300)
    b = a + generator.normal(0, 0.2, 300)
    alone, paired = bootstrap(auroc, a, right), bootstrap(auroc_gap, a, right, b, right)
    assert alone is not None
    assert paired is not None
    assert paired.value == pytest.approx(roc_auc_score(right, a) - roc_auc_score(right, b))
    assert paired.high - paired.low < (alone.high - alone.low) / 2


def test_scores_equal_to_themselves_differ_by_nothing() -> None:
    scores, right = [0.1, 0.4, 0.2], [True, False, True]
    assert bootstrap(auroc_gap, scores, right, scores, right) == Interval(0.0, 0.0, 0.0, 3)


def test_wilsons_interval_is_the_textbooks() -> None:
    """8 of 10: centre (0.8 + 0.192) / 1.384 = 0.717, half 0.2265: 0.490 to 0.943."""
    found = proportion([True] * 8 + [False] * 2)
    assert found is not None
    assert (found.value, found.n) == (0.8, 10)
    assert (found.low, found.high) == (
        pytest.approx(0.490, abs=1e-3),
        pytest.approx(0.943, abs=1e-3),
    )
    sure = proportion([True] * 10)
    assert sure is not None
    assert (sure.low, sure.high) == (pytest.approx(0.722, abs=1e-3), 1.0)
    assert proportion([]) is None


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        auroc([0.1, float("nan")], [True, False])
    with pytest.raises(ValueError, match=r"same length, got shapes \(1,\) and \(2,\)"):
        auroc([0.1], [True, False])


def test_a_thousand_resamples_ask_a_thousand_times_for_the_statistic() -> None:
    """Once for the value itself, then once for each resample, of as many rows."""
    generator = np.random.default_rng(0)
    right = generator.random(1000) < 0.8
    scores = right + generator.normal(size=1000)
    sizes = []

    def counted(scores: np.ndarray, right: np.ndarray) -> float | None:
        sizes.append((len(scores), len(right)))
        return auroc(scores, right)

    bootstrap(counted, scores, right)
    assert sizes == [(1000, 1000)] * 1001


def test_an_interval_is_written_with_its_ends() -> None:
    assert interval_text(Interval(0.9314, 0.912, 0.9494, 9)) == "0.931 [0.912, 0.949]"
    assert interval_text(None) == "–"
