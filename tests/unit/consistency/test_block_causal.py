"""A block-causal model is written and rebuilt block by block; blocks begin with the row."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from wrapped import Twice

from remask import rng
from remask.consistency.roundtrips import (
    independent_masks,
    linear_schedule,
    round_trips,
    steps_at_once,
)
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted, Suppressed
from remask.errors import InputError, SettingsError
from remask.sampling.blocks import block_numbers
from remask.sampling.loop import Denoised, denoise
from remask.sampling.sampler import sample
from remask.sampling.schedule import even_schedule
from remask.sampling.settings import SamplerSettings
from remask.values import Canvas, Sample

PROMPTS = ([40, 41, 42, 43, 44, 45], [50, 51, 52], [60, 61, 62, 63])
SETTINGS = SamplerSettings(length=8, steps=8, block=4)
TRIPS = ConsistencySettings(trips=2, rebuild_steps=3)


@pytest.fixture
def model(block_causal: NativeDenoiser) -> NativeDenoiser:
    return block_causal


class Tight(Counted):
    """A context of 63 tokens."""

    max_length = 63


def samples(model: Denoiser, prompts: Sequence[list[int]] = PROMPTS) -> list[Sample]:
    return sample(model, prompts, SETTINGS, items=[str(p[0]) for p in prompts])


def logits(model: NativeDenoiser, row: Sequence[int]) -> Tensor:
    """Return the logits of one row, (L, V)."""
    tokens = torch.tensor([row])
    canvas = Canvas(tokens=tokens, canvas=torch.ones_like(tokens, dtype=torch.bool), attend=None)
    return model.head(model.hidden(canvas)[0])


def test_blocks_begin_with_the_canvas_or_with_the_row() -> None:
    """A prompt of 3, a canvas of 5. Blocks of 4 from the canvas: 4 and 1; from the row: 1 and 4."""
    canvas = Canvas.of([[9] * 3, [9] * 4], [[8] * 5, [8] * 2], 0, torch.device("cpu"))
    assert block_numbers(canvas, 4, None).tolist() == [
        [-1, -1, -1, 0, 0, 0, 0, 1],
        [-1, -1, -1, -1, 0, 0, -1, -1],
    ]
    assert block_numbers(canvas, 4, 4).tolist() == [
        [-1, -1, -1, 0, 1, 1, 1, 1],
        [-1, -1, -1, -1, 0, 0, -1, -1],
    ]


def test_every_block_is_the_argmax_given_what_was_written_before_it(model: NativeDenoiser) -> None:
    """One step per block: each token is the best one where its block is blank, its cache written.

    The prompt has 6 tokens, so blocks of the canvas of 8 end with positions 7, 11 and 15: the last
    is written whole, although the answer ends with position 13.
    """
    hurried = replace(SETTINGS, steps=2)
    [answer] = sample(wrapped(model)[0], [PROMPTS[0]], hurried, items=["a"])
    blank = model.tokenizer.mask_id
    row = [*PROMPTS[0], *[blank] * 10]
    for start, end in ((6, 8), (8, 12), (12, 16)):
        found = logits(model, row)
        found[:, [blank, *model.tokenizer.eos_ids]] = -torch.inf
        row[start:end] = found[start:end].argmax(-1).tolist()
    assert answer.canvas == tuple(row[6:14])


def test_answers_alone_equal_answers_together(model: NativeDenoiser) -> None:
    for prompt, together in zip(PROMPTS, samples(model), strict=True):
        [alone] = samples(model, [prompt])
        assert alone == replace(together, probs=alone.probs)
        assert alone.probs == pytest.approx(together.probs, abs=1e-5)  # experts see other batches


def test_round_trips_alone_equal_round_trips_together(model: NativeDenoiser) -> None:
    answers = samples(model)
    together = round_trips(model, answers, TRIPS)
    for answer, trips in zip(answers, together, strict=True):
        [alone] = round_trips(model, [answer], TRIPS)
        assert torch.equal(alone.rebuilt, trips.rebuilt)
        assert torch.equal(alone.masked, trips.masked)
        assert alone.logp == pytest.approx(trips.logp, abs=1e-5)
        assert alone.forwards == trips.forwards


def test_prompts_read_in_portions_give_what_they_give_at_once(
    model: NativeDenoiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompts fill 1, 0 and 1 blocks of 4: at once they are 3 rows, in portions 1, 1 and 1."""
    at_once, in_portions = Counted(model), Counted(model)
    answers = samples(at_once)
    trips = round_trips(at_once, answers, TRIPS)
    monkeypatch.setattr("remask.sampling.blocks.token_budget", lambda device: 4)
    again = samples(in_portions)
    assert (at_once.by_call[0], in_portions.by_call[:3]) == (3, [1, 1, 1])
    for one, other in zip(answers, again, strict=True):
        assert other == replace(one, probs=other.probs)
        assert other.probs == pytest.approx(one.probs, abs=1e-5)
    for one, other in zip(trips, round_trips(in_portions, answers, TRIPS), strict=True):
        assert torch.equal(one.rebuilt, other.rebuilt)
        assert other.logp == pytest.approx(one.logp, abs=1e-5)
        assert other.forwards == one.forwards
    assert in_portions.forwards == at_once.forwards


