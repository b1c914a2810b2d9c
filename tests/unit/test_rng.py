"""Draws keyed by identity: the mixer against plain integers, and what the draws look like."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remask import rng

WORD = 0xFFFFFFFFFFFFFFFF
SIGNED = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x1f"), max_size=8)
CPU = torch.device("cpu")
MANY = torch.arange(100_000)


def split_mix(state: int, counter: int) -> int:
    """SplitMix64 over unsigned Python integers: the state after `counter + 1` steps, finalised."""
    z = (state + 0x9E3779B97F4A7C15 * (counter + 1)) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def test_the_reference_gives_the_published_first_outputs_of_splitmix64() -> None:
    """Seed 1234567: the sequence that implementations of SplitMix64 are compared on."""
    outputs = [split_mix(1234567, counter) for counter in range(3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(state=SIGNED, counter=st.integers(-(2**31), 2**31))
def test_mix_equals_splitmix64_bit_for_bit(state: int, counter: int) -> None:
    mixed = rng.fold_in(torch.tensor([state]), torch.tensor([counter]))
    assert mixed.item() & WORD == split_mix(state & WORD, counter)


@given(state=SIGNED, counter=st.integers(-(2**31), 2**31))
def test_a_plain_integer_counts_like_a_tensor(state: int, counter: int) -> None:
    """Python's integers do not wrap: 2 x 0x9E37... no longer fits 64 bits, and must be made to."""
    mixed = rng.fold_in(torch.tensor([state]), counter)
    assert torch.equal(mixed, rng.fold_in(torch.tensor([state]), torch.tensor([counter])))


@given(state=SIGNED, counter=st.integers(0, 2**31))
def test_uniform_is_the_upper_52_bits_in_the_middle_of_their_cell(state: int, counter: int) -> None:
    draw = rng.uniform(torch.tensor([state]), torch.tensor([counter])).item()
    assert draw == ((split_mix(state & WORD, counter) >> 12) + 0.5) * 2.0**-52


def test_draws_lie_strictly_inside_the_unit_interval_even_at_the_extremes() -> None:
    """All 52 bits zero give 2^-53, all ones 1 - 2^-53: both Gumbels are finite."""
    draws = rng.uniform(torch.tensor([rng.key(0, "a", "p")]), MANY)
    assert 0.0 < draws.min() < draws.max() < 1.0
    assert rng.gumbel(torch.tensor([rng.key(0, "a", "p")]), MANY).isfinite().all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_uniform_draws_have_mean_a_half_and_variance_a_twelfth(seed: int) -> None:
    """n = 100,000: the mean has standard error 0.000913, the variance 0.000236; 4.5 of each."""
    draws = rng.uniform(torch.tensor([rng.key(seed, "item", "moments")]), MANY)
    assert abs(draws.mean().item() - 1 / 2) < 4.5 * 0.000913
    assert abs(draws.var().item() - 1 / 12) < 4.5 * 0.000236


def test_uniform_draws_fill_their_cells_evenly() -> None:
    """Chi-square over 100 cells: mean 99, standard deviation 14.1; within 5 of them."""
    draws = rng.uniform(torch.tensor([rng.key(3, "item", "cells")]), MANY)
    counts = torch.histc(draws, bins=100, min=0.0, max=1.0)
    assert abs(((counts - 1000) ** 2 / 1000).sum().item() - 99) < 5 * 14.1


def test_neighbouring_draws_and_neighbouring_streams_are_uncorrelated() -> None:
    """The correlation of 100,000 independent pairs has standard error 0.0032."""
    streams = torch.tensor([[rng.key(0, "item", "p", n)] for n in range(2)])
    draws = rng.uniform(streams, MANY)  # (2, n)
    pairs = [(draws[0], draws[1]), (draws[0, :-1], draws[0, 1:])]
    for left, right in pairs:
        correlation = torch.corrcoef(torch.stack([left, right]))[0, 1].item()
        assert abs(correlation) < 4.5 * 0.0032


