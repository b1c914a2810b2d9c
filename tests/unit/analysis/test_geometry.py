"""Density and quality on points whose order is known, and on noise that should show nothing."""

import math
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, gaussian_kde

from remask.analysis.geometry import (
    Boundary,
    boundary,
    chi_square,
    confidence_correlation,
    coordinates,
    corner,
    density,
    density_ratio,
    density_table,
    geometry,
    points,
    quality,
    shuffled,
    spanned,
)
from remask.records.record import Record

Make = Callable[..., Record]
NAMES = ("token_accuracy", "semantic_similarity", "number_retention")
NAN = float("nan")


def answers(
    make_record: Make, table: Sequence[Sequence[float | None]], right: Sequence[bool]
) -> list[Record]:
    """Return one standard answer per line, with one trip, over the first metrics of the six."""
    return [
        make_record(str(k), right=fine, by_trip={n: [v] for n, v in zip(NAMES, line, strict=False)})
        for k, (line, fine) in enumerate(zip(table, right, strict=True))
    ]


def test_the_density_of_two_points_is_worked_out() -> None:
    """0 and 2: variance 2, Scott's factor 2^(-1/5), so h^2 = 2 x 2^(-2/5) = 1.516.

    At each: (1 + exp(-4 / 2h^2)) / (2 h sqrt(2 pi)).
    """
    h2 = 2 * 2 ** (-2 / 5)
    expected = (1 + math.exp(-4 / (2 * h2))) / (2 * math.sqrt(2 * math.pi * h2))
    assert density(np.array([[0.0], [2.0]])) == pytest.approx([expected] * 2)


def test_a_crowd_is_denser_than_its_edge_and_the_edge_than_a_stray() -> None:
    line = np.array([[0.0], [0.1], [0.2], [0.3], [0.4], [3.0]])
    found = density(spanned(line))
    assert found.argmax() == 2
    assert found.argmin() == 5
    assert found[0] < found[1] < found[2]


@pytest.mark.parametrize("seed", range(5))
def test_equal_densities_are_equal_whatever_the_order_of_the_points(seed: int) -> None:
    """Four points in three directions are equally far from each other once they are whitened."""
    generator = np.random.default_rng(seed)
    table = generator.uniform(size=(4, 3))
    assert len(np.unique(density(spanned(table)))) == 1
    assert shuffled(table) is None
    table = generator.uniform(size=(9, 3))
    order = generator.permutation(9)
    assert list(density(spanned(table))[order]) == list(density(spanned(table[order])))


def test_equal_qualities_are_equal_whatever_the_order_of_the_metrics() -> None:
    assert len({0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1}) == 2
    assert len(np.unique(quality(np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]])))) == 1


def test_the_density_is_that_of_the_features_in_their_own_units() -> None:
    table = np.random.default_rng(0).normal(size=(40, 3)) * [1, 0.1, 5] + 2
    assert density(spanned(table)) == pytest.approx(gaussian_kde(table.T)(table.T))


def test_a_metric_that_repeats_another_changes_no_order() -> None:
    """(x, y, x): the covariance is singular. Two directions stay; x is stretched by sqrt(2)."""
    table = np.random.default_rng(1).normal(size=(30, 2))
    twice = table[:, [0, 1, 0]]
    assert spanned(twice).shape == (30, 2)
    ratio = density(spanned(twice)) / density(spanned(table))
    assert ratio == pytest.approx(np.full(30, 1 / math.sqrt(2)))


@given(
    st.integers(2, 8).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=n, max_size=n
        )
    )
)
def test_turning_the_axes_keeps_all_distances(table: list[list[int]]) -> None:
    values = np.array(table, float)
    found = spanned(values)
    assert found.shape[1] == np.linalg.matrix_rank(values - values.mean(0))
    before, after = (((x[:, None] - x[None]) ** 2).sum(-1) for x in (values, found))
    assert np.allclose(before, after)


def test_points_that_do_not_vary_span_nothing() -> None:
    assert spanned(np.full((4, 2), 0.3)).shape == (4, 0)
    assert spanned(np.empty((0, 2))).shape == (0, 0)


