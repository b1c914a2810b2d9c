"""The sandwiched policy gradient: by hand, in parts, copy by copy."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from remask.align.advantages import group_advantages
from remask.align.bounds import elbo
from remask.align.method_settings import SpgSettings
from remask.align.spg import needs_preview, spg_loss, spg_weights
from remask.errors import SettingsError

SETTINGS = SpgSettings()
LOG2 = math.log(2)


def test_advantages_are_rewards_above_the_mean_of_the_group() -> None:
    """Means 1 and 0.5; nothing is divided by a standard deviation."""
    rewards = torch.tensor([[2.0, 0.0, 1.0], [0.5, 0.0, 1.0]])
    assert group_advantages(rewards).tolist() == [[1.0, -1.0, 0.0], [0.0, -0.5, 0.5]]


def test_a_group_of_equal_rewards_has_no_advantage_at_all() -> None:
    """The mean of six times 1.7 is not exactly 1.7 in float32."""
    rewards = torch.full((1, 6), 1.7)
    assert (group_advantages(rewards) == 0).all()


def test_a_completion_without_a_reward_is_left_out_of_its_group() -> None:
    nan = math.nan
    rewards = torch.tensor([[2.0, nan, 0.0], [nan, nan, nan], [1.0, nan, nan]])
    assert group_advantages(rewards).tolist() == [[1.0, 0.0, -1.0], [0.0] * 3, [0.0] * 3]


def test_a_group_of_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="num_generations must be at least 2, got 1"):
        group_advantages(torch.ones(3, 1))


# Two rows in two copies. The first has two tokens, the second one.
COUNTED = torch.tensor([[[1, 0], [1, 0]], [[1, 1], [1, 0]]]).bool()
RESPONSE = torch.tensor([[1, 1], [1, 0]]).bool()
LOGP = torch.tensor([[[1 / 2, 1], [1 / 2, 1]], [[1 / 4, 1 / 8], [1 / 8, 1]]]).log()


def loss(first: float, second: float, **changes: Any) -> float:
    settings = SpgSettings(**changes)
    advantages = torch.tensor([first, second])
    return spg_loss(LOGP, COUNTED, RESPONSE, advantages, settings).loss.item()


def test_the_loss_by_hand() -> None:
    """elbo_1 = -1.75 log 2, as in the test of the bounds; elbo_2 = -(1 + 3) / 2 log 2 = -2 log 2.

    Order 1, second row: a = (1/2 + 1/8) / 2 = 5/16. Both better than the mean by 1, weighed by
    their 2 and 1 tokens: (1.75 * 2 + 2 * 1) / 3 log 2. The second worse: its bound is the mixture.
    """
    upper = math.log(5 / 16)
    assert loss(1, 1) == pytest.approx((3.5 + 2) / 3 * LOG2)
    assert loss(1, -1, negative="elbo") == pytest.approx((3.5 - 2) / 3 * LOG2)
    assert loss(1, -1, negative="eubo", renyi_order=1) == pytest.approx((3.5 * LOG2 + upper) / 3)
    mixed = 0.5 * upper - 0.5 * 2 * LOG2
    assert loss(1, -1, renyi_order=1) == pytest.approx((3.5 * LOG2 + mixed) / 3)
    assert loss(1, -1, negative="zero") == pytest.approx(3.5 / 3 * LOG2)
    assert loss(0, 0) == 0


def test_the_bounds_are_handed_back_for_the_log() -> None:
    found = spg_loss(LOGP, COUNTED, RESPONSE, torch.ones(2), SETTINGS).bounds
    assert torch.equal(found.elbo, elbo(LOGP, COUNTED))


def test_the_parts_of_a_batch_add_up_to_its_loss() -> None:
    advantages = torch.tensor([0.7, -0.3])
    whole = spg_loss(LOGP, COUNTED, RESPONSE, advantages, SETTINGS).loss
    parts = [
        spg_loss(LOGP[:, i], COUNTED[:, i], RESPONSE[i], advantages[i], SETTINGS, num_tokens=3).loss
        for i in (slice(0, 1), slice(1, 2))
    ]
    assert sum(parts) == pytest.approx(whole.item())


@pytest.fixture
def batch(every_text: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return texts, what is counted in 3 copies, responses and advantages of 4 rows."""
    generator = torch.Generator().manual_seed(0)
    response = torch.arange(3) < torch.tensor([[3], [2], [3], [1]])
    counted = response & (torch.rand(3, 4, 3, generator=generator) < 0.7)
    counted[..., 0] = True
    return every_text[[1, 8, 14, 23]], counted, response, torch.tensor([0.8, -0.5, -0.1, 0.0])


