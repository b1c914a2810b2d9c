"""Rejection sampling over many pools at once is rejection sampling of each."""

from collections.abc import Callable

import numpy as np
import pytest

from remask.analysis.correction import mgrs
from remask.records.record import Record
from studies.shared.replay import (
    ScoredPools,
    best_f1_threshold,
    cheapest_threshold,
    replay,
)

Make = Callable[..., Record]


def pools_of(rows: list[list[tuple[float, bool]]]) -> ScoredPools:
    scores = np.array([[score for score, _ in row] for row in rows])
    right = np.array([[label for _, label in row] for row in rows])
    return ScoredPools(scores=scores, right=right, forwards=np.full(scores.shape, 10.0))


def test_the_first_above_is_accepted_or_the_best_returned() -> None:
    """Above .6: the second of the first pool. Nothing of the second: its best, after all three."""
    made = replay(
        pools_of([[(0.6, False), (0.7, True), (0.9, False)],
                  [(0.2, False), (0.5, True), (0.5, False)]]), 0.6,
    )  # fmt: skip
    assert made.right.tolist() == [True, True]
    assert made.samples.tolist() == [2, 3]
    assert made.forwards.tolist() == [20, 30]


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.55, 0.95])
def test_it_is_the_replay_of_single_pools(make_record: Make, threshold: float) -> None:
    rng = np.random.default_rng(3)
    drawn = [
        [(float(rng.integers(0, 10)) / 10, bool(rng.random() < 0.5)) for _ in range(4)]
        for _ in range(30)
    ]
    made = replay(pools_of(drawn), threshold)
    for k, row in enumerate(drawn):
        pool = [make_record(str(k), i, score=s, right=r) for i, (s, r) in enumerate(row)]
        settled = mgrs(pool, threshold, 4)
        assert (settled.right, settled.samples) == (made.right[k], made.samples[k])


def test_the_cheapest_threshold_of_the_most_accurate_is_chosen() -> None:
    """At .2 the second pool accepts its wrong .3. At .3 and at .75 both are right, for 3 samples.

    At .8 they are right for 4. Of the cheapest that are right the lowest is taken.
    """
    pools = pools_of([[(0.8, True), (0.2, False)], [(0.3, False), (0.75, True)]])
    assert cheapest_threshold(pools) == 0.3


def test_a_threshold_that_costs_less_may_lose_no_more_than_a_little() -> None:
    """At .3 three samples are drawn and one pool of two is lost; at .5 four, and none is."""
    pools = pools_of([[(0.5, False), (0.9, True)], [(0.3, True), (0.7, True)]])
    assert replay(pools, 0.3).samples.sum() == 3
    assert cheapest_threshold(pools) == 0.5


def test_the_best_f1_is_that_of_single_answers_and_rejects_something() -> None:
    """Wrong .1 and .4, right .3 and .8: above .1 F1 is 4/5, above .3 and .4 2/4 and 2/3.

    Of two right answers the lower is rejected, though F1 would be best without that.
    """
    scores, right = np.array([0.1, 0.4, 0.3, 0.8]), np.array([False, False, True, True])
    assert best_f1_threshold(scores, right) == 0.1
    assert best_f1_threshold(np.array([0.2, 0.9]), np.array([True, True])) == 0.2


def test_the_threshold_does_not_depend_on_the_scale_of_the_score() -> None:
    rng = np.random.default_rng(4)
    scores, right = rng.random((60, 5)), rng.random((60, 5)) < 0.5
    plain = ScoredPools(scores=scores, right=right, forwards=np.ones((60, 5)))
    grown = ScoredPools(scores=100 * scores - 7, right=right, forwards=np.ones((60, 5)))
    assert cheapest_threshold(grown) == pytest.approx(100 * cheapest_threshold(plain) - 7)
