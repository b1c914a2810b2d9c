"""The Pareto front, by hand and by its definition."""

from hypothesis import given
from hypothesis import strategies as st

from studies.frontier.plot import pareto_front


def test_the_front_is_what_nothing_beats_at_its_price() -> None:
    """b costs more than a and reaches less; c costs what d does and reaches less."""
    reached = {"d": (9, 0.8), "c": (9, 0.7), "b": (2, 0.5), "a": (1, 0.6), "e": (10, 0.8)}
    assert pareto_front(reached) == ["a", "d"]


POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True, max_size=12)


@given(POINTS)
def test_on_the_front_are_exactly_those_that_no_other_dominates(
    points: list[tuple[int, int]],
) -> None:
    reached = {str(k): (float(cost), float(value)) for k, (cost, value) in enumerate(points)}
    alone = {
        name
        for name, (cost, value) in reached.items()
        if not any(
            c <= cost and v >= value and (c, v) != (cost, value) for c, v in reached.values()
        )
    }
    assert set(pareto_front(reached)) == alone
