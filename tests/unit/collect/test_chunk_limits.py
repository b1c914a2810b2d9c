"""Chunks of about a minute: every answer once, in order, and cut again the same way."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remask.collect.chunks import RATES, SECONDS, ChunkLimits, num_active, work_budget
from remask.denoisers.base import Denoiser
from remask.denoisers.experts import Experts, SoftmaxRouter
from remask.testing import ScriptedDenoiser

LENGTHS = st.lists(st.integers(0, 30), min_size=1, max_size=12)
LIMIT = st.none() | st.integers(1, 2_000)
LIMITS = st.builds(
    ChunkLimits, samples=st.integers(1, 5), scored=st.integers(0, 5), write=st.integers(1, 9),
    verify=st.integers(0, 9), most=st.integers(1, 6), tokens=LIMIT, budget=LIMIT,
)  # fmt: skip
USUAL = ChunkLimits(samples=2, scored=1, write=10, verify=6, most=9)


def test_whole_problems_fill_a_minute() -> None:
    """Both answers to a problem of 10 tokens: 10 x (10 + 6) + 10 x 10 = 260."""
    assert replace(USUAL, budget=520).chunks(0, [10, 10, 10]) == [(0, 4), (4, 6)]
    assert replace(USUAL, budget=519).chunks(0, [10, 10, 10]) == [(0, 2), (2, 4), (4, 6)]
    assert replace(USUAL, budget=None).chunks(0, [10, 10, 10]) == [(0, 6)]


def test_a_problem_that_takes_longer_is_cut_between_its_answers() -> None:
    assert replace(USUAL, budget=259).chunks(0, [10]) == [(0, 1), (1, 2)]
    assert replace(USUAL, budget=1).chunks(2, [10, 5]) == [(2, 3), (3, 4), (4, 5), (5, 6)]


def test_a_run_goes_on_between_two_answers() -> None:
    assert replace(USUAL, budget=259).chunks(1, [10, 1, 1]) == [(1, 2), (2, 6)]


def test_a_problem_that_is_not_asked_costs_nothing_and_is_never_cut() -> None:
    assert replace(USUAL, budget=260).chunks(0, [0, 0, 10, 0]) == [(0, 8)]
    assert replace(USUAL, budget=1).chunks(0, [0, 0]) == [(0, 4)]


def test_problems_and_tokens_are_limits_too() -> None:
    assert replace(USUAL, most=1).chunks(0, [10, 10]) == [(0, 2), (2, 4)]
    assert replace(USUAL, tokens=19).chunks(0, [5, 10, 1]) == [(0, 2), (2, 4), (4, 6)]


def test_a_model_that_keeps_earlier_blocks_computes_one_block_a_pass() -> None:
    """4 columns of 10: an answer costs 4 x 16 verified and 4 x 10 not, a problem 104."""
    limits = replace(USUAL, columns=4)
    assert replace(limits, budget=208).chunks(0, [10, 10, 10]) == [(0, 4), (4, 6)]
    assert replace(limits, budget=207).chunks(0, [10, 10, 10]) == [(0, 2), (2, 4), (4, 6)]
    assert replace(limits, budget=52).chunks(0, [2]) == [(0, 2)]  # a row shorter than a block


def test_a_token_meets_the_experts_that_are_chosen_for_it() -> None:
    """Each of 8 experts has 2 x 3 x 4 + 4 x 3 = 36 parameters; 2 are chosen, the gate has 32."""
    experts = Experts(SoftmaxRouter(4, 8, 2), 8, 4, 3)
    assert num_active(experts) == 2 * 36 + 32


@given(LIMITS, LENGTHS)
def test_every_answer_stands_in_one_chunk_within_the_work(
    limits: ChunkLimits, lengths: list[int]
) -> None:
    chunks = limits.chunks(0, lengths)
    places = [place for chunk in chunks for place in range(chunk.start, chunk.stop)]
    assert places == list(range(len(lengths) * limits.samples))
    for chunk in chunks:
        spent = sum(
            lengths[place // limits.samples]
            * (limits.write + (limits.verify if place % limits.samples < limits.scored else 0))
            for place in range(chunk.start, chunk.stop)
        )
        assert limits.budget is None or spent <= limits.budget or chunk.stop - chunk.start == 1


@given(LIMITS, LENGTHS)
def test_cutting_again_from_the_start_of_any_chunk_makes_the_same_ones(
    limits: ChunkLimits, lengths: list[int]
) -> None:
    chunks = limits.chunks(0, lengths)
    for number, chunk in enumerate(chunks):
        rest = lengths[chunk.start // limits.samples :]
        assert limits.chunks(chunk.start, rest) == chunks[number:]


def test_the_budget_is_a_minute_of_the_devices_rate(llada: Denoiser) -> None:
    size = sum(parameter.numel() for parameter in llada.model.parameters())  # type: ignore[attr-defined]
    assert work_budget(llada) == int(SECONDS * RATES["cpu"] / (2 * size))


def test_a_model_of_somebody_elses_has_no_size_to_reckon_with() -> None:
    assert work_budget(ScriptedDenoiser.from_table(torch.zeros(4, 262))) is None


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_kind_of_device_has_a_rate(device: str) -> None:
    assert RATES[device] > 0
