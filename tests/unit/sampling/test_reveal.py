"""How many tokens a step reveals, and which: schedules worked by hand and properties of both."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remask.consistency.roundtrips import linear_schedule
from remask.sampling.loop import certainty, filtered, num_due, pick
from remask.sampling.schedule import (
    dream_schedule,
    even_schedule,
    origin_schedule,
    rounded_schedule,
    share_schedule,
)

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
    counts = linear_schedule(torch.tensor([10]), 4)[:, 0]
    assert (10 - counts.cumsum(0)).tolist() == [7, 5, 2, 0]
    assert counts.tolist() == [3, 2, 3, 2]


def test_linear_counts_of_fewer_tokens_than_steps_wait_between_reveals() -> None:
    """2 tokens, 5 steps: 8 // 5 = 1, 6 // 5 = 1, 4 // 5 = 0 stay; the first and third step act."""
    assert linear_schedule(torch.tensor([2]), 5)[:, 0].tolist() == [1, 0, 1, 0, 0]


def test_even_counts_give_the_remainder_to_the_first_steps() -> None:
    """10 tokens, 4 steps: 2 each and one more in the first 10 % 4 = 2."""
    assert even_schedule(torch.tensor([10]), 4)[:, 0].tolist() == [3, 3, 2, 2]
    assert even_schedule(torch.tensor([2]), 5)[:, 0].tolist() == [1, 1, 0, 0, 0]


def test_rounded_counts_go_to_the_nearest_and_halves_to_the_even_one() -> None:
    """10 / 4 = 2.5, 8 / 3 = 2.7, 5 / 2 = 2.5, then 3; 0.4, 0.5, 0.7, 0.5, 1, zeros last."""
    assert rounded_schedule(torch.tensor([10]), 4)[:, 0].tolist() == [2, 3, 2, 3]
    assert rounded_schedule(torch.tensor([2]), 5)[:, 0].tolist() == [1, 1, 0, 0, 0]


def test_shares_are_those_of_a_whole_block_however_few_are_masked() -> None:
    """A block of 8 in 3 steps is 3, 3 and 2; of 5 masked tokens the second step finds but 2."""
    counts = share_schedule(torch.tensor([8, 5, 3, 1, 0]), 3, block=8)
    assert counts.T.tolist() == [[3, 3, 2], [3, 2, 0], [3, 0, 0], [1, 0, 0], [0, 0, 0]]


@given(num=st.integers(0, 32), extra=st.integers(0, 8))
def test_with_a_step_for_every_position_shares_are_even_counts(num: int, extra: int) -> None:
    masked = torch.tensor([num])
    shares = share_schedule(masked, 32 + extra, block=32)
    assert torch.equal(shares, even_schedule(masked, 32 + extra))


@pytest.mark.parametrize("schedule", [linear_schedule, even_schedule, rounded_schedule])
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


def test_dream_counts_take_the_floor_of_a_share_that_grows() -> None:
    """10 tokens, 4 steps: times 1, .75025, .5005, .25075, .001, shares .24975, .33289, .499, all.

    Floors of 2.4975, 8 x .33289 = 2.663, 6 x .499 = 2.994, and the 4 that are left.
    """
    assert dream_schedule(torch.tensor([10]), 4)[:, 0].tolist() == [2, 2, 2, 4]


def test_dream_counts_of_a_token_a_step_start_with_none_and_end_with_two() -> None:
    """8 tokens, 8 steps: the first share, .124875, is less than an eighth."""
    assert dream_schedule(torch.tensor([8]), 8)[:, 0].tolist() == [0, 1, 1, 1, 1, 1, 1, 2]


def test_dreams_time_ends_at_a_thousandth() -> None:
    """1000 tokens, 2 steps: the time between is (1 + .001) / 2 = .5005; 499.5 tokens go, so 499."""
    assert dream_schedule(torch.tensor([1000]), 2)[:, 0].tolist() == [499, 501]


@given(sizes=SIZES, steps=STEPS)
def test_dream_counts_reveal_everything_and_rows_do_not_touch(sizes: list[int], steps: int) -> None:
    counts = dream_schedule(torch.tensor(sizes), steps)
    assert counts.shape == (steps, len(sizes))
    assert counts.min() >= 0
    assert counts.sum(0).tolist() == sizes
    alone = dream_schedule(torch.tensor(sizes[:1]), steps)
    assert counts[:, 0].tolist() == alone[:, 0].tolist()


def test_origin_counts_let_a_token_go_when_the_time_falls_below_its_draw() -> None:
    """Two steps: times 1, .5005, 0. Draws .9 and .6 go first, .4 and .0005 then; the fifth is not
    masked; of the second row only .3 is.
    """
    draws = torch.tensor([[0.9, 0.4, 0.6, 0.0005, 0.7], [0.3, 0.9, 0.9, 0.9, 0.9]])
    counts = origin_schedule(torch.tensor([4, 1]), 2, draws=draws)
    assert counts.tolist() == [[2, 0], [2, 1]]


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20), STEPS, st.data())
def test_origin_counts_reveal_everything(
    draws: list[float], steps: int, data: st.DataObject
) -> None:
    num = data.draw(st.integers(0, len(draws)))
    counts = origin_schedule(
        torch.tensor([num]), steps, draws=torch.tensor([draws], dtype=torch.float64)
    )
    assert counts.shape == (steps, 1)
    assert counts.min() >= 0
    assert counts.sum() == num


def test_num_due_without_a_threshold_is_what_the_schedule_says() -> None:
    masked = torch.tensor([[True, True, True, False]])
    due = num_due(torch.ones(1, 4), masked, torch.tensor([1]), None)
    assert due.tolist() == [2]


