"""The editor's agreement, by hand, against the contract, and block by block."""

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from wrapped import Twice

import remask
from remask.baselines.editor import EditorAgreement
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.llada2 import LLaDA2, LLaDA2Config
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.tokenizer import Tokenizer
from remask.denoisers.wrap import Counted, Replicas
from remask.errors import DenoiserError, InputError
from remask.probes.scorer import DiSE
from remask.sampling import batches
from remask.sampling.editing import edit
from remask.sampling.settings import EditSettings
from remask.testing import check_scorer
from remask.values import Canvas, Sample

Answer = Callable[..., Sample]
ByPlace = Callable[[Sequence[Mapping[str, float]]], Denoiser]
BLOCK = 4


@pytest.fixture(scope="module")
def llada2(tokenizer: Tokenizer) -> NativeDenoiser:
    """Return a block-causal model of two layers with random weights."""
    config = LLaDA2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, intermediate_size=48, first_k_dense_replace=1, num_experts=8,
        num_experts_per_tok=2, num_shared_experts=1, moe_intermediate_size=16, n_group=4,
        topk_group=2, vocab_size=int(tokenizer.backend.get_vocab_size()), rope_theta=1e4,
        max_position_embeddings=64, use_bias=False, block_size=BLOCK,
    )  # fmt: skip
    network = LLaDA2(config).requires_grad_(False)
    generator = torch.Generator().manual_seed(3)
    for parameter in network.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.copy_(noise / 4 if parameter.dim() > 1 else 1 + 0.1 * noise)
    return NativeDenoiser(name="random", model=network, tokenizer=tokenizer, preset=Preset())


def test_the_editor_is_offered_by_the_package() -> None:
    assert remask.EditorAgreement is EditorAgreement
    assert "EditorAgreement" in remask.__all__


def test_the_editor_counts_the_tokens_it_would_write_again(
    by_place: ByPlace, answer: Answer
) -> None:
    """Of `ab` and its end it keeps `a` (.6) and the end (.9), not `b` (.2); the tail is not read.

    2/3 agree, with a mean probability of (.6 + .2 + .9) / 3.
    """
    model = by_place([{"a": 0.6, "x": 0.4}, {"b": 0.2, "x": 0.8}, {".": 0.9, "x": 0.1}, {"x": 1.0}])
    (score,) = EditorAgreement(denoiser=model).score([answer("ab..")])
    assert score.value == pytest.approx(2 / 3)
    told = {"editor_agreement": 2 / 3, "editor_probability": 1.7 / 3}
    assert score.by_metric == pytest.approx(told)


def test_the_mask_token_is_no_rival(by_place: ByPlace, answer: Answer) -> None:
    """`_` would win with .5; without it `a` has .3 / .5."""
    model = by_place([{"_": 0.5, "a": 0.3, "x": 0.2}])
    (score,) = EditorAgreement(denoiser=model).score([answer("a")])
    assert score.by_metric == pytest.approx({"editor_agreement": 1, "editor_probability": 0.6})


def test_an_answer_costs_one_forward_pass(llada: NativeDenoiser, answer: Answer) -> None:
    counted = Counted(llada)
    scores = EditorAgreement(denoiser=counted).score([answer("abc"), answer("d")])
    assert [score.forwards for score in scores] == [1, 1]
    assert counted.forwards == 2
    (dear,) = EditorAgreement(denoiser=Twice(llada)).score([answer("abc")])
    assert dear.forwards == 2


def test_the_editor_keeps_the_contract(
    llada: NativeDenoiser, llada2: NativeDenoiser, answer: Answer
) -> None:
    samples = [answer("abcdefg."), answer("xy", prompt="longer"), answer("1234567", prompt="pp")]
    for model in (llada, llada2):
        check_scorer(EditorAgreement(denoiser=model), samples)


def logits(model: Denoiser, tokens: Sequence[int]) -> Tensor:
    """Return the logits of one row, (L, V), without the mask token's."""
    row = torch.tensor([tokens])
    canvas = Canvas(tokens=row, canvas=torch.ones_like(row, dtype=torch.bool), attend=None)
    out = model.head(model.hidden(canvas)[0])
    out[:, model.tokenizer.mask_id] = -torch.inf
    return out