def test_a_block_takes_no_more_steps_than_it_has_positions(model: NativeDenoiser) -> None:
    """A canvas of 8 after 4 tokens is 2 blocks of 4, all masked: each takes 4 steps, however many
    there may be, and to keep the prompt and the first block takes a pass each.
    """
    answers = samples(model, PROMPTS[2:])
    counted = Counted(model)
    settings = ConsistencySettings(mask_ratio=1.0, trips=1, rebuild_steps=16)
    [many] = round_trips(counted, answers, settings)
    [few] = round_trips(model, answers, replace(settings, rebuild_steps=4))
    assert many.forwards == few.forwards == counted.forwards == 2 * 4 + 2
    assert torch.equal(many.rebuilt, few.rebuilt)
    assert many.confidence == few.confidence


@pytest.mark.parametrize(
    ("block_size", "steps"), [(None, 16), (32, 16), (16, 16), (8, 8), (4, 4), (1, 1)]
)
def test_only_blocks_that_are_shorter_than_the_steps_take_fewer(
    block_size: int | None, steps: int
) -> None:
    assert steps_at_once(ConsistencySettings(), block_size) == steps


def test_every_block_of_a_rebuild_takes_its_own_steps(model: NativeDenoiser) -> None:
    """A canvas of 8 after 6 tokens lies in blocks of 2, 4 and 2 tokens and a tail of 2, all masked.

    Of three steps the first block needs two, since 2 tokens leave 1 and then none; the others need
    all. The prompt fills a block, which is read once; the first and the middle block are, when they
    are finished: 2 trips x (1 + 2 + 1 + 3 + 1 + 3) = 22 forwards.
    """
    text = Sample(
        item="a", prompt=tuple(PROMPTS[0]), canvas=tuple(range(70, 78)), num_response=8, text=""
    )
    [trips] = round_trips(model, [text], replace(TRIPS, mask_ratio=1.0))
    assert trips.masked.all()
    assert trips.forwards == 22
    assert trips.masked.shape == trips.rebuilt.shape == (2, 8)  # without the tail
    assert not (trips.rebuilt == model.tokenizer.mask_id).any()


def test_what_comes_later_cannot_change_what_was_rebuilt(model: NativeDenoiser) -> None:
    """Two answers differ in their last block only, in tokens that are masked away."""
    one = Sample(
        item="a", prompt=tuple(PROMPTS[0]), canvas=tuple(range(70, 78)), num_response=8, text=""
    )
    other = replace(one, canvas=(*one.canvas[:6], 90, 91))
    settings = replace(TRIPS, mask_ratio=0.5)
    [first], [second] = (round_trips(model, [s], settings) for s in (one, other))
    assert torch.equal(first.masked, second.masked)
    assert torch.equal(first.rebuilt[:, :6], second.rebuilt[:, :6])


def whole_rows(
    denoiser: Denoiser,
    canvas: Canvas,
    settings: SamplerSettings | ConsistencySettings,
    keys: Tensor,
    watch: Tensor | None = None,
) -> Iterator[tuple[Tensor, Denoised]]:
    """Yield the blocks and what is written there by a loop that forgets: no cache, whole rows."""
    numbers = block_numbers(canvas, 4, 4)
    for block in range(int(numbers.max()) + 1):
        here = numbers == block
        if isinstance(settings, SamplerSettings):
            counts, steps, temperature = even_schedule, 4, settings.temperature
        else:
            counts, steps, temperature = linear_schedule, 3, settings.rebuild_temperature
        done = denoise(
            denoiser, canvas, counts, steps, within=here, temperature=temperature,
            keys=rng.fold_in(keys, block), watch=watch,
        )  # fmt: skip
        canvas = replace(canvas, tokens=done.tokens)
        yield here, done


