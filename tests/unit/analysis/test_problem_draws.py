"""Numbers of one bootstrap: drawn by name, compared in pairs, averaged over sets."""

import numpy as np
import pytest

from remask.analysis.problem_draws import Resampled, draw_problems, mean_of


def test_each_draw_holds_as_many_problems_as_there_are() -> None:
    draws = draw_problems(7, "a", resamples=5)
    assert draws.times.shape == (5, 7)
    assert draws.times.sum(1).tolist() == [7] * 5


def test_draws_belong_to_the_name_and_the_seed() -> None:
    def counts(name: str, seed: int) -> list[list[float]]:
        return draw_problems(20, name, resamples=3, seed=seed).times.tolist()

    assert counts("a", 0) == counts("a", 0)
    assert counts("a", 0) != counts("b", 0)
    assert counts("a", 0) != counts("a", 1)


def test_a_mean_is_measured_in_every_draw_and_leaves_out_what_is_absent() -> None:
    draws = draw_problems(4, "a", resamples=50)
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
    draws = draw_problems(30, "a", resamples=40)
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
    mean = mean_of([Resampled(1, np.array([0.0, 2]), 10), Resampled(5, np.array([4.0, 8]), 90)])
    assert (mean.value, mean.drawn.tolist(), mean.n) == (3, [2, 5], 100)


def test_an_interval_holds_its_number_and_leaves_out_draws_without_one() -> None:
    interval = Resampled(0.9, np.array([0.5, np.nan, 0.6]), 3).interval()
    assert interval.high == 0.9
    assert 0.5 <= interval.low < 0.51
