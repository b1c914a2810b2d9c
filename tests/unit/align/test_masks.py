"""Masked copies of completions: what may be masked, how often, and nothing of the neighbours."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remask.align.masks import Masks, draw_masks, mask_keys
from remask.align.method_settings import MaskSettings
from remask.denoisers.native import NativeDenoiser
from remask.errors import SettingsError
from remask.sampling.batches import finished_rows
from remask.values import Canvas, Sample

CPU = torch.device("cpu")


def rows(*shapes: tuple[int, int, int]) -> tuple[Canvas, Tensor]:
    """Return a batch of rows, each (tokens of the prompt, of the response, of the canvas)."""
    canvas = Canvas.of(
        [[7] * prompt for prompt, _, _ in shapes], [[8] * length for _, _, length in shapes], 0, CPU
    )
    ends = torch.tensor([response for _, response, _ in shapes])
    return canvas, canvas.canvas & (canvas.offsets < ends[:, None])


def draw(*shapes: tuple[int, int, int], start: int = 0, **settings: Any) -> Masks:
    keys = torch.arange(start, start + len(shapes)) * 7919
    return draw_masks(*rows(*shapes), MaskSettings(**settings), keys)


def test_full_masks_the_whole_response_and_the_tail() -> None:
    """Prompt of 2, response of 3, canvas of 5."""
    drawn = draw((2, 3, 5), mask_sampler="full", copies=1, prompt_mask_ratio=0)
    assert drawn.masked[0, 0].tolist() == [False, False, True, True, True, True, True]
    assert drawn.counted[0, 0].tolist() == [False, False, True, True, True, False, False]


def test_random_draws_the_number_then_the_places_uniformly() -> None:
    """Response of 3: 1, 2 or 3 tokens, a third each; so each single one and each pair has 1/9."""
    drawn = draw(*[(1, 3, 4)] * 9_000, mask_sampler="random", copies=1)
    shares = Counter(map(tuple, drawn.counted[0, :, 1:4].int().tolist()))
    assert shares.pop((1, 1, 1)) / 9_000 == pytest.approx(1 / 3, abs=0.02)
    assert len(shares) == 6
    assert all(n / 9_000 == pytest.approx(1 / 9, abs=0.015) for n in shares.values())


def test_the_prompt_is_masked_with_its_own_ratio_and_never_counted() -> None:
    drawn = draw(*[(50, 3, 4)] * 400, mask_sampler="random", prompt_mask_ratio=0.15)
    assert drawn.masked[..., :50].float().mean() == pytest.approx(0.15, abs=0.01)
    assert not drawn.counted[..., :50].any()


@pytest.mark.parametrize("sampler", ["block_all", "block_random"])
def test_blocks_before_the_active_one_are_mostly_shown_and_later_ones_are_not(sampler: str) -> None:
    """Blocks of 4 on a canvas of 12, all of it response: no block behind a masked one is shown."""
    drawn = draw(*[(2, 12, 12)] * 300, mask_sampler=sampler, block=4, prompt_mask_ratio=0)
    blocks = drawn.counted[..., 2:].unflatten(-1, (3, 4))  # (M, B, 3, 4)
    first = blocks.any(-1).int().argmax(-1)  # the active one
    later = torch.arange(3) > first[..., None]
    assert blocks[later].all()
    assert not blocks[torch.arange(3) < first[..., None]].any()
    assert set(first.flatten().tolist()) == {0, 1, 2}
    whole = blocks[torch.arange(3) == first[..., None]].all(-1)
    assert whole.all() if sampler == "block_all" else 0 < whole.float().mean() < 0.5


def test_copies_ask_about_different_blocks_while_there_are_enough() -> None:
    drawn = draw(*[(2, 12, 12)] * 50, mask_sampler="block_all", block=4, copies=3)
    later_tokens = drawn.counted[..., -1].sum(0)  # the last token is masked in every copy
    assert (later_tokens == 3).all()
    sizes = draw(
        *[(2, 12, 12)] * 50, mask_sampler="block_all", block=4, copies=3, prompt_mask_ratio=0
    ).counted.sum(-1)  # (M, B): 12, 8 and 4 in some order
    assert (sizes.sort(0).values == torch.tensor([[4], [8], [12]])).all()


def test_a_short_response_takes_the_shuffled_blocks_modulo_its_own() -> None:
    """Response of 5 in blocks of 4 on a canvas of 16: 4 blocks modulo 2, two copies of each."""
    drawn = draw(
        *[(1, 5, 16)] * 50, mask_sampler="block_all", block=4, copies=4, prompt_mask_ratio=0
    )
    assert (drawn.counted.sum(-1).sort(0).values == torch.tensor([[1], [1], [5], [5]])).all()


def test_the_number_masked_in_a_block_is_uniform() -> None:
    """A response that is one block of 4: 1 to 4 of it with a quarter each."""
    drawn = draw(*[(1, 4, 8)] * 8_000, mask_sampler="block_random", block=4, copies=1)
    shares = torch.bincount(drawn.counted[0].sum(-1), minlength=5) / 8_000
    assert shares.tolist() == pytest.approx([0, 0.25, 0.25, 0.25, 0.25], abs=0.02)


def test_tokens_of_earlier_blocks_count_unless_the_region_is_the_active_block() -> None:
    """Two blocks of 4: where the second is active, 15 per cent of the first counts too, or none."""
    shapes = [(1, 8, 8)] * 2_000
    settings: dict[str, Any] = {"mask_sampler": "block_random", "block": 4, "copies": 1}
    everywhere = draw(*shapes, **settings)
    active = draw(*shapes, **settings, loss_region="active_block")
    assert torch.equal(everywhere.masked, active.masked)
    second = ~active.counted[0, :, 1:5].any(-1)
    assert 0.4 < second.float().mean() < 0.6
    earlier = everywhere.counted[0, second, 1:5]
    assert earlier.float().mean() == pytest.approx(0.15, abs=0.02)
    assert everywhere.counted[0, ~second, 5:].all()
    assert not active.counted[0, ~second, 5:].any()


shapes = st.tuples(st.integers(1, 6), st.integers(1, 16), st.integers(0, 5)).map(
    lambda s: (s[0], s[1], max(8, s[1] + s[2]))
)


@given(
    st.lists(shapes, min_size=1, max_size=5),
    st.sampled_from(["full", "random", "block_all", "block_random"]),
    st.sampled_from(["all_masked", "active_block"]),
)
def test_what_always_holds(
    drawn_shapes: list[tuple[int, int, int]], sampler: str, region: str
) -> None:
    """Every copy counts a token; only response tokens count; the tail is masked, padding is not."""
    copies = 1 if sampler == "full" else 2
    canvas, response = rows(*drawn_shapes)
    drawn = draw(*drawn_shapes, mask_sampler=sampler, copies=copies, block=4, loss_region=region)
    assert drawn.counted.any(-1).all()
    assert not (drawn.counted & ~(drawn.masked & response)).any()
    assert drawn.masked[:, canvas.canvas & ~response].all()
    if canvas.attend is not None:
        assert not (drawn.masked & ~canvas.attend).any()


@given(
    st.lists(shapes, min_size=2, max_size=5),
    st.sampled_from(["random", "block_all", "block_random"]),
)
def test_a_row_alone_is_masked_as_in_a_batch(
    drawn_shapes: list[tuple[int, int, int]], sampler: str
) -> None:
    together = draw(*drawn_shapes, mask_sampler=sampler, block=4)
    for i, shape in enumerate(drawn_shapes):
        alone = draw(shape, start=i, mask_sampler=sampler, block=4)
        size = shape[0] + shape[2]
        assert torch.equal(alone.masked[:, 0], together.masked[:, i, :size])
        assert torch.equal(alone.counted[:, 0], together.counted[:, i, :size])


@pytest.mark.parametrize("sampler", ["random", "block_random"])
def test_copies_are_drawn_apart(sampler: str) -> None:
    first, second = draw(*[(40, 16, 16)] * 20, mask_sampler=sampler, block=4).masked
    assert (first[:, :40] != second[:, :40]).any(1).all()
    assert (first[:, 40:] != second[:, 40:]).any(1).float().mean() > 0.9


def test_no_global_generator_is_touched() -> None:
    before = torch.random.get_rng_state()
    draw((2, 9, 12), block=4)
    assert torch.equal(before, torch.random.get_rng_state())


def test_keys_differ_by_item_number_update_and_seed(answer: Callable[..., Sample]) -> None:
    samples = [answer("ab."), answer("ab.", item="other"), answer("ab.", number=1)]

    def keys(update: int, seed: int) -> list[int]:
        found: list[int] = mask_keys(samples, update=update, seed=seed, device=CPU).tolist()
        return found

    assert keys(0, 0) == keys(0, 0)
    assert len({*keys(0, 0), *keys(1, 0), *keys(0, 1)}) == 9


def test_a_response_ends_with_its_first_end_token(
    llada: NativeDenoiser, answer: Callable[..., Sample]
) -> None:
    canvas, response = finished_rows(llada, [answer("ab..", prompt="pq"), answer("abcd")])
    assert response.int().tolist() == [[0, 0, 1, 1, 1, 0], [0, 1, 1, 1, 1, 0]]
    assert canvas.tokens.shape == (2, 6)


def test_a_block_causal_model_is_masked_in_its_own_blocks() -> None:
    """Blocks of 4 from the first token: a prompt of 2 leaves 2 canvas tokens in the first of 3."""
    canvas, response = rows((2, 10, 10))
    settings = MaskSettings(mask_sampler="block_all", copies=3, prompt_mask_ratio=0)
    drawn = draw_masks(canvas, response, settings, torch.tensor([1]), row_block=4)
    assert sorted(drawn.counted.sum(-1).flatten().tolist()) == [4, 8, 10]


def test_more_copies_than_blocks_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"number of blocks \(2 of 4 tokens\), got 3"):
        draw((1, 8, 8), copies=3, block=4)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mask_sampler": "some"}, "mask_sampler must be full, random, block_all.*, got 'some'"),
        ({"loss_region": "all"}, "loss_region must be all_masked or active_block.*, got 'all'"),
        ({"copies": 0}, "copies must be at least 1, got 0"),
        ({"block": 0}, "block must be at least 1, got 0"),
        ({"prompt_mask_ratio": 1.0}, "prompt_mask_ratio must be below 1, got 1.0"),
        ({"mask_sampler": "full"}, "copies must be 1 with mask_sampler 'full', got 2"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        MaskSettings(**changes)