def wrapped(model: NativeDenoiser) -> list[Denoiser]:
    # Without end tokens, so that no row leaves before its last block.
    endless = Suppressed(model, ids=model.tokenizer.eos_ids)
    return [endless, Twice(endless), Counted(endless)]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_past_writes_what_whole_rows_write(
    model: NativeDenoiser, kind: int, temperature: float
) -> None:
    """Canvases of 16 behind 6, 3 and 4 tokens are written to the end of a block: 18, 17 and 16."""
    denoiser = wrapped(model)[kind]
    settings = replace(SETTINGS, length=16, steps=16, temperature=temperature)
    answers = sample(denoiser, PROMPTS, settings, items=["a", "b", "c"])
    blank = [[model.tokenizer.mask_id] * num for num in (18, 17, 16)]
    canvas = Canvas.of(PROMPTS, blank, 0, model.device)
    keys = rng.keys(0, ["a", "b", "c"], "sample", 0, model.device)
    steps = torch.zeros(3, dtype=torch.long)
    for _, done in whole_rows(denoiser, canvas, settings, keys):
        steps += done.forwards
    for answer, row, prompt, num in zip(answers, done.tokens, PROMPTS, steps, strict=True):
        assert answer.canvas == tuple(row[len(prompt) : len(prompt) + 16].tolist())
        # One pass more for a whole block of the prompt, and for every block but the last.
        blocks = (len(prompt) + 15) // 4 - len(prompt) // 4 + 1
        kept = (len(prompt) >= 4) + blocks - 1
        assert answer.forwards == num + kept * denoiser.forwards_per_call


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_past_rebuilds_what_whole_rows_rebuild(
    model: NativeDenoiser, kind: int, temperature: float
) -> None:
    """Canvases of 16, 10 and 12 behind 6, 3 and 4 tokens: tails of 2, 3 and none end the blocks.

    A tail of EOS is masked with the rest and rebuilt; its confidence does not count.
    """
    denoiser = wrapped(model)[kind]
    settings = replace(TRIPS, rebuild_temperature=temperature, mask_ratio=0.7)
    lengths, tails = (16, 10, 12), (2, 3, 0)
    texts = [
        Sample(
            item=str(i), prompt=tuple(prompt), canvas=tuple(range(70, 70 + n)), num_response=n,
            text="",
        )
        for i, (prompt, n) in enumerate(zip(PROMPTS, lengths, strict=True))
    ]  # fmt: skip
    found = round_trips(denoiser, texts, settings)
    for text, trips, num_tail in zip(texts, found, tails, strict=True):
        tail = [model.tokenizer.eos_id] * num_tail
        canvas = Canvas.of([text.prompt] * 2, [[*text.canvas, *tail]] * 2, 0, model.device)
        response = canvas.canvas & (canvas.offsets < len(text.canvas))
        draws, keys = (
            torch.tensor([rng.key(0, text.item, f"{purpose}/0", trip) for trip in range(2)])
            for purpose in ("perturb", "rebuild")
        )
        masked = independent_masks(canvas, response, torch.full((2,), 0.7), draws)
        here = slice(len(text.prompt), len(text.prompt) + len(text.canvas))
        assert torch.equal(trips.masked, masked[:, here])
        tokens = canvas.tokens.masked_fill(masked, model.tokenizer.mask_id)
        seen, watched = torch.zeros(2, 2)
        blank = replace(canvas, tokens=tokens)
        for _, done in whole_rows(denoiser, blank, settings, keys, response):
            seen += done.confidence * done.watched
            watched += done.watched
        assert torch.equal(trips.rebuilt, done.tokens[:, here])
        assert trips.confidence == pytest.approx((seen / watched).tolist(), abs=1e-5)


def test_a_short_row_does_not_wait_for_the_past_of_a_long_one(model: NativeDenoiser) -> None:
    """A canvas of 2 behind 4 tokens: the prompt and three steps, 4 forwards, in any company.

    With the tail that ends its block it has 4 tokens, which take all of three steps.
    """
    short = Sample(item="a", prompt=(60, 61, 62, 63), canvas=(70, 71), num_response=2, text="")
    long = replace(short, item="b", canvas=tuple(range(70, 90)), num_response=20)
    settings = replace(TRIPS, mask_ratio=1.0, trips=1)
    for texts in ([short], [short, long]):
        assert round_trips(model, texts, settings)[0].forwards == 4


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_where_an_answer_is_cut_does_not_change_what_is_written(
    model: NativeDenoiser, temperature: float
) -> None:
    """8 and 12 tokens behind 6 both write the block from 12 to 16 whole; the first keep half."""
    endless = wrapped(model)[0]
    settings = replace(SETTINGS, temperature=temperature)
    [short] = sample(endless, [PROMPTS[0]], settings, items=["a"])
    [long] = sample(endless, [PROMPTS[0]], replace(settings, length=12, steps=12), items=["a"])
    assert len(short.canvas) == 8
    assert short.canvas == long.canvas[:8]
    assert short.steps == long.steps[:8]
    assert short.probs == pytest.approx(long.probs[:8], abs=1e-5)


def test_the_tail_that_ends_a_block_must_fit_the_context(model: NativeDenoiser) -> None:
    """A prompt of 54 and a canvas of 8 are 62 tokens, of 64 at most: they end a block at 64.

    In a context of 63 they do not.
    """
    prompt = [40] * 54
    [answer] = sample(model, [prompt], SETTINGS, items=["a"])
    tight = Tight(model)
    told = (
        "the prompt has 54 tokens and its answer room for 10, more than the 63 that random can hold"
    )
    with pytest.raises(InputError, match=told):
        sample(tight, [prompt], SETTINGS, items=["a"])
    with pytest.raises(InputError, match=told):
        round_trips(tight, [answer], TRIPS)


def test_other_blocks_than_the_models_are_refused(model: NativeDenoiser) -> None:
    with pytest.raises(SettingsError, match=r"block 8 is not that of random.* set block 4"):
        sample(model, [PROMPTS[0]], replace(SETTINGS, block=8), items=["a"])
