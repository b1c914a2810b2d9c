"""The loss on given solutions: by hand, and against the loss of the pre-training."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from remask.align.sft import SftMasks, draw_sft_masks, sft_loss
from remask.values import Canvas
from studies.embedded.trainer import masked_loss

CPU = torch.device("cpu")


def canvas_of(*shapes: tuple[int, int]) -> Canvas:
    """Return rows of (prompt tokens, canvas tokens)."""
    return Canvas.of([[7] * p for p, _ in shapes], [[8] * c for _, c in shapes], 0, CPU)


def test_the_loss_by_hand() -> None:
    """First row: canvas of 2, one token at 1/4 masked at ratio 1/2: 2 log 2 * 2 / 2 = 2 log 2.

    Second row: canvas of 4, tokens at 1/2 and 1/8 at ratio 1: (1 + 3) log 2 / 4 = log 2. Mean 1.5.
    """
    canvas = canvas_of((1, 2), (1, 4))
    masked = torch.tensor([[0, 1, 0, 0, 0], [0, 1, 0, 1, 0]]).bool()
    logp = torch.tensor([[1, 1 / 4, 1, 1, 1], [1, 1 / 2, 1, 1 / 8, 1]]).log()
    masks = SftMasks(masked=masked, ratios=torch.tensor([0.5, 1.0]))
    assert sft_loss(logp, canvas, masks).item() == pytest.approx(1.5 * math.log(2))
    assert sft_loss(logp, canvas, masks, num_rows=4).item() == pytest.approx(0.75 * math.log(2))


def test_the_loss_is_that_of_the_pre_training_on_canvases_of_one_length() -> None:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(2, 9, (3, 6), generator=generator)
    table = torch.randn(6, 9, generator=generator)
    num_prompt = torch.tensor([2, 2, 2])
    ratio, draws = torch.tensor([0.3, 0.6, 0.9]), torch.rand(3, 6, generator=generator)
    canvas = Canvas.of(ids[:, :2].tolist(), ids[:, 2:].tolist(), 0, CPU)
    masks = SftMasks(masked=canvas.canvas & (draws < ratio[:, None]), ratios=ratio)
    logp = table.log_softmax(-1).expand(3, -1, -1).gather(-1, ids[..., None])[..., 0]
    trained = masked_loss(lambda _: table.expand(3, -1, -1), ids, num_prompt, ratio, draws)
    assert sft_loss(logp, canvas, masks).item() == pytest.approx(trained.item(), rel=1e-5)


def test_prompts_are_shown_and_tails_are_learned() -> None:
    """A draw masks each canvas token, tail or not, with its row's ratio; on average with 1/2."""
    canvas = canvas_of(*[(3, 20)] * 4_000)
    masks = draw_sft_masks(canvas, torch.arange(4_000))
    assert not masks.masked[:, :3].any()
    shares = masks.masked[:, 3:].float().mean(0)
    assert shares.tolist() == pytest.approx([0.5] * 20, abs=0.03)
    row_shares = masks.masked[:, 3:].float().mean(1)
    assert torch.corrcoef(torch.stack([row_shares, masks.ratios.float()]))[0, 1] > 0.9
    assert masks.ratios.min() >= 1e-3
    assert masks.ratios.max() < 1


def test_every_ratio_expects_the_same_loss() -> None:
    """Where context does not matter the loss of a row is -log p on average: 1 here."""
    canvas = canvas_of(*[(1, 30)] * 4_000)
    masks = draw_sft_masks(canvas, torch.arange(4_000))
    logp = -torch.ones(4_000, 31)
    assert sft_loss(logp, canvas, masks).item() == pytest.approx(1, abs=0.1)


def test_a_row_alone_is_masked_as_in_a_batch() -> None:
    together = draw_sft_masks(canvas_of((3, 5), (1, 9)), torch.tensor([4, 5]))
    alone = draw_sft_masks(canvas_of((3, 5)), torch.tensor([4]))
    assert torch.equal(alone.masked[0], together.masked[0, :8])
    assert alone.ratios[0] == together.ratios[0]


def test_the_gradient_is_the_finite_difference(network: Any, every_text: Tensor) -> None:
    texts = every_text[[4, 17]]
    canvas = Canvas(tokens=texts, canvas=torch.ones(2, 3).bool(), attend=None)
    masked = torch.tensor([[1, 0, 1], [0, 1, 1]]).bool()
    masks = SftMasks(masked=masked, ratios=torch.tensor([0.7, 0.4]))

    def value(*parameters: Tensor) -> Tensor:
        named = dict(zip(dict(network.named_parameters()), parameters, strict=True))
        out = torch.func.functional_call(network, named, (texts.masked_fill(masked, 3),))
        return sft_loss(out.gather(-1, texts[..., None])[..., 0], canvas, masks)

    assert torch.autograd.gradcheck(value, tuple(network.parameters()))
