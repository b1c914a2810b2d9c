"""Every denoiser keeps the contract, and every way of breaking it is caught and named."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import normalizers, pre_tokenizers
from torch import Tensor
from wrapped import Twice

from remask.denoisers.base import Denoiser
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.load import load
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.tokenizer import Tokenizer
from remask.denoisers.wrap import Counted, Suppressed
from remask.testing import (
    ScriptedDenoiser,
    check_alignment,
    check_denoiser,
    tiny_tokenizer,
    write_checkpoint,
)
from remask.values import Canvas

Trunk = Callable[[Tensor, Tensor | None], Tensor]
WIDTH = 262
SENTENCE = "Round trips tell a right answer from a wrong one."


@dataclass(frozen=True, kw_only=True, eq=False)
class Rebuilt(NativeDenoiser):
    """A LLaDA with another trunk."""

    trunk: Trunk

    @torch.no_grad()
    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        return self.trunk(canvas.tokens, canvas.attend)


def parts(denoiser: NativeDenoiser) -> dict[str, Any]:
    return {name: getattr(denoiser, name) for name in ("name", "model", "tokenizer", "preset")}


@pytest.fixture(scope="module")
def llada(tmp_path_factory: pytest.TempPathFactory) -> NativeDenoiser:
    folder = write_checkpoint(tmp_path_factory.mktemp("llada"), dtype=torch.float32)
    denoiser = load(folder, device="cpu")
    assert isinstance(denoiser, NativeDenoiser)
    return replace(denoiser, name="broken")


def neighbourly(tokens: Tensor) -> Tensor:
    """Token t at place i adds t / (1 + distance) to one logit of every place, so ends see ends."""
    places = torch.arange(tokens.shape[1])
    near = 1.0 / (1.0 + (places[:, None] - places).abs())  # (L, L)
    told = (tokens.float() @ near) / 100.0  # (B, L)
    return torch.sin(told[:, :, None] * torch.arange(1.0, WIDTH + 1))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_llada_conforms(tmp_path: Path, kv_heads: int, tied: bool) -> None:
    folder = write_checkpoint(tmp_path, kv_heads=kv_heads, tied=tied, seed=kv_heads)
    check_denoiser(load(folder, device="cpu"))


def test_llada_conforms_in_half_precision(tmp_path: Path) -> None:
    check_denoiser(load(write_checkpoint(tmp_path), device="cpu", dtype="float16"))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda d: Twice(d),
        lambda d: Suppressed(d, ids=d.tokenizer.eos_ids),
        lambda d: Counted(d),
        lambda d: Counted(Suppressed(Twice(d), ids=(10,))),
    ],
)
def test_wrapped_denoisers_conform(
    llada: NativeDenoiser, wrap: Callable[[Denoiser], Denoiser]
) -> None:
    check_denoiser(wrap(llada))


def test_a_scripted_denoiser_conforms_where_its_script_looks_both_ways() -> None:
    check_denoiser(ScriptedDenoiser(script=neighbourly))


def test_a_table_knows_nothing_of_its_tokens_and_is_caught() -> None:
    with pytest.raises(AssertionError, match="no earlier position sees the last token"):
        check_denoiser(ScriptedDenoiser(script=lambda t: torch.zeros(*t.shape, WIDTH)))


def nan(model: Trunk) -> Trunk:
    return lambda tokens, attend: model(tokens, attend) * torch.nan


def infinite(model: Trunk) -> Trunk:
    return lambda tokens, attend: model(tokens, attend) * 1e38 * 1e38


def blind_to_padding(model: Trunk) -> Trunk:
    return lambda tokens, attend: model(tokens, None)


def causal(model: Trunk) -> Trunk:
    def forward(tokens: Tensor, attend: Tensor | None) -> Tensor:
        ends = range(1, tokens.shape[1] + 1)
        kept = [None if attend is None else attend[:, :end] for end in ends]
        last = [model(tokens[:, :end], a)[:, -1] for end, a in zip(ends, kept, strict=True)]
        return torch.stack(last, 1)

    return forward


def anticausal(model: Trunk) -> Trunk:
    def forward(tokens: Tensor, attend: Tensor | None) -> Tensor:
        starts = range(tokens.shape[1])
        kept = [None if attend is None else attend[:, start:] for start in starts]
        first = [model(tokens[:, s:], a)[:, 0] for s, a in zip(starts, kept, strict=True)]
        return torch.stack(first, 1).nan_to_num()

    return forward


def mixing_rows(model: Trunk) -> Trunk:
    def forward(tokens: Tensor, attend: Tensor | None) -> Tensor:
        hidden = model(tokens, attend)
        return hidden + 0.01 * hidden.mean(0, keepdim=True)

    return forward


def fickle(model: Trunk) -> Trunk:
    calls = []

    def forward(tokens: Tensor, attend: Tensor | None) -> Tensor:
        calls.append(1)
        return model(tokens, attend) * (1 + 1e-3 * len(calls))

    return forward


def one_short(model: Trunk) -> Trunk:
    return lambda tokens, attend: model(tokens, attend)[:, :-1]


def looking_ahead(model: Trunk) -> Trunk:
    """Row i predicts token i - 1: the shift undone in the wrong direction, or once too often."""
    return lambda tokens, attend: model(tokens, attend).roll(-1, 1)


def wrapped_around(model: Trunk) -> Trunk:
    """Row i predicts token i + 1, with the last row at the first place."""
    return lambda tokens, attend: model(tokens, attend).roll(1, 1)


def test_an_unbroken_trunk_passes(llada: NativeDenoiser) -> None:
    """The harness of the next test is not itself what is caught."""
    check_denoiser(Rebuilt(**parts(llada), trunk=llada.model.states))


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (nan, "logits hold NaN"),
        (infinite, "logits hold (NaN|plus infinity)"),
        (blind_to_padding, "padding a row of 5 to 12 moves logits"),
        (causal, "no earlier position sees the last token: attention is causal"),
        (anticausal, "no later position sees the first token"),
        (mixing_rows, "a row alone and in a batch differ"),
        (fickle, "the same input twice gives two results"),
        (one_short, r"hidden of \(2, 8\) tokens is \(2, 7, 32\)"),
        (looking_ahead, "padding a row of 5 to 12 moves logits"),
        (wrapped_around, "padding a row of 5 to 12 moves logits"),
    ],
)
def test_a_broken_trunk_is_caught_and_named(
    llada: NativeDenoiser, broken: Callable[[Trunk], Trunk], told: str
) -> None:
    with pytest.raises(AssertionError, match=f"^broken: {told}"):
        check_denoiser(Rebuilt(**parts(llada), trunk=broken(llada.model.states)))


class HalfHead(NativeDenoiser):
    def head(self, rows: Tensor) -> Tensor:
        return super().head(rows).half()


class NarrowHead(NativeDenoiser):
    def head(self, rows: Tensor) -> Tensor:
        return super().head(rows)[:, :-1]


class HopelessHead(NativeDenoiser):
    def head(self, rows: Tensor) -> Tensor:
        return torch.full_like(super().head(rows), -torch.inf)


class MixingHead(NativeDenoiser):
    def head(self, rows: Tensor) -> Tensor:
        return super().head(rows - rows.mean(0))


class PlacedEmbedding(NativeDenoiser):
    def embed(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.numel()).view(*tokens.shape, 1)
        return super().embed(tokens) + places


class FlatEmbedding(NativeDenoiser):
    def embed(self, tokens: Tensor) -> Tensor:
        return super().embed(tokens).mean(-1)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (HalfHead, r"logits are torch\.float16, not float32"),
        (NarrowHead, r"logits are \(16, 261\), not \(16, 262\)"),
        (HopelessHead, "a row of logits allows no token"),
        (MixingHead, "head mixes rows"),
        (PlacedEmbedding, "embed depends on more than the token"),
        (FlatEmbedding, r"embed of \(2, 3\) tokens is \(2, 3\)"),
    ],
)
def test_a_broken_head_or_embedding_is_caught_and_named(
    llada: NativeDenoiser, kind: type[NativeDenoiser], told: str
) -> None:
    with pytest.raises(AssertionError, match=f"^broken: {told}"):
        check_denoiser(kind(**parts(llada)))


class LendingDenoiser(ScriptedDenoiser):
    def head(self, rows: Tensor) -> Tensor:
        return rows


def test_a_head_that_lends_its_hidden_states_is_caught() -> None:
    with pytest.raises(AssertionError, match="writing into logits changes the hidden states"):
        check_denoiser(LendingDenoiser(script=neighbourly))


def adding_a_space() -> Tokenizer:
    tokenizer = tiny_tokenizer()
    tokenizer.backend.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=True, use_regex=False
    )
    return tokenizer


@pytest.mark.parametrize(
    ("tokenizer", "told"),
    [
        (replace(tiny_tokenizer(), mask_id=0), "the mask token 0 is an end token"),
        (replace(tiny_tokenizer(), pad_id=1), "the mask token 1 pads"),
        (replace(tiny_tokenizer(), eos_ids=()), "names no end token"),
        (replace(tiny_tokenizer(), eos_ids=(0, 0)), r"eos_ids \(0, 0\) repeat an id"),
        (replace(tiny_tokenizer(), eos_ids=(0, 999)), "id 999 has no logit"),
        (replace(tiny_tokenizer(), template="no field"), "render leaves the prompt out"),
        (replace(tiny_tokenizer(), template="{prompt}"), "does not end with the template's own"),
        (replace(tiny_tokenizer(), template="{prompt}<|eot_id|>"), "render ends with an end token"),
        (adding_a_space(), "text 'a' comes back as ' a'"),
    ],
)
def test_a_broken_tokenizer_is_caught_and_named(
    llada: NativeDenoiser, tokenizer: Tokenizer, told: str
) -> None:
    with pytest.raises(AssertionError, match=told):
        check_denoiser(replace(llada, tokenizer=tokenizer))


def test_a_tokenizer_that_normalises_is_not_asked_to_keep_every_byte(llada: NativeDenoiser) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.backend.normalizer = normalizers.NFC()
    assert tokenizer.decode(tokenizer.encode("e\u0301")) == "é"
    check_denoiser(replace(llada, tokenizer=tokenizer))


def test_a_cost_that_is_not_charged_is_caught() -> None:
    with pytest.raises(AssertionError, match="forwards_per_call is 0"):
        check_denoiser(ScriptedDenoiser(script=neighbourly, forwards_per_call=0))


def reciting(shift: int) -> ScriptedDenoiser:
    ids = tiny_tokenizer().encode(SENTENCE)
    return ScriptedDenoiser.reciting([*ids[shift:], *ids[:shift]])


def test_alignment_is_found_where_each_row_predicts_its_own_token() -> None:
    check_alignment(reciting(0), SENTENCE)


@pytest.mark.parametrize(("shift", "told"), [(1, r"row i-1 predicts"), (-1, r"row i\+1 predicts")])
def test_logits_shifted_by_one_are_caught_on_a_known_text(shift: int, told: str) -> None:
    """Moved by one place, the row before (or after) a token predicts it, every time."""
    with pytest.raises(AssertionError, match=rf"logits are shifted: {told} token i in 100%"):
        check_alignment(reciting(shift), SENTENCE)


def test_a_text_the_model_does_not_know_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="is 'A text of another kind' known to the model"):
        check_alignment(reciting(0), "A text of another kind")


def test_alignment_is_checked_behind_a_prompt() -> None:
    tokenizer = tiny_tokenizer()
    ids = [*tokenizer.render("Say it."), *tokenizer.encode(SENTENCE)]
    check_alignment(ScriptedDenoiser.reciting(ids), SENTENCE, prompt="Say it.")
    with pytest.raises(AssertionError, match="known to the model"):
        check_alignment(ScriptedDenoiser.reciting(ids), SENTENCE[:30])


def test_alignment_needs_a_text_of_some_length() -> None:
    with pytest.raises(AssertionError, match="fewer than 4 tokens"):
        check_alignment(reciting(0), "abc")
