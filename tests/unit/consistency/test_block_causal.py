"""A block-causal model is written and rebuilt block by block; blocks begin with the row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from remask.consistency.cycle import ConsistencySettings, round_trips
from remask.denoisers import llada2
from remask.denoisers.base import Preset
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.tokenizer import Tokenizer
from remask.errors import SettingsError
from remask.sampling.sampler import SamplerSettings, block_numbers, sample
from remask.values import Canvas, Sample

PROMPTS = ([40, 41, 42, 43, 44, 45], [50, 51, 52], [60, 61, 62, 63])
SETTINGS = SamplerSettings(length=8, steps=8, block=4)
TRIPS = ConsistencySettings(trips=2, rebuild_steps=3)


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> NativeDenoiser:
    """A LLaDA2 of two layers and blocks of 4, with random weights."""
    config: dict[str, Any] = {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 24,
        "first_k_dense_replace": 1, "num_experts": 8, "num_experts_per_tok": 2,
        "num_shared_experts": 1, "moe_intermediate_size": 8, "n_group": 4, "topk_group": 2,
        "vocab_size": int(tokenizer.backend.get_vocab_size()), "rope_theta": 100.0,
        "max_position_embeddings": 64, "use_bias": False, "block_size": 4,
    }  # fmt: skip
    network = llada2.FAMILY.build(config)
    generator = torch.Generator().manual_seed(5)
    for parameter in network.requires_grad_(False).parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, 0.5, generator=generator)
    return NativeDenoiser(name="random", model=network, tokenizer=tokenizer, preset=Preset())


def samples(model: NativeDenoiser, prompts: Sequence[list[int]] = PROMPTS) -> list[Sample]:
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
    """One step per block: each token is the best one where its block is blank, its past written.

    The prompt has 6 tokens, so blocks of the canvas of 8 end with positions 7, 11 and 13.
    """
    hurried = replace(SETTINGS, steps=2)
    [answer] = sample(model, [PROMPTS[0]], hurried, items=["a"])
    blank = model.tokenizer.mask_id
    row = [*PROMPTS[0], *[blank] * 8]
    for start, end in ((6, 8), (8, 12), (12, 14)):
        found = logits(model, row)
        found[:, blank] = -torch.inf
        row[start:end] = found[start:end].argmax(-1).tolist()
        if set(row[start:end]) & set(model.tokenizer.eos_ids):
            break
    assert answer.canvas[: answer.num_response] == tuple(row[6 : 6 + answer.num_response])


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


def test_every_block_of_a_rebuild_takes_its_own_steps(model: NativeDenoiser) -> None:
    """A canvas of 8 after 6 tokens lies in blocks of 2, 4 and 2 tokens, all masked.

    Of three steps the first and the last block need two, since 2 tokens leave 1 and then none; the
    middle one needs all: 2 trips x (2 + 3 + 2) = 14 forwards.
    """
    text = Sample(
        item="a", prompt=tuple(PROMPTS[0]), canvas=tuple(range(70, 78)), num_response=8, text=""
    )
    [trips] = round_trips(model, [text], replace(TRIPS, mask_ratio=1.0))
    assert trips.masked.all()
    assert trips.forwards == 14
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


def test_other_blocks_than_the_models_are_refused(model: NativeDenoiser) -> None:
    with pytest.raises(SettingsError, match=r"block 8 is not that of random.* set block 4"):
        sample(model, [PROMPTS[0]], replace(SETTINGS, block=8), items=["a"])
