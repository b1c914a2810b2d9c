"""Keeping the best-scored answers, worked by hand: scores .9 .7 .5 .3, right R W R W.

kept    1    2    3    4
wrong   0    1    1    2      risk 0, 1/2, 1/3, 1/2: a mean of 1/3
"""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.analysis.selective import accuracy_at, aurc, precision, prr, recall
from remask.decide.auroc import auroc

SCORES, RIGHT = [0.9, 0.7, 0.5, 0.3], [True, False, True, False]
ROWS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30)
MIXED = ROWS.filter(lambda rows: len({right for _, right in rows}) == 2)


def split(rows: list[tuple[int, bool]]) -> tuple[list[float], list[bool]]:
    return [score / 4 for score, _ in rows], [right for _, right in rows]


def test_the_area_is_the_mean_risk_over_coverages() -> None:
    assert aurc(SCORES, RIGHT) == pytest.approx(1 / 3)
    assert aurc(SCORES, [True] * 4) == 0
    assert aurc(SCORES, [False] * 4) == 1


def test_the_ratio_is_the_way_from_a_random_to_a_perfect_order() -> None:
    """Random 1/2. Perfect R R W W: 0, 0, 1/3, 1/2, a mean of 5/24. (1/2 - 1/3) / (1/2 - 5/24)."""
    assert prr(SCORES, RIGHT) == pytest.approx((1 / 6) / (7 / 24))
    assert prr(SCORES, [True, True, False, False]) == 1
    assert prr([0.5] * 4, RIGHT) == pytest.approx(0)


def test_accuracy_at_a_coverage_counts_the_last_answer_in_part() -> None:
    """The best half is R W; of the best 5/8, that is 2.5 answers, 1 + .5 are right."""
    assert accuracy_at(SCORES, RIGHT, 0.25) == 1
    assert accuracy_at(SCORES, RIGHT, 0.5) == 0.5
    assert accuracy_at(SCORES, RIGHT, 0.625) == pytest.approx(1.5 / 2.5)
    assert accuracy_at(SCORES, RIGHT, 1.0) == 0.5


def test_precision_and_recall_look_strictly_above_the_threshold() -> None:
    """Above .5 are R W: 1 of 2 accepted is right, 1 of 2 right is accepted; above .49, R W R."""
    found = precision(SCORES, RIGHT, 0.5), recall(SCORES, RIGHT, 0.5)
    assert [(x.value, x.n) for x in found if x] == [(0.5, 2), (0.5, 2)]
    found = precision(SCORES, RIGHT, 0.49), recall(SCORES, RIGHT, 0.49)
    assert [(x.value, x.n) for x in found if x] == [(pytest.approx(2 / 3), 3), (1.0, 2)]


def test_what_does_not_exist_is_absent() -> None:
    assert aurc([], []) is None
    assert prr(SCORES, [True] * 4) is None
    assert prr(SCORES, [False] * 4) is None
    assert prr([], []) is None
    assert accuracy_at([], [], 0.5) is None
    assert accuracy_at(SCORES, RIGHT, 0.0) is None
    assert precision(SCORES, RIGHT, 0.9) is None, "nothing is above"
    assert recall(SCORES, [False] * 4, 0.1) is None, "nothing is right"


def test_equal_scores_count_as_the_mean_over_their_orders() -> None:
    """Three equal scores, R W W, below a right one: all orders of the three, by brute force."""
    tied = [True, False, False]
    orders = list(permutations(tied))
    plain = np.mean([aurc([0.9, 0.3, 0.2, 0.1], [True, *order]) for order in orders])
    assert aurc([0.9, 0.3, 0.3, 0.3], [True, *tied]) == pytest.approx(plain)
    kept = np.mean([accuracy_at([0.9, 0.3, 0.2, 0.1], [True, *o], 0.5) for o in orders])
    assert accuracy_at([0.9, 0.3, 0.3, 0.3], [True, *tied], 0.5) == pytest.approx(kept)


@given(MIXED)
def test_counted_among_all_answers_the_ratio_would_be_the_aurocs(
    rows: list[tuple[int, bool]],
) -> None:
    """Why wrong answers are counted among those kept: the other ratio is 2 AUROC - 1."""
    scores, right = split(rows)
    labels = np.array(right)
    n = len(labels)

    def area(values: list[float]) -> float:
        coverages = np.arange(1, n + 1) / n
        kept = [1 - (accuracy_at(values, labels, c) or 0.0) for c in coverages]
        return float((np.array(kept) * coverages).mean())

    random, best = area([0.0] * n), area(labels.astype(float).tolist())
    found = auroc(scores, right)
    assert found is not None
    assert (random - area(scores)) / (random - best) == pytest.approx(2 * found - 1)


@given(MIXED)
def test_only_the_order_counts_and_nothing_beats_the_labels(rows: list[tuple[int, bool]]) -> None:
    scores, right = split(rows)
    found = prr(scores, right)
    assert found is not None
    assert found <= 1 + 1e-12
    assert prr(np.exp(np.array(scores)) - 9, right) == found
    assert prr(np.array(right, float), right) == pytest.approx(1)