def test_coordinates_are_metrics_that_are_present_and_vary() -> None:
    """The second is absent from 2 of 4, the third constant; row 3 lacks the fourth."""
    table = [[0.1, NAN, 1, 0.5], [0.2, NAN, 1, 0.6], [0.3, 0.5, 1, 0.7], [0.4, 0.6, 1, NAN]]
    chosen, complete = coordinates(table)
    assert chosen.tolist() == [True, False, False, True]
    assert complete.tolist() == [True, True, True, False]


CELLS = st.sampled_from([NAN, 0.0, 0.5, 1.0])


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=12))
def test_what_is_kept_has_no_hole_and_no_constant(rows: list[tuple[float, ...]]) -> None:
    table = np.array(rows)
    chosen, complete = coordinates(table)
    kept = table[np.ix_(complete, chosen)]
    assert not np.isnan(kept).any()
    if complete.any():
        assert all(len(set(column)) > 1 for column in kept.T)


def test_points_say_what_they_are_made_of(make_record: Make) -> None:
    """number_retention is constant; the fourth answer has no semantic_similarity.

    Quality is the mean of the other two: .5, .4 and .6.
    """
    table = [[0.6, 0.4, 1.0], [0.3, 0.5, 1.0], [0.7, 0.5, 1.0], [0.5, None, 1.0]]
    found = points(answers(make_record, table, [True, False, True, True]))
    assert found is not None
    assert (found.names, found.dropped) == (NAMES[:2], NAMES[2:])
    assert (found.absent, found.directions) == (1, 2)
    assert found.quality == pytest.approx([0.5, 0.4, 0.6])
    assert found.right.tolist() == [True, False, True]


@pytest.mark.parametrize("table", [[], [[0.5, 0.5]], [[0.5, 0.5]] * 3, [[]] * 3])
def test_answers_that_span_no_space_have_no_geometry(
    make_record: Make, table: list[list[float]]
) -> None:
    assert geometry(answers(make_record, table, [True] * len(table)), resamples=5) is None


def test_independent_symmetric_features_show_nothing_and_neither_does_their_null() -> None:
    table = np.random.default_rng(2).normal(size=(400, 3))
    null = shuffled(table, shuffles=20, seed=0)
    assert null is not None
    assert abs(null.value) < 0.1
    assert null.low <= 0 <= null.high


def test_independent_features_below_a_bound_look_like_geometry() -> None:
    """Why there is a null: noise that crowds below 1 has a Spearman that shuffling does not lower.

    The density of the Beta(5, 1) rises up to its bound, and with it the mean.
    """
    table = np.random.default_rng(3).beta(5, 1, size=(400, 3))
    null = shuffled(table, shuffles=20, seed=0)
    assert null is not None
    assert null.low > 0.5


def test_the_null_is_the_seeds_own() -> None:
    table = np.random.default_rng(4).random((30, 2))
    once, again, other = (shuffled(table, shuffles=5, seed=seed) for seed in (0, 0, 1))
    assert once == again
    assert once != other


def test_the_ratio_is_of_mean_densities() -> None:
    """Right 4 and 2, wrong 1 and 2: 3 / 1.5."""
    assert density_ratio([4, 2, 1, 2], [True, True, False, False]) == 2
    assert density_ratio([4, 2], [True, True]) is None
    assert density_ratio([4, 2], [False, False]) is None


def test_the_boundary_is_where_right_and_wrong_part_best() -> None:
    """From the densest: R R W R W. The shares above differ by 1/3, 2/3, 1/6, 1/2, 0."""
    found = boundary([9, 8, 7, 6, 5], [True, True, False, True, False])
    assert found == Boundary(density=8, right_above=pytest.approx(2 / 3), wrong_above=0)
    assert boundary([9, 8], [False, True]) is None, "the dense one is wrong"
    assert boundary([9, 8], [True, True]) is None


