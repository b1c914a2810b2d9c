"""Traces: worked by hand on scripted models, and the same in any company on random ones."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remask import api
from remask.denoisers import fast_dllm
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.tokenizer import Tokenizer
from remask.sampling import loop
from remask.sampling.loop import predict
from remask.sampling.sampler import sample, sample_rows
from remask.sampling.settings import Rule, SamplerSettings
from remask.testing import ScriptedDenoiser
from remask.values import Canvas, Sample, Trace

Ids = Callable[[str], tuple[int, ...]]
ByPlace = Callable[[Sequence[Mapping[str, float]]], Denoiser]
Scripted = Callable[[Callable[[Canvas], Tensor]], Denoiser]
PLACES: list[dict[str, float]] = [
    {"c": 0.5, "x": 0.3, "y": 0.2},
    {"a": 0.9, "x": 0.1},
    {"b": 0.7, "x": 0.3},
    {".": 0.8, "x": 0.2},
]
PROMPTS = ["ab", "a longer prompt", "x", "one of middling size"]


def entropy(*probs: float) -> float:
    return -sum(p * math.log(p) for p in probs)


H = [entropy(0.5, 0.3, 0.2), entropy(0.9, 0.1), entropy(0.7, 0.3), entropy(0.8, 0.2)]


def settings(length: int, **changes: Any) -> SamplerSettings:
    return SamplerSettings(**{"length": length, "steps": length, "block": length, **changes})


def write(model: Denoiser, how: SamplerSettings, prompts: Sequence[str] = "p") -> list[Sample]:
    encoded = [model.tokenizer.encode(prompt) for prompt in prompts]
    return sample(model, encoded, how, items=list(prompts), trace=True)


def traced(model: Denoiser, how: SamplerSettings) -> Trace:
    (answer,) = write(model, how)
    assert answer.trace is not None
    return answer.trace


def test_steps_are_taken_down_with_their_entropy(by_place: ByPlace, ids: Ids) -> None:
    """Places 1, 3, 2 and 0 are revealed in this order: the mean is over those still masked."""
    trace = traced(by_place(PLACES), settings(4))
    assert trace.entropy == pytest.approx(H)
    assert trace.tentative == (ids("cab."),) * 4
    means = [sum(H) / 4, (H[0] + H[2] + H[3]) / 3, (H[0] + H[2]) / 2, H[0]]
    assert trace.mean_entropy == pytest.approx(means)


def test_what_a_step_would_have_written_may_change(scripted: Scripted, ids: Ids) -> None:
    """Place 1 says `a` until place 0 holds `b`, and then `c`; what is revealed stays."""
    a, b, c = ids("abc")

    def script(canvas: Canvas) -> Tensor:
        logits = torch.zeros(*canvas.tokens.shape, 259)
        logits[:, 1, b] = 9.0
        logits[:, 2, a] = 8.0
        logits[:, 2, c] = 9.0 * (canvas.tokens[:, 1] == b)
        return logits

    assert traced(scripted(script), settings(2)).tentative == (ids("ba"), ids("bc"))


def test_what_is_masked_is_shown_as_likeliest_and_what_was_drawn_as_it_is(
    by_place: ByPlace,
) -> None:
    """At temperature 3 other tokens are drawn; they show once they are revealed."""
    model, how = by_place(PLACES), settings(4, temperature=3.0)
    (answer,) = write(model, how)
    assert answer.trace is not None
    assert answer.steps is not None
    (greedy,) = write(model, settings(4))
    assert answer.canvas != greedy.canvas
    for step, tokens in enumerate(answer.trace.tentative):
        shown = [
            final if step >= when or when < 0 else likeliest
            for final, likeliest, when in zip(
                answer.canvas, greedy.canvas, answer.steps, strict=True
            )
        ]
        assert list(tokens[: answer.num_response]) == shown[: answer.num_response]


def test_later_blocks_are_not_predicted_yet(by_place: ByPlace, ids: Ids) -> None:
    trace = traced(by_place(PLACES), settings(4, block=2))
    first, second = (*ids("ca"), -1, -1), ids("cab.")
    assert trace.tentative == (first, first, second, second)
    assert trace.mean_entropy == pytest.approx([(H[0] + H[1]) / 2, H[0], (H[2] + H[3]) / 2, H[2]])
    assert trace.entropy == pytest.approx(H)


def test_an_answer_that_ends_has_the_steps_it_took_part_in(by_place: ByPlace, ids: Ids) -> None:
    """It ends in the first of two blocks: `b` behind the end is thrown away, and its entropy."""
    places = [{"c": 0.9, "x": 0.1}, {".": 0.9, "x": 0.1}, {"b": 0.6, "x": 0.4}, {"d": 1.0}]
    trace = traced(by_place(places), settings(6, block=3))
    assert trace.entropy == pytest.approx((H[1], H[1], 0, 0, 0, 0))
    assert trace.tentative == ((*ids("c.b"), -1, -1, -1),) * 3
    assert len(trace.mean_entropy) == 3


def test_a_step_that_reveals_several_is_one_step(by_place: ByPlace) -> None:
    trace = traced(by_place(PLACES), settings(4, reveal_threshold=0.75))
    assert len(trace.tentative) == len(trace.mean_entropy) == 3
    assert trace.mean_entropy[1] == pytest.approx((H[0] + H[2]) / 2)


@pytest.mark.parametrize(
    "changes", [{"temperature": 2.0}, {"top_k": 1}, {"order": "maskgit_plus", "top_p": 0.5}]
)
def test_the_entropy_is_that_of_the_model(by_place: ByPlace, changes: dict[str, Any]) -> None:
    trace = traced(by_place(PLACES), settings(4, steps=1, **changes))
    assert trace.mean_entropy == pytest.approx([sum(H) / 4])


def test_the_mask_token_has_no_part_in_the_entropy(ids: Ids, scripted: Scripted) -> None:
    (a, b), (gap,) = ids("ab"), ids("_")

    def script(canvas: Canvas) -> Tensor:
        logits = torch.full((*canvas.tokens.shape, 259), -torch.inf)
        logits[..., [a, b]] = 1.0
        logits[..., gap] = 30.0
        return logits

    assert traced(scripted(script), settings(1)).entropy == pytest.approx([math.log(2)])


def test_sub_blocks_are_predicted_one_after_another(by_place: ByPlace, ids: Ids) -> None:
    trace = traced(by_place(PLACES), settings(4, sub_block=2))
    first, second = (*ids("ca"), -1, -1), ids("cab.")
    assert trace.tentative == (first, first, second, second)
    assert trace.entropy == pytest.approx(H)


def test_editing_shows_what_is_taken_back(scripted: Scripted, ids: Ids) -> None:
    """`a` is surely revealed, then edited to `b`; the last pass finds nothing masked, nor to edit.

    Pass 0 reveals place 0, pass 1 edits it and reveals the surer place 1, pass 2 place 2.
    """
    (a, b, c), (gap,) = ids("abc"), ids("_")

    def script(canvas: Canvas) -> Tensor:
        logits = torch.full((*canvas.tokens.shape, 259), -torch.inf)
        blank = canvas.tokens[:, 1] == gap
        logits[:, 1, a] = torch.where(blank, 0.0, -torch.inf)
        logits[:, 1, b] = torch.where(blank, -torch.inf, 0.0)
        logits[:, 2, [b, c]] = torch.tensor([0.4, 0.6]).log()
        logits[:, 3, [a, c]] = torch.tensor([0.5, 0.5]).log()
        return logits

    how = settings(3, reveal_threshold=0.9, edit_threshold=0.9)
    trace = traced(scripted(script), how)
    unsure, even = entropy(0.4, 0.6), math.log(2)
    assert trace.tentative == (ids("aca"), ids("bca"), ids("bca"), ids("bca"))
    assert trace.entropy == pytest.approx((0, unsure, even))
    assert trace.mean_entropy == pytest.approx(
        [(unsure + even) / 3, (unsure + even) / 2, even, (unsure + even) / 3]
    )


def test_blocks_of_a_row_may_begin_inside_the_prompt() -> None:
    """Blocks of 4, a prompt of 3: the canvas has 1 + 4 tokens, and 5 of the second block's 8."""
    table = torch.zeros(16, 262)
    for place in range(16):
        table[place, 70 + place] = 20.0
    model = replace(ScriptedDenoiser.from_table(table), block_size=4)
    (answer,) = sample(
        model, [[65, 66, 67]], settings(8, steps=8, block=4), items=["a"], trace=True
    )
    assert answer.trace is not None
    seen = [tuple(70 + place for place in range(3, 3 + n)) for n in (1, 5, 5, 5, 5, 8, 8, 8, 8)]
    assert list(answer.trace.tentative) == [(*row, *[-1] * (8 - len(row))) for row in seen]