def test_gumbel_draws_have_the_mean_and_variance_of_a_gumbel() -> None:
    """Mean 0.5772 (Euler), variance pi^2 / 6 = 1.645; standard errors 0.0041 and 0.0109."""
    draws = rng.gumbel(torch.tensor([rng.key(0, "item", "gumbel")]), MANY)
    assert abs(draws.mean().item() - 0.5772) < 4.5 * 0.0041
    assert abs(draws.var().item() - math.pi**2 / 6) < 4.5 * 0.0109


def test_the_largest_of_noisy_logits_is_drawn_with_the_softmax_probabilities() -> None:
    """Logits log 1, log 2, log 5: argmax of logit + Gumbel is 0, 1, 2 in 1/8, 2/8, 5/8 of draws."""
    streams = rng.fold_in(torch.tensor(rng.key(0, "item", "argmax")), MANY)  # (n,)
    noise = rng.gumbel(streams[:, None], torch.arange(3))
    winners = (torch.tensor([1.0, 2.0, 5.0]).log() + noise).argmax(1)
    shares = winners.bincount(minlength=3) / len(MANY)
    assert shares.tolist() == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.007)


def test_draws_of_a_row_do_not_depend_on_its_neighbours_order_or_padding() -> None:
    places = torch.arange(8)
    together = rng.uniform(rng.keys(0, ["a", "b", "c"], "p", 0, CPU)[:, None], places)  # (3, 8)
    backwards = rng.uniform(rng.keys(0, ["c", "b", "a"], "p", 0, CPU)[:, None], places)
    longer = rng.uniform(rng.keys(0, ["b"], "p", 0, CPU)[:, None], torch.arange(50))
    assert torch.equal(together, backwards.flip(0))
    assert torch.equal(together[1], longer[0, :8])


def test_one_draw_equals_the_same_draw_in_a_block() -> None:
    state = torch.tensor([rng.key(0, "a", "p")])
    assert rng.uniform(state, MANY)[777] == rng.uniform(state, torch.tensor(777))[0]


def test_keys_are_the_keys_of_the_items_in_order() -> None:
    assert rng.keys(5, ["a", "b"], "p", 3, CPU).tolist() == [
        rng.key(5, "a", "p", 3),
        rng.key(5, "b", "p", 3),
    ]
    assert rng.keys(5, ["a", "a"], "p", [3, 4], CPU).tolist() == [
        rng.key(5, "a", "p", 3),
        rng.key(5, "a", "p", 4),
    ]


def test_a_key_is_the_same_in_every_process() -> None:
    r"""blake2b is unsalted, unlike hash(): every record rests on these bits.

    `printf '[0, "item", "sample", 0]' | b2sum -l 64` prints them, lowest byte first.
    """
    assert rng.key(0, "item", "sample", 0) == 8988850200100413767


def test_an_item_may_hold_anything_a_string_can() -> None:
    """A separator inside an item makes no collision, and half a surrogate pair no error."""
    assert rng.key(0, "a\x1fb", "c") != rng.key(0, "a", "b\x1fc")
    assert rng.key(0, "\ud800", "p") != rng.key(0, "\ud801", "p")


@given(
    one=st.tuples(st.integers(0, 9), NAMES, NAMES, st.integers(0, 9)),
    other=st.tuples(st.integers(0, 9), NAMES, NAMES, st.integers(0, 9)),
)
def test_streams_differ_wherever_seed_item_purpose_or_number_do(
    one: tuple[int, str, str, int], other: tuple[int, str, str, int]
) -> None:
    assert (rng.key(*one) == rng.key(*other)) == (one == other)


def test_fields_of_a_key_do_not_run_into_one_another() -> None:
    """Written without a separator, seed 1 of item "1a" would be seed 11 of item "a"."""
    assert rng.key(1, "1a", "p") != rng.key(11, "a", "p")
    assert rng.key(0, "ab", "c") != rng.key(0, "a", "bc")
    assert rng.key(0, "a", "p1", 1) != rng.key(0, "a", "p", 11)