def test_one_pass_judges_every_block_as_a_pass_of_its_own_would(
    llada2: NativeDenoiser, answer: Answer
) -> None:
    """What follows a block is cut off in the one case and out of sight in the other."""
    sample = answer("abcdefghijk", prompt="pqr")  # a first block shared with the prompt
    row = [*sample.prompt, *sample.canvas, llada2.tokenizer.eos_id, llada2.tokenizer.eos_id]
    found = []
    for end in range(BLOCK, len(row) + 1, BLOCK):
        found.append(logits(llada2, row[:end])[-BLOCK:])
    apart = torch.cat(found)  # (L, V)
    torch.testing.assert_close(logits(llada2, row), apart, rtol=1e-5, atol=1e-5)
    here = slice(len(sample.prompt), len(sample.prompt) + sample.num_response)
    tokens = torch.tensor(row)[here]
    agreeing = (apart[here].argmax(1) == tokens).float().mean().item()
    probs = apart[here].softmax(1).gather(1, tokens[:, None]).mean().item()
    (score,) = EditorAgreement(denoiser=llada2).score([sample])
    assert score.by_metric == pytest.approx(
        {"editor_agreement": agreeing, "editor_probability": probs}, abs=1e-6
    )


def test_the_last_block_is_read_whole(llada2: NativeDenoiser, answer: Answer) -> None:
    """A canvas that ends within a block is read with the tail that fills it."""
    short = answer("abcdefghi", prompt="pqr1")
    eos_id = llada2.tokenizer.eos_id
    tail = [eos_id] * (-(4 + 9) % BLOCK)
    longer = replace(short, canvas=(*short.canvas, *tail))
    scorer = EditorAgreement(denoiser=llada2)
    assert scorer.score([short]) == scorer.score([longer])


def test_a_text_that_was_edited_until_it_rests_has_full_agreement(llada2: NativeDenoiser) -> None:
    """With an edit threshold of 0 the last pass saw its own argmax everywhere.

    Random weights seldom come to rest; a head that leans towards the token in its place does.
    """
    network = copy.deepcopy(llada2.model)
    assert network.unembedding is not None
    network.unembedding.weight.add_(network.embedding.weight, alpha=2.0)
    model = replace(llada2, model=network)
    settings = EditSettings(reveal_threshold=0.5, edit_threshold=0.0, post_steps=16)
    prompts = [(50 + number, 90, 61, 70) for number in range(16)]
    blank = [[llada2.tokenizer.mask_id] * BLOCK] * len(prompts)
    canvas = Canvas.of(prompts, blank, 0, llada2.device)
    done = edit(model, canvas, settings, within=canvas.canvas)
    rows = zip(prompts, done.tokens[:, BLOCK:].tolist(), strict=True)
    samples = [
        Sample(item="i", prompt=prompt, canvas=tuple(tokens), num_response=BLOCK, text="a")
        for prompt, tokens in rows
    ]
    scores = EditorAgreement(denoiser=model).score(samples)
    resting = (done.steps.amax(1) < done.forwards - 1).tolist()
    assert 3 <= sum(resting) < len(resting)
    for rests, score in zip(resting, scores, strict=True):
        assert (score.value == 1.0) == rests


def test_nan_logits_are_an_error_and_not_a_score(
    scripted: Callable[..., Denoiser], answer: Answer
) -> None:
    model = scripted(lambda canvas: torch.full((*canvas.tokens.shape, 259), torch.nan))
    with pytest.raises(DenoiserError, match="finite, got NaN"):
        EditorAgreement(denoiser=model).score([answer("ab")])


def test_a_row_beyond_the_context_is_refused(llada2: NativeDenoiser, answer: Answer) -> None:
    with pytest.raises(InputError, match="more than the 64"):
        EditorAgreement(denoiser=llada2).score([answer("a" * 64)])


@pytest.mark.parametrize("scorer", [EditorAgreement, DiSE])
def test_replicas_share_the_batches(
    llada: NativeDenoiser, answer: Answer, scorer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each replica works, and the scores are those of one device."""
    both = threading.Barrier(2, timeout=60)

    @dataclass(frozen=True, eq=False)
    class Waiting(Counted):
        def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
            both.wait()  # passes only if two replicas work at once
            return super().hidden(canvas, cache)

    replicas = [Waiting(llada), Waiting(llada)]
    samples = [answer("a" * 60, item=str(n)) for n in range(2)]
    model = Replicas(replicas[0], others=(replicas[1],))
    monkeypatch.setattr(batches, "token_budget", lambda device: 1)  # one row fills a batch
    assert scorer(denoiser=model).score(samples) == scorer(denoiser=llada).score(samples)
    assert [replica.forwards for replica in replicas] == [1, 1]
