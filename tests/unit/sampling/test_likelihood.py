"""Log-probabilities of masked tokens in one pass equal those of one pass for every block."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from remask.denoisers.kv_cache import KVCache
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted
from remask.sampling.likelihood import log_likelihood
from remask.sampling.loop import denoise
from remask.sampling.schedule import even_schedule
from remask.testing import ScriptedDenoiser
from remask.values import Canvas

CPU = torch.device("cpu")
SIZE = 4


@pytest.fixture
def model(block_causal: NativeDenoiser) -> NativeDenoiser:
    return block_causal


def ragged() -> tuple[Canvas, Tensor]:
    """Return rows of 14, 7 and 11 tokens, prompts of 6, 3 and 5, and what is masked of them."""
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(40, 200, (n,), generator=generator).tolist() for n in (14, 7, 11)]
    starts = (6, 3, 5)
    prompts = [row[:s] for row, s in zip(rows, starts, strict=True)]
    canvases = [row[s:] for row, s in zip(rows, starts, strict=True)]
    canvas = Canvas.of(prompts, canvases, 0, CPU)
    drawn = torch.rand(canvas.tokens.shape, generator=generator)
    return canvas, canvas.canvas & ((drawn < 0.6) | (canvas.offsets % 3 == 0))


def block_by_block(model: Any, canvas: Canvas, masked: Tensor) -> Tensor:
    """Return the same by one forward per block: noisy there, clean before it."""
    blank = model.tokenizer.mask_id
    blocks = torch.arange(canvas.tokens.shape[1]) // SIZE
    out = torch.zeros(canvas.tokens.shape)
    for number in range(int(blocks.max()) + 1):
        here = masked & (blocks == number)
        tokens = canvas.tokens.masked_fill(masked & (blocks >= number), blank)
        hidden = model.hidden(replace(canvas, tokens=tokens))
        logits = model.head(hidden.flatten(0, 1)).view(*tokens.shape, -1)
        logits[..., blank] = -torch.inf
        logp = logits.log_softmax(-1).gather(-1, canvas.tokens[..., None])[..., 0]
        out = torch.where(here, logp, out)
    return out


def test_one_pass_equals_a_pass_for_every_block(model: NativeDenoiser) -> None:
    canvas, masked = ragged()
    assert (masked.sum(1) >= 2).all()
    counted = Counted(model)
    found = log_likelihood(counted, canvas, masked)
    assert counted.by_call == [3]
    assert (found - block_by_block(model, canvas, masked)).abs().max() <= 1e-5
    assert (found[~masked] == 0).all()
    assert (found[masked] < 0).all()


def test_a_row_alone_has_the_same_likelihood(model: NativeDenoiser) -> None:
    canvas, masked = ragged()
    together = log_likelihood(model, canvas, masked)
    alone = Canvas(tokens=canvas.tokens[1:2, :7], canvas=canvas.canvas[1:2, :7], attend=None)
    found = log_likelihood(model, alone, masked[1:2, :7])
    assert (found - together[1:2, :7]).abs().max() <= 1e-5


def test_an_ordinary_pass_would_not_do(model: NativeDenoiser) -> None:
    """Behind noisy blocks the probabilities are others: this is what the layout is for."""
    canvas, masked = ragged()
    noisy = replace(canvas, tokens=canvas.tokens.masked_fill(masked, model.tokenizer.mask_id))
    logits = model.head(model.hidden(noisy)[masked])
    logits[:, model.tokenizer.mask_id] = -torch.inf
    plain = logits.log_softmax(-1).gather(1, canvas.tokens[masked][:, None])[:, 0]
    assert (plain - log_likelihood(model, canvas, masked)[masked]).abs().max() > 0.01


def test_a_model_that_sees_everything_needs_no_layout(llada: NativeDenoiser) -> None:
    """It is what the denoising loop notes at its first step."""
    canvas, masked = ragged()
    noisy = replace(canvas, tokens=canvas.tokens.masked_fill(masked, llada.tokenizer.mask_id))
    noted = denoise(llada, noisy, even_schedule, 1, truth=canvas.tokens).logp
    assert (log_likelihood(llada, canvas, masked) - noted).abs().max() <= 1e-5


def test_nothing_masked_is_certain(model: NativeDenoiser, llada: NativeDenoiser) -> None:
    canvas, masked = ragged()
    for denoiser in (model, llada):
        assert (log_likelihood(denoiser, canvas, torch.zeros_like(masked)) == 0).all()


def test_a_script_is_asked_block_after_block() -> None:
    """Token 10 has logit k where k masks are in sight. Blocks of 2, all masked but the 9.

    Behind clean blocks each sees its own masks alone: 2, 2 and 1. Of 261 tokens all others have
    logit 0, so that log p = k - log(e^k + 260): -3.5887 for two masks, -4.5711 for one.
    """

    def counting(tokens: Tensor) -> Tensor:
        logits = torch.zeros(*tokens.shape, 262)
        logits[:, :, 10] = (tokens == 1).sum(1, keepdim=True).float()
        return logits

    model = ScriptedDenoiser(script=counting, block_size=2)
    canvas = Canvas.of([[]], [[10, 10, 10, 10, 9, 10]], 0, CPU)
    [found] = log_likelihood(model, canvas, canvas.tokens == 10).tolist()
    assert found == pytest.approx([-3.5887] * 4 + [0, -4.5711], abs=1e-4)


class Open(NativeDenoiser):
    """Lets gradients through, as a model in training must."""

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        out: Tensor = self.model.states(canvas.tokens, canvas.attend)
        return out

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        return self.model.hidden_noisy_given_clean(canvas.tokens, clean, canvas.attend)

    def head(self, rows: Tensor) -> Tensor:
        return self.model.project(self.model.finish_last_layer(rows)).float()


@pytest.mark.parametrize("name", ["model", "llada"])
def test_gradients_flow_where_the_denoiser_lets_them(
    name: str, request: pytest.FixtureRequest
) -> None:
    """A small step along the gradient makes the masked tokens more probable, as it predicts."""
    closed: NativeDenoiser = request.getfixturevalue(name)
    opened = Open(name="open", model=closed.model, tokenizer=closed.tokenizer, preset=closed.preset)
    canvas, masked = ragged()
    weight = closed.model.blocks[0].attention.qkv.weight
    weight.requires_grad_(True)
    before = log_likelihood(opened, canvas, masked).sum()
    before.backward()
    gradient = weight.grad
    weight.requires_grad_(False).grad = None
    assert gradient is not None
    step = 1e-3 / gradient.norm()
    kept = weight.clone()
    weight += step * gradient
    after = log_likelihood(opened, canvas, masked).sum()
    weight.copy_(kept)
    predicted = (step * gradient.square().sum()).item()
    assert (after - before).item() == pytest.approx(predicted, rel=0.1)
    assert not log_likelihood(closed, canvas, masked).requires_grad