@pytest.mark.parametrize("negative", ["mixture", "eubo", "elbo", "zero"])
def test_the_gradient_is_the_finite_difference(network: Any, batch: Any, negative: Any) -> None:
    texts, counted, response, advantages = batch

    def value(*parameters: Tensor) -> Tensor:
        named = dict(zip(dict(network.named_parameters()), parameters, strict=True))
        shown = texts.masked_fill(counted, 3)
        out = torch.func.functional_call(network, named, (shown,))
        logp = out.gather(-1, texts.expand_as(counted)[..., None])[..., 0]
        settings = SpgSettings(negative=negative)
        return spg_loss(logp, counted, response, advantages, settings).loss

    assert torch.autograd.gradcheck(value, tuple(network.parameters()))


@pytest.mark.parametrize("negative", ["mixture", "eubo", "elbo", "zero"])
def test_one_copy_at_a_time_leaves_the_gradient_of_all_at_once(
    network: Any, batch: Any, negative: Any
) -> None:
    """Only rows that need it are looked at first; the others are zeros in the preview."""
    texts, counted, response, advantages = batch
    settings = SpgSettings(negative=negative)
    logp = network.logp(texts, counted)
    spg_loss(logp, counted, response, advantages, settings).loss.backward()
    at_once = [parameter.grad.clone() for parameter in network.parameters()]
    network.zero_grad()

    rows = needs_preview(advantages, settings)
    preview = logp.detach().masked_fill(~rows[:, None], 0.0)
    weights = spg_weights(preview, counted, response, advantages, settings)
    for m in range(3):
        (weights[m] * network.logp(texts, counted[m])).sum().backward()
    for whole, parameter in zip(at_once, network.parameters(), strict=True):
        assert whole.abs().max() > 1e-3
        assert torch.allclose(parameter.grad, whole, rtol=1e-6, atol=1e-9)


def test_weights_in_parts_are_those_of_the_whole(network: Any, batch: Any) -> None:
    texts, counted, response, advantages = batch
    logp = network.logp(texts, counted)
    whole = spg_weights(logp, counted, response, advantages, SETTINGS)
    total = response.sum()
    parts = [
        spg_weights(
            logp[:, i], counted[:, i], response[i], advantages[i], SETTINGS, num_tokens=total
        )
        for i in (slice(0, 3), slice(3, 4))
    ]
    assert torch.allclose(torch.cat(parts, 1), whole)


def test_rows_below_the_mean_need_a_preview_where_the_upper_bound_is_used() -> None:
    advantages = torch.tensor([1.0, 0.0, -1.0])
    assert needs_preview(advantages, SETTINGS).tolist() == [False, False, True]
    assert not needs_preview(advantages, SpgSettings(negative="elbo")).any()
    assert not needs_preview(advantages, SpgSettings(upper_weight=0)).any()


def test_confident_copies_of_bad_tokens_are_pushed_down_harder() -> None:
    """One token at 0.8 and 0.2 in two copies: the upper bound's weights are 0.8 and 0.2."""
    counted, response = torch.ones(2, 1, 1).bool(), torch.ones(1, 1).bool()
    logp = torch.tensor([[[0.8]], [[0.2]]]).log()
    settings = SpgSettings(negative="eubo", renyi_order=1)
    weights = spg_weights(logp, counted, response, torch.tensor([-1.0]), settings)
    assert weights.flatten().tolist() == pytest.approx([0.8, 0.2])


def test_one_copy_is_refused_where_the_upper_bound_is_used() -> None:
    one = (LOGP[:1], COUNTED[:1], RESPONSE, torch.tensor([1.0, -1.0]))
    for function in (spg_loss, spg_weights):
        with pytest.raises(SettingsError, match=r"copies must be at least 2 .*got 1"):
            function(*one, SETTINGS)
        function(*one, SpgSettings(negative="elbo"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"negative": "mix"}, "negative must be mixture, eubo, elbo or zero.*, got 'mix'"),
        ({"renyi_order": 0.5}, "renyi_order must be at least 1, got 0.5"),
        ({"renyi_order": math.nan}, "renyi_order must be a number, got nan"),
        ({"upper_weight": 1.5}, "upper_weight must be at most 1, got 1.5"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        SpgSettings(**changes)
