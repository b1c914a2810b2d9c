"""Chunks of about a minute: every row once, in order, and cut again the same way."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remask.collect.chunks import RATES, SECONDS, Chunk, RowSize, cut, num_active, work_budget
from remask.collect.engine import ChunkedWork, Lines, Local
from remask.denoisers.base import Denoiser
from remask.denoisers.experts import Experts, SoftmaxRouter
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Replicas
from remask.testing import ScriptedDenoiser

SIZES = st.lists(st.builds(RowSize, st.integers(0, 50), st.integers(0, 90)), max_size=40)
LIMIT = st.none() | st.integers(1, 200)


def chunks_of(lengths: Sequence[int], most: int = 99, start: int = 0, **limits: int) -> list[Chunk]:
    """Cut rows of these lengths; a row costs ten times its length."""
    sizes = (RowSize(length, 10 * length) for length in lengths)
    return cut(enumerate(sizes, start), most, **limits)


def test_a_chunk_is_closed_before_the_row_that_would_exceed_a_limit() -> None:
    """20 tokens: 5 and 10 take 2 x 10; 3 with them 30. 3 and 7: 14, with 9 it would be 27."""
    assert chunks_of([5, 10, 3, 7, 9], start=4, tokens=20) == [(4, 6), (6, 8), (8, 9)]
    assert chunks_of([1, 1, 1], 2) == [(0, 2), (2, 3)]
    assert chunks_of([99, 1], tokens=20) == [(0, 1), (1, 2)], "a row too long goes alone"
    assert chunks_of([5, 10, 3, 7], budget=150) == [(0, 2), (2, 4)]
    assert chunks_of([5, 10, 3, 7], budget=149) == [(0, 1), (1, 3), (3, 4)]
    assert chunks_of([0, 0, 10, 0], budget=100) == [(0, 4)]
    assert chunks_of([]) == []


def test_rows_on_both_sides_of_a_gap_are_never_computed_together() -> None:
    sizes = [(row, RowSize(1)) for row in (0, 1, 4, 5, 7)]
    assert cut(sizes, 9) == [(0, 2), (4, 6), (7, 8)]


@given(SIZES, st.integers(1, 9), LIMIT, LIMIT)
def test_chunks_hold_every_row_once_within_the_limits(
    sizes: list[RowSize], most: int, tokens: int | None, budget: int | None
) -> None:
    chunks = cut(enumerate(sizes), most, tokens=tokens, budget=budget)
    assert [row for chunk in chunks for row in range(*chunk)] == list(range(len(sizes)))
    for start, stop in chunks:
        some = sizes[start:stop]
        assert 1 <= len(some) <= most
        if len(some) > 1:
            assert tokens is None or len(some) * max(size.tokens for size in some) <= tokens
            assert budget is None or sum(size.cost for size in some) <= budget


@given(SIZES, st.integers(1, 9), LIMIT, LIMIT, st.data())
def test_the_chunks_that_are_left_are_cut_again_the_same_way(
    sizes: list[RowSize], most: int, tokens: int | None, budget: int | None, data: st.DataObject
) -> None:
    """Workers finish in any order, and any of them may be killed."""
    chunks = cut(enumerate(sizes), most, tokens=tokens, budget=budget)
    left = [chunk for chunk in chunks if data.draw(st.booleans())]
    rows = [(row, sizes[row]) for chunk in left for row in range(*chunk)]
    assert cut(rows, most, tokens=tokens, budget=budget) == left


@pytest.mark.parametrize("replicas", [False, True])
def test_one_process_computes_the_chunks_in_order(llada: NativeDenoiser, replicas: bool) -> None:
    def compute(denoiser: Denoiser, start: int) -> Lines:
        assert denoiser is llada
        return [[{"from": start}], [{"from": start + 1}]]

    model = Replicas(llada, others=(llada,)) if replicas else llada
    chunks = [Chunk(0, 2), Chunk(2, 4), Chunk(6, 8)]
    results = list(Local(model).results(ChunkedWork(chunks, lambda c: c.start, compute)))
    assert results == [(c, [[{"from": c.start}], [{"from": c.start + 1}]]) for c in chunks]


def test_a_token_meets_the_experts_that_are_chosen_for_it() -> None:
    """Each of 8 experts has 2 x 3 x 4 + 4 x 3 = 36 parameters; 2 are chosen, the gate has 32."""
    experts = Experts(SoftmaxRouter(4, 8, 2), 8, 4, 3)
    assert num_active(experts) == 2 * 36 + 32


def test_the_budget_is_a_minute_of_the_devices_rate(llada: Denoiser) -> None:
    size = sum(parameter.numel() for parameter in llada.model.parameters())  # type: ignore[attr-defined]
    assert work_budget(llada) == int(SECONDS * RATES["cpu"] / (2 * size))


def test_a_model_from_outside_has_no_known_size() -> None:
    assert work_budget(ScriptedDenoiser.from_table(torch.zeros(4, 262))) is None


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_kind_of_device_has_a_rate(device: str) -> None:
    assert RATES[device] > 0