def test_num_due_with_a_threshold_counts_the_sure_and_keeps_to_the_schedule() -> None:
    """At .8: two are sure (.9, and .8 itself); none; none, with two overdue; none is masked."""
    confidence = torch.tensor(
        [[0.9, 0.8, 0.1, 0.99], [0.1, 0.2, 0.3, 0.99], [0.1, 0.2, 0.3, 0.99], [0.9] * 4]
    )
    masked = torch.tensor([[True, True, True, False]] * 3 + [[False] * 4])
    due = num_due(confidence, masked, torch.tensor([2, 2, 1, 0]), 0.8)
    assert due.tolist() == [2, 1, 2, 1]
    assert pick(confidence, masked, due).sum(1).tolist() == [2, 1, 2, 0]


def test_certainty_is_the_probability_the_margin_or_the_negative_entropy() -> None:
    """p = .5 .3 .2 and 1 0 0: of tokens 1 and 0; margins .2 and 1; entropies 1.0297 and 0."""
    logits = torch.tensor([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]).log()
    tokens = torch.tensor([1, 0])
    for order in ("low_confidence", "maskgit_plus"):
        assert certainty(order, logits, tokens).tolist() == pytest.approx([0.3, 1.0])  # type: ignore[arg-type]
    assert certainty("topk_margin", logits, tokens).tolist() == pytest.approx([0.2, 1.0])
    assert certainty("entropy", logits, tokens).tolist() == pytest.approx([-1.02965, 0], abs=1e-4)


def test_certainty_puts_some_tokens_last_and_compares_the_rest_without_them() -> None:
    """.5 .3 .2 without the first: .3 / .5 = .6 for token 1, margin .2; token 0 is last."""
    logits = torch.tensor([[0.5, 0.3, 0.2]] * 2).log()
    tokens = torch.tensor([1, 0])
    assert certainty("low_confidence", logits, tokens, [0]).tolist() == pytest.approx([0.6, -1e9])
    assert certainty("topk_margin", logits, tokens, [0]).tolist() == pytest.approx([0.2, -1e9])
    assert logits[0].exp().tolist() == pytest.approx([0.5, 0.3, 0.2])


@pytest.mark.parametrize(
    ("top_p", "top_k", "expected"),
    [
        (None, None, [True, True, True, True]),
        (1.0, None, [True, True, True, True]),
        (0.45, None, [True, True, False, False]),
        (0.35, None, [True, False, False, False]),
        (0.95, None, [True, True, True, True]),
        (None, 1, [True, False, False, False]),
        (None, 3, [True, True, True, False]),
        (None, 9, [True, True, True, True]),
        (0.75, 2, [True, True, False, False]),
        (0.45, 3, [True, True, False, False]),
    ],
)
def test_filters_keep_the_likeliest_up_to_the_one_that_crosses_the_line(
    top_p: float | None, top_k: int | None, expected: list[bool]
) -> None:
    """.4 .3 .2 .1, shuffled: the mass before each is 0, .4, .7, .9; what has too much goes."""
    shuffle = torch.tensor([2, 0, 3, 1])
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()[:, shuffle]
    assert filtered(logits, top_p, top_k)[0].tolist() == [expected[i] for i in shuffle]


@pytest.mark.parametrize(
    ("top_p", "top_k", "first", "last"),
    [
        (0.5, 2, 1, 2),  # of .57 .43 the first has more than .5; of all mass .4 has less
        (0.75, 2, 2, 2),  # .57 is less than .75
        (0.75, 3, 2, 3),  # of .44 .33 .22 the first two have .78; of all mass .7 is less
        (0.45, 3, 2, 2),  # .44 is less than .45, and so is .4
        (1.0, 3, 3, 3),  # no filter
    ],
)
def test_the_order_of_the_filters_decides_the_mass_that_top_p_shares(
    top_p: float, top_k: int, first: int, last: int
) -> None:
    """.4 .3 .2 .1: top_k before top_p leaves `first` tokens, top_p before top_k `last`."""
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert filtered(logits, top_p, top_k, top_k_first=True).sum() == first
    assert filtered(logits, top_p, top_k).sum() == last


@given(
    st.lists(st.integers(-40, 40), min_size=2, max_size=12),
    st.floats(0.01, 0.999),
    st.integers(1, 12),
)
def test_top_k_first_keeps_what_top_p_keeps_of_the_tokens_that_top_k_leaves(
    values: list[int], top_p: float, top_k: int
) -> None:
    logits = torch.tensor([values]).double() / 8
    left = filtered(logits, None, top_k)[0]
    kept = filtered(logits, top_p, top_k, top_k_first=True)[0]
    assert kept[left].tolist() == filtered(logits[:, left], top_p, None)[0].tolist()
    assert not kept[~left].any()
    both = filtered(logits, top_p, top_k)[0]
    assert not (kept & ~both).any(), "a share of less mass never keeps more"


@given(
    st.lists(st.integers(-40, 40), min_size=2, max_size=12),
    st.floats(0.01, 0.999),
    st.integers(1, 12),
)
def test_filters_always_keep_the_best_and_what_is_as_good_as_a_kept_one(
    values: list[int], top_p: float, top_k: int
) -> None:
    logits = torch.tensor([values]).float() / 8
    kept = filtered(logits, top_p, top_k)[0]
    assert kept[logits[0].argmax()]
    least = logits[0][kept].min()
    assert torch.equal(kept, logits[0] >= least)
    assert kept.sum() >= min(top_k, 1)
