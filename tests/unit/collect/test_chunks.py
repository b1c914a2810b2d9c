"""Chunks: every row once, in order, within the budget; and one process that does them."""

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from remask.collect.chunks import Chunk, cut, cut_by_tokens
from remask.collect.engine import ChunkedWork, Local, Shards
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Replicas
from remask.records.jsonl import Row

LENGTHS = st.lists(st.integers(0, 50), max_size=40)


def spent(chunks: Sequence[Chunk], lengths: Sequence[int], start: int) -> list[int]:
    """Return the tokens of each chunk, padded to its longest row."""
    rows = [lengths[p.start - start : p.stop - start] for p in chunks]
    return [len(some) * max(some) for some in rows]


def test_a_chunk_is_closed_before_the_row_that_would_exceed_the_budget() -> None:
    """Budget 20: 5 and 10 take 2 x 10; 3 with them 30. 3 and 7: 14, with 9 it would be 27."""
    assert cut_by_tokens(4, [5, 10, 3, 7, 9], 20, 99) == [(4, 6), (6, 8), (8, 9)]
    assert cut_by_tokens(0, [1, 1, 1], 20, 2) == [(0, 2), (2, 3)]
    assert cut_by_tokens(0, [99, 1], 20, 9) == [(0, 1), (1, 2)], "a row too long goes alone"
    assert cut_by_tokens(7, [], 20, 9) == []
    assert cut(1, 8, 3) == [(1, 4), (4, 7), (7, 8)]


@given(LENGTHS, st.integers(1, 200), st.integers(1, 9), st.integers(0, 5))
def test_chunks_hold_every_row_once_and_keep_both_limits(
    lengths: list[int], budget: int, most: int, start: int
) -> None:
    chunks = cut_by_tokens(start, lengths, budget, most)
    rows = [row for p in chunks for row in range(p.start, p.stop)]
    assert rows == list(range(start, start + len(lengths)))
    for chunk, tokens in zip(chunks, spent(chunks, lengths, start), strict=True):
        size = chunk.stop - chunk.start
        assert 1 <= size <= most
        assert tokens <= budget or size == 1


@given(LENGTHS, st.integers(1, 200), st.integers(1, 9))
def test_cutting_again_from_the_end_of_any_chunk_makes_the_same_chunks(
    lengths: list[int], budget: int, most: int
) -> None:
    chunks = cut_by_tokens(0, lengths, budget, most)
    for number, chunk in enumerate(chunks):
        again = cut_by_tokens(chunk.start, lengths[chunk.start :], budget, most)
        assert again == chunks[number:]


def test_one_process_and_replicas_take_what_is_in_shards_and_work_the_rest(
    llada: NativeDenoiser, tmp_path: Path
) -> None:
    shards = Shards.of(tmp_path / "out.jsonl", {"seed": 0})
    shards.write((2, 4), [{"from": "shard"}])
    worked: list[int] = []

    def work(denoiser: Denoiser, start: int) -> list[Row]:
        worked.append(start)
        assert denoiser is llada
        return [{"from": start}]

    for model in (llada, Replicas(llada, others=(llada,))):
        worked.clear()
        results = list(
            Local(model).results(ChunkedWork(cut(0, 6, 2), lambda c: c.start, work, shards))
        )
        assert results == [[{"from": 0}], [{"from": "shard"}], [{"from": 4}]]
        assert sorted(worked) == [0, 4]
