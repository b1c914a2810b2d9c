"""Likelihoods regressed on advantages: by hand, by finite differences, and to their end."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from remask.align.bounds import elbo, elbo_weights
from remask.align.method_settings import RegressionSettings
from remask.align.regression import group_means, regression_loss, regression_weights
from remask.errors import SettingsError

GROUPS = torch.tensor([7, 7, 3, 3, 3])


def test_means_are_those_of_the_group() -> None:
    """Groups {1, 3} and {0, 6, 9}, whatever their numbers and their order."""
    values = torch.tensor([1.0, 3.0, 0.0, 6.0, 9.0])
    assert group_means(values, GROUPS).tolist() == [2, 2, 5, 5, 5]
    mixed = torch.tensor([0, 2, 1, 3, 4])
    assert group_means(values[mixed], GROUPS[mixed]).tolist() == [2, 5, 2, 5, 5]


def test_the_loss_by_hand() -> None:
    """beta 2; two answers of 1 and 3 tokens, A = 1/2 and -1/2.

    Not moved: (1 + 3) x 1/4 = 1, over 2 x 2 x 4 tokens: 1/16. Moved by 0.4 and 0.2, 0.1 from their
    mean each: misfits 2 x 0.1 - 0.5 = -0.3 and 0.3: 4 x 0.09 / 16. Moved by 1/4 and -1/4: 0.
    """
    settings = RegressionSettings(beta=2.0)
    about = (torch.tensor([1, 3]), torch.tensor([0.5, -0.5]), torch.zeros(2), settings)
    for moved, loss in (((0, 0), 1 / 16), ((0.4, 0.2), 0.36 / 16), ((0.25, -0.25), 0.0)):
        found = regression_loss(torch.tensor(moved, dtype=torch.float), *about)
        assert found.item() == pytest.approx(loss)


def test_not_centred_right_answers_have_to_rise_themselves() -> None:
    """beta 2, A = 1/2 and -1/2, tokens 1 and 3. Moved by 0.4 and 0.2: misfits 0.3 and 0.9.

    (0.09 + 3 x 0.81) / 16. The slopes are n (beta d - A) / 4 tokens: 0.3 / 4 and 3 x 0.9 / 4.
    """
    settings = RegressionSettings(beta=2.0, centred=False)
    about = (torch.tensor([1, 3]), torch.tensor([0.5, -0.5]), torch.zeros(2), settings)
    moved = torch.tensor([0.4, 0.2])
    assert regression_loss(moved, *about).item() == pytest.approx(2.52 / 16)
    assert regression_weights(moved, *about).tolist() == pytest.approx([0.3 / 4, 2.7 / 4])
    assert regression_weights(torch.zeros(2), *about).tolist() == pytest.approx([-1 / 8, 3 / 8])


def test_at_first_the_gradient_is_the_advantage_of_a_token_whatever_beta_is() -> None:
    """Tokens 1 and 3, A = 1/2 and -1/2: - A n / 4 is -1/8 and 3/8; their mean, 1/8, is common."""
    about = (torch.tensor([1, 3]), torch.tensor([0.5, -0.5]), torch.zeros(2))
    for beta in (0.1, 1.0, 30.0):
        found = regression_weights(torch.zeros(2), *about, RegressionSettings(beta=beta))
        assert found.tolist() == pytest.approx([-1 / 4, 1 / 4])


def test_the_parts_of_a_batch_add_up_to_its_loss() -> None:
    moved, lengths = torch.tensor([0.1, -0.3, 0.2, 0.0, 0.5]), torch.tensor([4, 2, 6, 1, 3])
    advantages, settings = torch.tensor([0.7, -0.7, 0.4, 0.1, -0.5]), RegressionSettings(beta=0.5)
    whole = regression_weights(moved, lengths, advantages, GROUPS, settings)
    parts = [
        regression_weights(
            moved[i], lengths[i], advantages[i], GROUPS[i], settings, num_tokens=16
        )
        for i in (slice(0, 2), slice(2, 5))
    ]  # fmt: skip
    assert torch.allclose(torch.cat(parts), whole)


@pytest.fixture
def batch(every_text: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return texts, what is counted in 2 copies, lengths and advantages of one group of 3."""
    counted = torch.tensor([[[1, 0, 1], [1, 1, 0], [0, 1, 0]], [[1, 1, 1], [0, 1, 0], [1, 0, 0]]])
    lengths, advantages = torch.tensor([3, 2, 2]), torch.tensor([0.6, 0.1, -0.7])
    return every_text[[1, 14, 23]], counted.bool(), lengths, advantages.double()


def test_the_gradient_is_the_finite_difference(network: Any, batch: Any) -> None:
    """Of the loss as a whole, and of it copy by copy with `regression_weights`."""
    texts, counted, lengths, advantages = batch
    before = elbo(network.logp(texts, counted), counted).detach() - 0.2 * advantages
    about = (lengths, advantages, torch.zeros(3), RegressionSettings(beta=1.5))

    def value(*parameters: Tensor) -> Tensor:
        named = dict(zip(dict(network.named_parameters()), parameters, strict=True))
        out = torch.func.functional_call(network, named, (texts.masked_fill(counted, 3),))
        logp = out.gather(-1, texts.expand_as(counted)[..., None])[..., 0]
        return regression_loss(elbo(logp, counted) - before, *about)

    assert torch.autograd.gradcheck(value, tuple(network.parameters()))
    wanted = torch.autograd.grad(value(*network.parameters()), tuple(network.parameters()))
    moved = elbo(network.logp(texts, counted), counted).detach() - before
    weights = regression_weights(moved, *about)[:, None] * elbo_weights(counted)
    for m in range(2):
        (weights[m] * network.logp(texts, counted[m])).sum().backward()
    for whole, parameter in zip(wanted, network.parameters(), strict=True):
        assert whole.abs().max() > 1e-3
        assert torch.allclose(parameter.grad, whole, rtol=1e-6, atol=1e-9)


def test_each_answer_moves_by_its_advantage_over_beta_and_stops(network: Any, batch: Any) -> None:
    """beta 2: 0.3, 0.05 and -0.35 nats a token from their mean; a policy gradient goes on."""
    texts, counted, lengths, advantages = batch
    before = elbo(network.logp(texts, counted), counted).detach()
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(300):
        optimizer.zero_grad()
        moved = elbo(network.logp(texts, counted), counted) - before
        settings = RegressionSettings(beta=2.0)
        regression_loss(moved, lengths, advantages, torch.zeros(3), settings).backward()
        optimizer.step()
    apart = moved - moved.mean()
    assert apart.tolist() == pytest.approx((advantages / 2).tolist(), abs=1e-3)
    for _ in range(300):
        optimizer.zero_grad()
        moved = elbo(network.logp(texts, counted), counted) - before
        (-advantages * moved).sum().backward()
        optimizer.step()
    assert moved[2] < -3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"beta": 0.0}, "beta must be above 0, got 0.0"),
        ({"beta": math.nan}, "beta must be a number above 0, got nan"),
        ({"anchor": "end"}, "anchor must be rollout or start.*, got 'end'"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        RegressionSettings(**changes)
