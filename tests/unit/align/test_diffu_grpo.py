"""d1's loss, by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from remask.align.diffu_grpo import GrpoLoss, diffu_grpo_loss
from remask.align.method_settings import GrpoSettings
from remask.errors import SettingsError

RESPONSE = torch.tensor([[1, 1, 0], [1, 0, 0]]).bool()
OLD = torch.tensor([[0.5, 0.5, 1.0], [0.5, 1.0, 1.0]]).log()
FREE = GrpoSettings(kl_weight=0)


def loss(probabilities: list[list[float]], advantages: list[float]) -> GrpoLoss:
    logp = torch.tensor(probabilities).log()
    return diffu_grpo_loss(logp, OLD, None, RESPONSE, torch.tensor(advantages), FREE)


def test_before_the_first_step_the_loss_is_minus_the_mean_advantage_of_the_tokens() -> None:
    """Ratios 1; tokens 2 and 1, advantages 1 and -0.5: -(2 * 1 - 0.5) / 3 = -0.5."""
    found = loss(OLD.exp().tolist(), [1.0, -0.5])
    assert found.loss.item() == pytest.approx(-0.5)
    assert (found.kl.item(), found.clip_ratio.item()) == (0, 0)


def test_ratios_are_clipped_where_they_have_gone_the_right_way() -> None:
    """Clip 0.5. First row, A = 1: ratios 1.8 (clipped to 1.5) and 0.4 (kept: the wrong way).

    Second row, A = -1: ratio 0.2, clipped to 0.5. Sum -1.5 - 0.4 + 0.5 = -1.4; over 3 tokens.
    """
    found = loss([[0.9, 0.2, 0.3], [0.1, 0.3, 0.3]], [1.0, -1.0])
    assert found.loss.item() == pytest.approx(-1.4 / 3)
    assert found.clip_ratio.item() == pytest.approx(2 / 3)
    wrong_way = loss([[0.2, 0.2, 0.3], [0.9, 0.3, 0.3]], [1.0, -1.0])
    assert wrong_way.loss.item() == pytest.approx((-0.4 - 0.4 + 1.8) / 3)
    assert wrong_way.clip_ratio.item() == 0


def test_the_penalty_is_that_of_the_reference() -> None:
    """p = 1/2 and the reference 1, 1/2, 1/4: d = log 2, 0, -log 2.

    exp(d) - d - 1 = 1 - log 2, 0 and log 2 - 1/2: the sum is 1/2. Advantages 0, weight 0.04.
    """
    reference = torch.tensor([[1.0, 0.5, 0.7], [0.25, 0.7, 0.7]]).log()
    found = diffu_grpo_loss(OLD, OLD, reference, RESPONSE, torch.zeros(2), GrpoSettings())
    assert found.kl.item() == pytest.approx(0.5 / 3)
    assert found.loss.item() == pytest.approx(0.04 * 0.5 / 3)


def test_a_weight_on_the_reference_needs_one() -> None:
    with pytest.raises(SettingsError, match=r"required with kl_weight 0\.04"):
        diffu_grpo_loss(OLD, OLD, None, RESPONSE, torch.zeros(2), GrpoSettings())


def test_what_is_outside_the_response_is_not_looked_at() -> None:
    logp = OLD.masked_fill(~RESPONSE, math.nan).requires_grad_()
    found = diffu_grpo_loss(logp, OLD, logp, RESPONSE, torch.ones(2), GrpoSettings())
    (gradient,) = torch.autograd.grad(found.loss, logp)
    assert gradient.flatten().tolist() == pytest.approx([-1 / 3, -1 / 3, 0, -1 / 3, 0, 0])


def test_the_parts_of_a_batch_add_up_to_its_loss() -> None:
    advantages = torch.tensor([0.3, -0.7])
    logp = OLD - 0.1
    whole = diffu_grpo_loss(logp, OLD, OLD, RESPONSE, advantages, GrpoSettings()).loss
    parts = [
        diffu_grpo_loss(
            logp[i], OLD[i], OLD[i], RESPONSE[i], advantages[i], GrpoSettings(), num_tokens=3
        ).loss.item()
        for i in (slice(0, 1), slice(1, 2))
    ]
    assert sum(parts) == pytest.approx(whole.item())


def test_the_gradient_is_the_finite_difference(network: Any, every_text: Tensor) -> None:
    texts = every_text[[4, 17]]
    response = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()
    masked = torch.ones(2, 3).bool()
    with torch.no_grad():
        before = network.logp(texts, masked)
    old, reference = before - 0.2, before + 0.3
    advantages = torch.tensor([1.0, -1.0])

    def value(*parameters: Tensor) -> Tensor:
        named = dict(zip(dict(network.named_parameters()), parameters, strict=True))
        out = torch.func.functional_call(network, named, (texts.masked_fill(masked, 3),))
        logp = out.gather(-1, texts[..., None])[..., 0]
        return diffu_grpo_loss(logp, old, reference, response, advantages, GrpoSettings()).loss

    assert torch.autograd.gradcheck(value, tuple(network.parameters()))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"clip": 0.0}, "clip must be above 0, got 0.0"),
        ({"kl_weight": -1.0}, "kl_weight must be at least 0, got -1.0"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        GrpoSettings(**changes)