def test_a_corner_is_cut_where_independence_would_fill_it_as_asked() -> None:
    """All 100 pairs of 0 .. 9: the upper half of both axes is 25, as expected of a quarter.

    Where both axes are one, the upper halves coincide: 50. Where they are opposed, 0.
    """
    axis = np.arange(10.0)
    a, b = (grid.ravel() for grid in np.meshgrid(axis, axis))
    found = corner(a, b, 0.25)
    assert found is not None
    assert (found.share.value, found.expected) == (0.25, 0.25)
    same, opposed = corner(a, a, 0.25), corner(a, -a, 0.25)
    assert same is not None
    assert opposed is not None
    assert (same.share.value, opposed.share.value) == (0.5, 0.0)


def test_bins_of_density_hold_equally_many_answers() -> None:
    """Ten answers in five bins of two; those of the two lowest bins are wrong."""
    table = density_table(np.arange(10), [False] * 4 + [True] * 6)
    assert table.tolist() == [[0, 0, 2, 2, 2], [2, 2, 0, 0, 0]]


def test_the_chi_square_is_worked_out_and_has_four_degrees_of_freedom() -> None:
    """The table above: 1.2 right and .8 wrong expected in each bin.

    2 x (1.2 + 1.44 / .8) + 3 x (.64 / 1.2 + .8) = 6 + 4 = 10, all there can be of 10 answers.
    """
    found = chi_square(np.arange(10), [False] * 4 + [True] * 6)
    assert found is not None
    assert (found.statistic, found.df) == (pytest.approx(10), 4)
    assert found.p == pytest.approx(0.0404, abs=1e-4)
    assert found.cramers_v == pytest.approx(1)
    assert found.smallest_expected == pytest.approx(0.8)


def test_the_chi_square_is_that_of_scipy() -> None:
    generator = np.random.default_rng(5)
    values, right = generator.random(200), generator.random(200) < 0.7
    found, expected = chi_square(values, right), chi2_contingency(density_table(values, right))
    assert found is not None
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue))


def test_one_kind_of_answer_or_one_density_cannot_be_tested() -> None:
    assert chi_square(np.arange(10), [True] * 10) is None
    assert chi_square(np.ones(10), [True, False] * 5) is None


def test_confidence_is_compared_where_both_scores_are(make_record: Make) -> None:
    """Round trips .1 .2 .3, confidence .5 .9 .7: ranks 1 2 3 and 1 3 2 make 1/2."""
    pairs = [(0.1, 0.5), (0.2, 0.9), (0.3, 0.7), (None, 0.1)]
    rows = [make_record(str(k), score=a, confidence=b) for k, (a, b) in enumerate(pairs)]
    found = confidence_correlation(rows, resamples=20)
    assert found is not None
    assert (found.value, found.n) == (pytest.approx(0.5), 3)
    assert confidence_correlation([], resamples=20) is None


def test_a_crowd_of_right_answers_near_one_is_found(make_record: Make) -> None:
    """60 right answers around (.9, .9), 20 wrong ones scattered: all figures say so."""
    generator = np.random.default_rng(6)
    crowd, strays = generator.normal(0.9, 0.02, (60, 2)), generator.random((20, 2)) * 0.7
    rows = answers(make_record, [*crowd.tolist(), *strays.tolist()], [True] * 60 + [False] * 20)
    other = make_record("0", 1, by_trip={NAMES[0]: [0.0], NAMES[1]: [0.0]})
    found = geometry([*rows, other], resamples=50, shuffles=10, seed=3)
    assert found is not None
    assert (found.n, found.absent, found.names) == (80, 0, NAMES[:2]), "sample 1 is not asked"
    assert found.density_ratio is not None
    assert found.density_ratio.low > 1
    assert found.boundary is not None
    assert (found.boundary.right_above, found.boundary.wrong_above) == (1.0, 0.0)
    assert found.chi2 is not None
    assert found.chi2.p < 1e-6
    assert found.hallucination is not None
    assert found.hallucination.share.value < found.hallucination.expected
    assert found == geometry([*rows, other], resamples=50, shuffles=10, seed=3)


def test_reading_this_room_needs_neither_torch_nor_scipy() -> None:
    code = (
        "import sys, remask.analysis.geometry\n"
        "assert not {'torch', 'matplotlib', 'sklearn', 'scipy'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0