@pytest.fixture(scope="module")
def shifted(tokenizer: Tokenizer) -> NativeDenoiser:
    """A Fast-dLLM v2 of two layers and blocks of 4, with random weights."""
    config: dict[str, Any] = {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "rms_norm_eps": 1e-6,
        "num_key_value_heads": 2, "intermediate_size": 24, "max_position_embeddings": 64,
        "vocab_size": int(tokenizer.backend.get_vocab_size()), "rope_theta": 100.0, "bd_size": 4,
        "tie_word_embeddings": True,
    }  # fmt: skip
    network = fast_dllm.FAMILY.build(config).requires_grad_(False)
    generator = torch.Generator().manual_seed(3)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, 0.5, generator=generator)
    return NativeDenoiser(name="random", model=network, tokenizer=tokenizer, preset=Preset())


WAYS = {
    "greedy": {},
    "drawn": {"temperature": 0.7},
    "origin": {"order": "origin"},
    "threshold": {"reveal_threshold": 0.3},
    "edited": {"reveal_threshold": 0.4, "edit_threshold": 0.3, "post_steps": 2},
    "sub-blocks": {"sub_block": 2, "steps": 12},
}


@pytest.mark.parametrize("family", ["llada", "block_causal", "shifted"])
@pytest.mark.parametrize("way", WAYS)
def test_a_trace_changes_nothing_and_depends_on_no_company(
    family: str, way: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(family)
    how = settings(12, **{"steps": 6, "block": 4, **WAYS[way]})
    prompts = [model.tokenizer.encode(prompt) for prompt in PROMPTS]
    plain = sample(model, prompts, how, items=PROMPTS)
    together = write(model, how, PROMPTS)
    assert together == plain
    assert [answer.trace for answer in plain] == [None] * 4
    for prompt, answer in zip(PROMPTS, together, strict=True):
        (alone,) = write(model, how, [prompt])
        assert answer.trace is not None
        assert alone.trace is not None
        assert alone.trace.tentative == answer.trace.tentative
        assert alone.trace.entropy == pytest.approx(answer.trace.entropy, abs=1e-4)
        assert alone.trace.mean_entropy == pytest.approx(answer.trace.mean_entropy, abs=1e-4)
        used = answer.num_response
        assert answer.trace.tentative[-1][:used] == answer.canvas[:used]
        assert all(answer.trace.entropy[:used])
        assert not any(answer.trace.entropy[used:])
        assert len(answer.trace.mean_entropy) == len(answer.trace.tentative) <= answer.forwards


def test_a_step_is_a_forward_where_the_model_keeps_no_cache(llada: Denoiser) -> None:
    answers = write(llada, settings(12, steps=6, block=4), PROMPTS)
    assert [len(a.trace.tentative) for a in answers if a.trace] == [a.forwards for a in answers]


def test_rows_with_their_own_numbers_have_traces(llada: Denoiser) -> None:
    prompt = llada.tokenizer.encode("ab")
    how = settings(4, resample_temperature=0.9)
    rows = sample_rows(llada, [prompt] * 2, how, items=["ab"] * 2, numbers=[0, 1], trace=True)
    assert [len(row.trace.tentative) for row in rows if row.trace is not None] == [4, 4]


def test_text_is_sampled_with_a_trace(llada: Denoiser) -> None:
    how = settings(4)
    (many,) = api.sample_many(llada, ["ab"], settings=how, trace=True)
    alone = api.sample(llada, "ab", settings=how, trace=True)
    assert alone.trace == many.trace is not None
    assert api.sample(llada, "ab", settings=how).trace is None


def test_a_trace_is_no_part_of_what_an_answer_says() -> None:
    bare = Sample(item="a", prompt=(1,), canvas=(2,), num_response=1, text="")
    trace = Trace(entropy=(0.5,), tentative=((2,),), mean_entropy=(0.5,))
    assert replace(bare, trace=trace) == bare
    assert "trace" not in repr(replace(bare, trace=trace))


def rows_of(values: Sequence[Sequence[float]]) -> tuple[ScriptedDenoiser, Tensor]:
    rows = torch.zeros(len(values), 262)
    rows[:, 100 : 100 + len(values[0])] = torch.tensor(values)
    return ScriptedDenoiser.from_table(rows), rows


@given(
    st.lists(st.lists(st.floats(-40, 40, width=32), min_size=3, max_size=3), min_size=1, max_size=5)
)
def test_entropies_are_those_of_the_softmax(values: list[list[float]]) -> None:
    model, rows = rows_of(values)
    truth = torch.zeros(len(rows), dtype=torch.long)
    got = predict(model, rows, truth, Rule(), None, entropy=True)
    odds = rows.double()
    odds[:, model.tokenizer.mask_id] = -torch.inf
    logp = odds.log_softmax(1).clamp(min=-1e9)
    torch.testing.assert_close(
        got.entropy, -(logp.exp() * logp).sum(1).float(), rtol=1e-4, atol=1e-6
    )
    plain = predict(model, rows, truth, Rule(), None)
    assert plain.entropy.shape == (0,)
    assert all(torch.equal(a, b) for a, b in zip(plain[:5], got[:5], strict=True))


def test_logits_in_parts_have_the_entropies_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = rows_of([[1.0, 2.0], [0.5, 0.1], [3.0, 9.0]])
    truth = torch.zeros(3, dtype=torch.long)
    whole = predict(model, rows, truth, Rule(), None, entropy=True).entropy
    monkeypatch.setattr(loop, "HEAD_ELEMENTS", 262 * 2)
    parts = predict(model, rows, truth, Rule(), None, entropy=True).entropy
    torch.testing.assert_close(parts, whole)
