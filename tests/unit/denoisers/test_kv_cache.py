"""The cache as a container: its room, its rows; what a model keeps there is tested with LLaDA2."""

import pytest
import torch

from remask.denoisers.kv_cache import KVCache, joined, room_for


def past_of(*rows: list[int]) -> KVCache:
    """Return the cache of rows of tokens, in two layers: the tokens, and ten times as much."""
    room = max(map(len, rows))
    tokens = torch.tensor([[*row, *[0] * (room - len(row))] for row in rows])[..., None, None]
    lengths = torch.tensor([len(row) for row in rows])
    return KVCache(layers=(tokens, 10 * tokens), lengths=lengths, columns=room)


def test_room_comes_in_portions_of_512_columns() -> None:
    assert [room_for(num) for num in (0, 1, 512, 513, 2048)] == [0, 512, 512, 1024, 2048]


def test_joined_pasts_have_the_rows_of_one_after_those_of_another() -> None:
    whole = joined([past_of([1, 2, 3], [4, 5]), past_of([6, 7, 8]), past_of([9], [1, 1, 1])])
    tokens = [[1, 2, 3], [4, 5, 0], [6, 7, 8], [9, 0, 0], [1, 1, 1]]
    assert whole.layers[0][..., 0, 0].tolist() == tokens
    assert torch.equal(whole.layers[1], 10 * whole.layers[0])
    assert whole.lengths.tolist() == [3, 2, 3, 1, 3]
    assert (whole.columns, whole.room) == (3, 3)


def test_a_joined_past_shares_no_memory_with_its_parts() -> None:
    part = past_of([1, 2])
    joined([part]).layers[0].zero_()
    assert part.layers[0].flatten().tolist() == [1, 2]


def test_pasts_of_different_room_do_not_join() -> None:
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        joined([past_of([1, 2]), past_of([1, 2, 3])])
