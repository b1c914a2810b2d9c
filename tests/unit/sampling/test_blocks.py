"""The walk through the blocks: what is shown of every row, kept of it, and charged to it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from wrapped import Twice

from remask.denoisers.wrap import Counted
from remask.sampling.batches import whole_length
from remask.sampling.blocks import BlockIterator, block_numbers, row_block
from remask.testing import ScriptedDenoiser
from remask.values import Canvas

CPU = torch.device("cpu")
MASK = 1
BLOCKY = ScriptedDenoiser(script=lambda tokens: torch.zeros(*tokens.shape, 262), block_size=4)


def walk_of(
    prompts: Sequence[list[int]], lengths: Sequence[int], denoiser: ScriptedDenoiser = BLOCKY
) -> BlockIterator:
    canvas = Canvas.of(prompts, [[MASK] * n for n in lengths], 0, CPU)
    return BlockIterator(denoiser, canvas, block_numbers(canvas, 4, denoiser.block_size))


def finish(walk: BlockIterator) -> list[Tensor]:
    """Write 100 + its number into every block; return the tokens shown before it was written."""
    shown = []
    for part in walk:
        shown.append(part.canvas.tokens)
        part.put(walk.tokens, torch.full_like(part.canvas.tokens, 100 + part.number))
    return shown


def test_each_row_is_shown_its_own_block_at_its_own_place() -> None:
    """Prompts of 6 and 3, canvases of 7: blocks of 4 end after columns 8, 12, 13 and 4, 8, 10.

    The last blocks have 1 and 2 columns of their rows; the others are padding.
    """
    walk = walk_of([[21, 22, 23, 24, 25, 26], [31, 32, 33]], [7, 7])
    parts = []
    for part in walk:
        parts.append(part)
        part.put(walk.tokens, part.canvas.tokens + 100)
    assert [part.starts.flatten().tolist() for part in parts] == [[4, 0], [8, 4], [12, 8]]
    first, second, last = parts
    assert first.canvas.tokens.tolist() == [[25, 26, MASK, MASK], [31, 32, 33, MASK]]
    assert first.within.int().tolist() == [[0, 0, 1, 1], [0, 0, 0, 1]]
    assert first.canvas.offsets.tolist() == [[-2, -1, 0, 1], [-3, -2, -1, 0]]
    assert second.canvas.offsets.tolist() == [[2, 3, 4, 5], [1, 2, 3, 4]]
    assert second.within.all()
    assert last.within.int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0]]
    assert last.canvas.attend is not None
    assert torch.equal(last.canvas.attend, last.within)
    assert walk.tokens.tolist() == [
        [21, 22, 23, 24, 25, 26, *[101] * 7],
        [31, 32, 33, *[101] * 7, 0, 0, 0],
    ]


def test_a_model_without_blocks_of_its_own_is_shown_whole_rows() -> None:
    plain = replace(BLOCKY, block_size=None)
    walk = walk_of([[21, 22], [31, 32]], [6, 6], plain)
    shown = finish(walk)
    assert [rows.tolist() for rows in shown] == [
        [[21, 22, *[MASK] * 6], [31, 32, *[MASK] * 6]],
        [[21, 22, *[100] * 4, MASK, MASK], [31, 32, *[100] * 4, MASK, MASK]],
    ]
    assert walk.cache is None
    assert walk.forwards.tolist() == [0, 0]


def test_what_is_kept_is_what_was_written() -> None:
    walk = walk_of([[21, 22, 23, 24, 25], [31]], [6, 6])
    finish(walk)
    assert walk.cache is not None
    assert walk.cache.lengths.tolist() == [8, 4]
    kept = walk.cache.layers[0][:, :8, 0, 0]
    assert kept[0].tolist() == [21, 22, 23, 24, 25, 100, 100, 100]
    assert kept[1, :4].tolist() == [31, 100, 100, 100]


def test_passes_that_keep_are_charged_to_the_rows_that_need_them() -> None:
    """A prompt of 5 fills a block: one pass; its canvas of 6 ends in the third block: one more.

    A prompt of 1 fills none and its canvas of 6 ends in the second block: one. A canvas of 3
    behind it needs nothing kept, however long its neighbours take.
    """
    walk = walk_of([[21, 22, 23, 24, 25], [31], [41]], [6, 6, 3])
    finish(walk)
    assert walk.forwards.tolist() == [2, 1, 0]
    for prompt, length, passes in (([21, 22, 23, 24, 25], 6, 2), ([31], 6, 1), ([41], 3, 0)):
        alone = walk_of([prompt], [length])
        finish(alone)
        assert alone.forwards.tolist() == [passes]


def test_two_passes_per_call_double_the_forwards() -> None:
    canvas = Canvas.of([[21, 22, 23, 24, 25]], [[MASK] * 6], 0, CPU)
    walk = BlockIterator(Twice(BLOCKY), canvas, block_numbers(canvas, 4, 4))
    finish(walk)
    assert walk.forwards.tolist() == [4]


def test_rows_that_begin_alike_are_read_in_one_pass() -> None:
    """Three rows, two prompts: 2 rows are passed for the prompts, then 3 for the first block."""
    counted = Counted(BLOCKY)
    prompts = [[21, 22, 23, 24, 25], [21, 22, 23, 24, 26], [31, 32, 33, 34, 35]]
    canvas = Canvas.of(prompts, [[MASK] * 4] * 3, 0, CPU)
    walk = BlockIterator(counted, canvas, block_numbers(canvas, 4, 4))
    shown = finish(walk)
    assert counted.by_call == [2, 3]
    assert shown[0][:, 0].tolist() == [25, 26, 35]
    assert walk.cache is not None
    assert walk.cache.layers[0][:, :4, 0, 0].tolist() == [p[:4] for p in prompts]
    assert walk.forwards.tolist() == [2, 2, 2]  # as if each had been alone


def test_prompts_are_read_in_portions_that_a_pass_can_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts fill up to 4 columns: of six rows five begin differently, and 8 tokens are two rows.

    One of the five fills no block; its row is padding. Then all six pass with their first block.
    """
    monkeypatch.setattr("remask.sampling.blocks.token_budget", lambda device: 8)
    counted = Counted(BLOCKY)
    prompts = [[61] * 5, [21] * 6, [41], [31] * 5, [21] * 5, [51] * 7]
    canvas = Canvas.of(prompts, [[MASK] * 4] * 6, 0, CPU)
    walk = BlockIterator(counted, canvas, block_numbers(canvas, 4, 4))
    shown = finish(walk)
    assert counted.by_call == [2, 2, 1, 6]
    assert shown[0][:, 0].tolist() == [61, 21, 41, 31, 21, 51]
    assert walk.cache is not None
    assert walk.cache.lengths.tolist() == [8, 8, 4, 8, 8, 8]
    assert walk.cache.layers[0][:, 0, 0, 0].tolist() == [61, 21, 41, 31, 21, 51]
    assert walk.forwards.tolist() == [2, 2, 1, 2, 2, 2]


