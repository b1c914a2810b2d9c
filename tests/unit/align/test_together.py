"""Masks, bounds and loss on a real network: the gradient copy by copy, and what it does."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from remask.align.bounds import elbo
from remask.align.masks import Masks, draw_masks, mask_keys
from remask.align.method_settings import MaskSettings, SpgSettings
from remask.align.spg import spg_loss, spg_weights
from remask.denoisers.native import NativeDenoiser
from remask.sampling.batches import finished_rows
from remask.values import Canvas, Sample

SETTINGS = SpgSettings()
ADVANTAGES = torch.tensor([1.0, -1.0, 0.5])


@pytest.fixture
def model(enumerable_llada: NativeDenoiser) -> Iterator[NativeDenoiser]:
    before = {name: value.clone() for name, value in enumerable_llada.model.state_dict().items()}
    enumerable_llada.model.requires_grad_(True)
    yield enumerable_llada
    enumerable_llada.model.requires_grad_(False).load_state_dict(before)
    enumerable_llada.model.zero_grad()


def answers(model: NativeDenoiser) -> list[Sample]:
    texts = ("abcabcab", "ccbbaac", "ab")
    rows = [model.tokenizer.encode(text) for text in texts]
    return [
        Sample(
            item=text, prompt=tuple(row[:2]), canvas=(*row, *[0] * (12 - len(row))),
            num_response=len(row) + 1, text=text,
        )
        for text, row in zip(texts, rows, strict=True)
    ]  # fmt: skip


def rows(model: NativeDenoiser, update: int) -> tuple[Canvas, Tensor, Masks]:
    samples = answers(model)
    canvas, response = finished_rows(model, samples)
    keys = mask_keys(samples, update=update, seed=0, device=canvas.tokens.device)
    settings = MaskSettings(block=4, copies=3)
    return canvas, response, draw_masks(canvas, response, settings, keys)


def log_probs(model: NativeDenoiser, canvas: Canvas, masked: Tensor) -> Tensor:
    """Return log p of the true tokens, (B, L), with gradients."""
    tokens = canvas.tokens.masked_fill(masked, model.tokenizer.mask_id)
    logits = model.model.project(model.model(tokens, canvas.attend))
    found = logits.log_softmax(-1).gather(-1, canvas.tokens[..., None])
    return found[..., 0]


def test_one_copy_at_a_time_leaves_the_gradient_of_all_at_once(model: NativeDenoiser) -> None:
    canvas, response, masks = rows(model, update=0)
    logp = torch.stack([log_probs(model, canvas, masked) for masked in masks.masked])
    spg_loss(logp, masks.counted, response, ADVANTAGES, SETTINGS).loss.backward()
    at_once = {
        name: p.grad.clone() for name, p in model.model.named_parameters() if p.grad is not None
    }
    assert len(at_once) == len(list(model.model.parameters()))
    model.model.zero_grad()
    weights = spg_weights(logp.detach(), masks.counted, response, ADVANTAGES, SETTINGS)
    for weight, masked in zip(weights, masks.masked, strict=True):
        (weight * log_probs(model, canvas, masked)).sum().backward()
    for name, parameter in model.model.named_parameters():
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, at_once[name], rtol=1e-4, atol=1e-6), name


def test_updates_make_good_answers_likelier_and_bad_ones_less(model: NativeDenoiser) -> None:
    def lower_bounds() -> Tensor:
        canvas, _, masks = rows(model, update=999)
        with torch.no_grad():
            logp = torch.stack([log_probs(model, canvas, masked) for masked in masks.masked])
        return elbo(logp, masks.counted)

    before = lower_bounds()
    optimizer = torch.optim.SGD(model.model.parameters(), lr=0.1)
    for update in range(20):
        canvas, response, masks = rows(model, update)
        logp = torch.stack([log_probs(model, canvas, masked) for masked in masks.masked])
        optimizer.zero_grad()
        spg_loss(logp, masks.counted, response, ADVANTAGES, SETTINGS).loss.backward()
        optimizer.step()
    assert ((lower_bounds() - before).sign() == ADVANTAGES.sign()).all()
