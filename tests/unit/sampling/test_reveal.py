"""How many tokens a step reveals, and which: schedules worked by hand and properties of both."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remask.sampling.reveal import even_counts, linear_counts, pick

SIZES = st.lists(st.integers(0, 300), min_size=1, max_size=4)
STEPS = st.integers(1, 70)
ROWS = st.integers(1, 12).flatmap(
    lambda length: st.tuples(
        st.lists(st.sampled_from([0.1, 0.5, 0.9]), min_size=length, max_size=length),
        st.lists(st.booleans(), min_size=length, max_size=length),
        st.integers(0, 12),
    )
)


def one(confidence: list[float], masked: list[bool], num: int) -> list[bool]:
    """Return the picks of a single row."""
    picked: list[bool] = pick(
        torch.tensor([confidence]), torch.tensor([masked]), torch.tensor([num])
    )[0].tolist()
    return picked


def test_linear_counts_leave_the_floor_of_an_even_share_masked() -> None:
    """10 tokens, 4 steps: 30 // 4 = 7, 20 // 4 = 5, 10 // 4 = 2, 0 stay; 3, 2, 3, 2 go."""
    counts = linear_counts(torch.tensor([10]), 4)[:, 0]
    assert (10 - counts.cumsum(0)).tolist() == [7, 5, 2, 0]
    assert counts.tolist() == [3, 2, 3, 2]


def test_linear_counts_of_fewer_tokens_than_steps_wait_between_reveals() -> None:
    """2 tokens, 5 steps: 8 // 5 = 1, 6 // 5 = 1, 4 // 5 = 0 stay; the first and third step act."""
    assert linear_counts(torch.tensor([2]), 5)[:, 0].tolist() == [1, 0, 1, 0, 0]


def test_even_counts_give_the_remainder_to_the_first_steps() -> None:
    """10 tokens, 4 steps: 2 each and one more in the first 10 % 4 = 2."""
    assert even_counts(torch.tensor([10]), 4)[:, 0].tolist() == [3, 3, 2, 2]
    assert even_counts(torch.tensor([2]), 5)[:, 0].tolist() == [1, 1, 0, 0, 0]


@pytest.mark.parametrize("schedule", [linear_counts, even_counts])
@given(sizes=SIZES, steps=STEPS)
def test_schedules_reveal_everything_and_rows_do_not_touch(
    schedule: object, sizes: list[int], steps: int
) -> None:
    counts = schedule(torch.tensor(sizes), steps)  # type: ignore[operator]
    assert counts.shape == (steps, len(sizes))
    assert counts.min() >= 0
    assert counts.sum(0).tolist() == sizes
    assert (counts.max(0).values - counts.min(0).values).max() <= 1
    alone = schedule(torch.tensor(sizes[:1]), steps)  # type: ignore[operator]
    assert counts[:, 0].tolist() == alone[:, 0].tolist()


def test_pick_takes_the_most_confident_masked_positions() -> None:
    """0.9 is not masked: of 0.2, 0.7, 0.5 the two highest are at places 2 and 3."""
    masked = [True, False, True, True]
    assert one([0.2, 0.9, 0.7, 0.5], masked, 2) == [False, False, True, True]


def test_pick_gives_ties_to_the_earlier_position() -> None:
    assert one([0.5, 0.8, 0.5, 0.5], [True] * 4, 3) == [True, True, True, False]


def test_pick_counts_each_row_for_itself() -> None:
    confidence = torch.tensor([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]])
    picked = pick(confidence, torch.ones(2, 3, dtype=torch.bool), torch.tensor([1, 2]))
    assert picked.tolist() == [[False, False, True], [True, True, False]]


@given(ROWS)
def test_pick_never_takes_what_is_not_masked_nor_more_than_asked(
    row: tuple[list[float], list[bool], int],
) -> None:
    confidence, masked, num = row
    picked = one(confidence, masked, num)
    assert sum(picked) == min(num, sum(masked))
    assert all(is_masked for taken, is_masked in zip(picked, masked, strict=True) if taken)


@given(ROWS)
def test_pick_leaves_nothing_better_behind(row: tuple[list[float], list[bool], int]) -> None:
    confidence, masked, num = row
    picked = one(confidence, masked, num)
    ranked = [(-c, i) for i, c in enumerate(confidence) if masked[i]]
    assert sorted(ranked)[:num] == [(-confidence[i], i) for i in _by_rank(picked, confidence)]


def _by_rank(picked: list[bool], confidence: list[float]) -> list[int]:
    taken = [i for i, is_taken in enumerate(picked) if is_taken]
    return sorted(taken, key=lambda i: (-confidence[i], i))