def test_a_prompt_longer_than_the_budget_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remask.sampling.blocks.token_budget", lambda device: 3)
    counted = Counted(BLOCKY)
    canvas = Canvas.of([[21] * 9, [31] * 9], [[MASK] * 3] * 2, 0, CPU)
    finish(BlockIterator(counted, canvas, block_numbers(canvas, 4, 4)))
    assert counted.by_call == [1, 1]


def test_rows_leave_with_their_past() -> None:
    walk = walk_of([[21] * 5, [31] * 6, [41] * 7], [8, 8, 8])
    for part in walk:
        part.put(walk.tokens, torch.full_like(part.canvas.tokens, 100))
        if part.number == 0:
            walk.leave(torch.tensor([False, True, False]))
        else:
            assert part.rows.tolist() == [0, 2]
            assert part.cache is not None
            assert part.cache.layers[0][:, :4, 0, 0].tolist() == [[21] * 4, [41] * 4]
    assert walk.tokens[:, -6:].eq(MASK).sum(1).tolist() == [0, 6 - 1, 0]


def test_the_walk_ends_when_all_have_left() -> None:
    walk = walk_of([[21], [31]], [8, 8])
    numbers = []
    for part in walk:
        numbers.append(part.number)
        walk.leave(torch.tensor([True, True]))
    assert numbers == [0]
    assert walk.forwards.tolist() == [0, 0]


def test_of_shows_the_columns_of_the_block() -> None:
    walk = walk_of([[21] * 6, [31] * 3], [6, 6])
    whole = torch.arange(24).view(2, 12)
    (first, second) = ([*part.of(whole).tolist()] for part in walk if part.number < 2)
    assert first == [[4, 5, 6, 7], [12, 13, 14, 15]]
    assert second == [[8, 9, 10, 11], [16, 17, 18, 19]]


class Apart(ScriptedDenoiser):
    """One whose blocks begin with the answer."""

    answer_apart = True


def test_blocks_that_begin_with_the_answer_lie_at_its_multiples() -> None:
    """Prompts of 6 and 3, canvases of 8: blocks of 4 begin at columns 6, 10 and at 3, 7."""
    apart = Apart(script=BLOCKY.script, block_size=4)
    canvas = Canvas.of([[21, 22, 23, 24, 25, 26], [31, 32, 33]], [[MASK] * 8] * 2, 0, CPU)
    counted = Counted(apart)
    walk = BlockIterator(counted, canvas, block_numbers(canvas, 4, row_block(counted)))
    parts = []
    for part in walk:
        parts.append(part)
        part.put(walk.tokens, torch.full_like(part.canvas.tokens, 100 + part.number))
    assert [part.starts.flatten().tolist() for part in parts] == [[6, 3], [10, 7]]
    assert all(part.within.all() for part in parts)
    assert walk.tokens.tolist() == [
        [21, 22, 23, 24, 25, 26, *[100] * 4, *[101] * 4],
        [31, 32, 33, *[100] * 4, *[101] * 4, 0, 0, 0],
    ]
    # A pass over the prompts, shorter than a block or not, and one over the first block.
    assert walk.forwards.tolist() == [2, 2]
    assert (row_block(counted), row_block(BLOCKY)) == (None, 4)
    assert [whole_length(model, 6, 7) for model in (counted, BLOCKY)] == [8, 10]
