"""Answers written a block at a time, in changing company, are those that `sample` writes."""

import math
from dataclasses import replace

import pytest

from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.errors import InputError, SettingsError
from remask.sampling.drafts import Draft, advance, begin, finished
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.values import Sample

HOW = SamplerSettings(length=12, steps=6, block=4, temperature=0.7)
PROMPTS = {"a": (9, 8, 7, 6, 5), "b": (11, 12), "c": (20, 21, 22, 23, 24, 25, 26, 27)}


def staggered(model: Denoiser, how: SamplerSettings, seed: int = 0) -> dict[str, Sample]:
    """Write the prompts together, each joining one block later than the one before."""
    waiting = [
        begin(model, prompt, how, item=item, number=1, seed=seed)
        for item, prompt in PROMPTS.items()
    ]
    under_way: list[Draft] = []
    done = {}
    while waiting or under_way:
        under_way += [waiting.pop(0)] if waiting else []
        under_way = advance(model, under_way)
        done |= {draft.item: finished(model, draft) for draft in under_way if draft.ended}
        under_way = [draft for draft in under_way if not draft.ended]
    return done


def together(model: Denoiser, how: SamplerSettings, seed: int = 0) -> dict[str, Sample]:
    prompts = list(PROMPTS.values())
    samples = sample(model, prompts, how, items=list(PROMPTS), number=1, seed=seed)
    return {written.item: written for written in samples}


def without_probs(samples: dict[str, Sample]) -> dict[str, Sample]:
    return {item: replace(written, probs=None) for item, written in samples.items()}


@pytest.mark.parametrize(
    "how",
    [
        HOW,
        replace(HOW, temperature=0.0),
        replace(HOW, length=4, steps=3),
        replace(HOW, order="random"),
        replace(HOW, order="origin"),
        replace(HOW, reveal_threshold=0.3),
        replace(HOW, commit_gap=0.3),
        replace(HOW, suppress_eos=True),
        replace(HOW, reveal_threshold=0.4, edit_threshold=0.3, post_steps=2),
    ],
    ids=[
        "drawn",
        "greedy",
        "one-block",
        "random",
        "origin",
        "threshold",
        "commit",
        "suppressed",
        "edited",
    ],
)
@pytest.mark.parametrize("family", ["llada", "block_causal"])
def test_rows_that_join_at_different_blocks_are_written_as_in_one_batch(
    family: str, how: SamplerSettings, request: pytest.FixtureRequest
) -> None:
    """Tokens, steps and forward passes are equal; probabilities up to the rounding of batches."""
    model: NativeDenoiser = request.getfixturevalue(family)
    ours, theirs = staggered(model, how, seed=3), together(model, how, seed=3)
    assert without_probs(ours) == without_probs(theirs)
    for item in PROMPTS:
        assert ours[item].probs == pytest.approx(theirs[item].probs, abs=1e-5)


def test_a_seed_of_its_own_is_kept_among_others(llada: NativeDenoiser) -> None:
    drafts = [begin(llada, PROMPTS["a"], HOW, item="a", number=1, seed=seed) for seed in (1, 2)]
    while not all(draft.ended for draft in drafts):
        drafts = [
            new if not old.ended else old
            for old, new in zip(drafts, advance(llada, drafts), strict=True)
        ]
    for draft, seed in zip(drafts, (1, 2), strict=True):
        assert finished(llada, draft).canvas == together(llada, HOW, seed=seed)["a"].canvas


def test_what_is_written_is_the_finished_blocks(llada: NativeDenoiser) -> None:
    draft = begin(llada, PROMPTS["a"], HOW, item="a")
    assert draft.written == ()
    (grown,) = advance(llada, [draft])
    assert grown.written == grown.canvas[:4]
    assert llada.tokenizer.mask_id not in grown.written


def test_the_first_block_of_a_block_causal_row_is_what_the_prompt_left_of_it(
    block_causal: NativeDenoiser,
) -> None:
    """A prompt of 5 ends one token into its second block of 4: 3 tokens of the canvas fill it."""
    draft = begin(block_causal, PROMPTS["a"], HOW, item="a")
    assert [draft.span(block) for block in range(4)] == [(0, 3), (3, 7), (7, 11), (11, 15)]
    assert len(draft.canvas) == 15


def test_a_row_that_does_not_fit_is_refused_at_once(llada: NativeDenoiser) -> None:
    long = SamplerSettings(length=600, steps=600, block=600)
    with pytest.raises(InputError, match="more than the 512"):
        begin(llada, PROMPTS["a"], long, item="a")


def test_another_block_than_the_models_is_refused(block_causal: NativeDenoiser) -> None:
    with pytest.raises(SettingsError, match="set block 4"):
        begin(block_causal, PROMPTS["a"], replace(HOW, block=6), item="a")


@pytest.mark.parametrize(
    "how",
    [HOW, replace(HOW, temperature=0.0), replace(HOW, commit_gap=0.3), replace(HOW, sub_block=2),
     replace(HOW, reveal_threshold=0.4, edit_threshold=0.3, post_steps=2)],
    ids=["drawn", "greedy", "commit", "nested", "edited"],
)  # fmt: skip
@pytest.mark.parametrize("family", ["llada", "block_causal"])
def test_the_likeliest_tokens_are_those_of_the_step_that_wrote_each(
    family: str, how: SamplerSettings, request: pytest.FixtureRequest
) -> None:
    """All of the vocabulary is noted, so that the written token is there with its probability."""
    model: NativeDenoiser = request.getfixturevalue(family)
    size, plain = model.vocab_size, begin(model, PROMPTS["b"], how, item="b", seed=3)
    drafts = [replace(plain, num_top=size, likeliest=((),) * len(plain.canvas)), plain]
    drafts.append(begin(model, PROMPTS["b"], how, item="b", seed=3, num_top=2))
    while not drafts[0].ended:
        drafts = advance(model, drafts)
    whole, alone, two = (finished(model, draft) for draft in drafts)
    assert whole == alone == two
    assert alone.likeliest == ()
    assert whole.steps is not None
    assert whole.probs is not None
    for place in range(whole.num_response):
        told = whole.likeliest[place]
        if whole.steps[place] < 0:
            continue
        assert [p for _, p in told] == sorted((p for _, p in told), reverse=True)
        assert sum(math.exp(p) for _, p in told) == pytest.approx(1, abs=1e-4)
        token = whole.canvas[place]
        assert math.exp(dict(told)[token]) == pytest.approx(whole.probs[place], abs=1e-5)
        assert model.tokenizer.mask_id not in dict(told)
        assert dict(two.likeliest[place]) == pytest.approx(dict(told[:2]), abs=1e-5)
