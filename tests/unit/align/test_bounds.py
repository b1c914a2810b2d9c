"""Both bounds, by hand, by listing everything, and by their derivatives."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from remask.align.bounds import (
    Bounds,
    bounds,
    elbo,
    elbo_weights,
    eubo_weights,
    mask_ratios,
    mixture,
)
from remask.align.masks import draw_masks
from remask.align.method_settings import MaskSettings
from remask.values import Canvas

ORDERS = (1.0, 1.5, 4.0)


def one_row(*copies: str) -> Tensor:
    """Return `counted`, (M, 1, L), of copies written like "x." for the first of two tokens."""
    return torch.tensor([[[letter == "x" for letter in copy]] for copy in copies])


def whole(counted: Tensor) -> Tensor:
    """Return a response of all tokens, (B, L)."""
    return torch.ones(counted.shape[1:], dtype=torch.bool)


def exact(logp: Tensor, counted: Tensor, order: float = 1.5) -> Bounds:
    return bounds(logp, counted, whole(counted), order=order)


def test_the_bounds_by_hand() -> None:
    """Two copies of two tokens: the first token at 1/2 (t = 1/2), then both at 1/4, 1/8 (t = 1).

    elbo = (log 1/2 + (log 1/4 + log 1/8) / 2) / 2 = -(1 + 2.5) / 2 log 2 = -1.75 log 2.
    Order 1: a_1 = (2 * 1/2 + 1/4) / 2 = 5/8, a_2 = (1/8) / 2 = 1/16; eubo = log(5/128) / 2.
    Order 2: a_1 = (2 * 1/4 + 1/16) / 2 = 9/32, a_2 = 1/128; eubo = log(9/4096) / 4.
    """
    counted = one_row("x.", "xx")
    logp = torch.tensor([[[1 / 2, 1.0]], [[1 / 4, 1 / 8]]]).log()
    assert mask_ratios(counted, whole(counted)).flatten().tolist() == [0.5, 1.0]
    assert elbo(logp, counted).item() == pytest.approx(-1.75 * math.log(2))
    assert exact(logp, counted, 1.0).eubo.item() == pytest.approx(math.log(5 / 128) / 2)
    assert exact(logp, counted, 2.0).eubo.item() == pytest.approx(math.log(9 / 4096) / 4)


def test_the_mixture_is_between_its_bounds() -> None:
    found = Bounds(torch.tensor([-3.0]), torch.tensor([-1.0]))
    assert mixture(found, upper_weight=0.25).item() == -2.5
    assert mixture(found, upper_weight=0.0) == found.elbo
    assert mixture(found, upper_weight=1.0) == found.eubo


@pytest.mark.parametrize("order", ORDERS)
def test_two_tokens_listed_in_full_give_the_closed_form(order: float) -> None:
    """One token a, b likely with the other shown, hidden: (log a + log b) / 2 from below, and
    log((a^order + b^order) / 2) / order from above; the other c and d; a row is their mean.

    Each number of masked tokens is as likely: first, second, both, both.
    """
    a, b, c, d = 0.9, 0.2, 0.5, 0.3
    counted = one_row("x.", ".x", "xx", "xx")
    logp = torch.tensor([[[a, 1]], [[1, c]], [[b, d]], [[b, d]]], dtype=torch.float64).log()
    found = exact(logp, counted, order)
    from_below = (math.log(a) + math.log(b)) / 2 + (math.log(c) + math.log(d)) / 2
    above = [math.log((x**order + y**order) / 2) / order for x, y in ((a, b), (c, d))]
    assert found.elbo.item() == pytest.approx(from_below / 2)
    assert found.eubo.item() == pytest.approx(sum(above) / 2)


def test_the_lower_bound_is_below_the_likelihood_of_every_text(
    network: Any, log_p: Callable[[Tensor], Tensor], every_mask: Tensor, every_text: Tensor
) -> None:
    """27 texts, whose probabilities sum to 1; 3 * elbo, with every mask as a copy, is exact."""
    likelihood = log_p(every_text)
    assert likelihood.exp().sum().item() == pytest.approx(1)
    counted = every_mask[:, None].expand(-1, 27, -1)
    lower = 3 * elbo(network.logp(every_text, counted), counted)
    assert (lower < likelihood).all()
    assert (likelihood - lower).max() > 0.05  # and is no mere copy of it


@pytest.mark.parametrize("order", ORDERS)
def test_the_upper_bound_is_above_the_lower_one_for_every_text(
    network: Any, every_mask: Tensor, every_text: Tensor, order: float
) -> None:
    counted = every_mask[:, None].expand(-1, 27, -1)
    found = exact(network.logp(every_text, counted), counted, order)
    assert (found.eubo > found.elbo).all()


def test_a_higher_order_is_a_looser_bound(
    network: Any, every_mask: Tensor, every_text: Tensor
) -> None:
    counted = every_mask[:, None].expand(-1, 27, -1)
    logp = network.logp(every_text, counted)
    first, second, third = (exact(logp, counted, order).eubo for order in ORDERS)
    assert (first < second).all()
    assert (second < third).all()


def test_an_estimate_from_few_copies_may_cross() -> None:
    """All probabilities 1, copies "x." and "xx": elbo = 0, a = (2 + 1) / 2 and 1 / 2, so at order 1
    eubo = log(3/4) / 2 < 0."""
    counted = one_row("x.", "xx")
    found = exact(torch.zeros(2, 1, 2), counted, 1.0)
    assert found.elbo.item() == 0
    assert found.eubo.item() == pytest.approx(math.log(3 / 4) / 2)


def test_random_masks_estimate_the_lower_bound_without_bias(
    network: Any, every_mask: Tensor
) -> None:
    """The mean over 20,000 drawn masks is the exact value, within four standard errors."""
    text = torch.tensor([[0, 2, 1]])
    exactly = elbo(network.logp(text, every_mask[:, None]), every_mask[:, None]).item()
    canvas = Canvas.of([[7]] * 20_000, [[0, 2, 1]] * 20_000, 0, torch.device("cpu"))
    settings = MaskSettings(mask_sampler="random", copies=1, prompt_mask_ratio=0)
    counted = draw_masks(canvas, canvas.canvas, settings, torch.arange(20_000)).counted[..., 1:]
    with torch.no_grad():
        values = elbo(network.logp(text, counted), counted)
    assert values.mean().item() == pytest.approx(exactly, abs=4 * values.std().item() / 20_000**0.5)


def gradient(value: Tensor, logp: Tensor) -> Tensor:
    return torch.autograd.grad(value.sum(), logp, retain_graph=True)[0]


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_acts_only_on_tokens_counted_twice(order: float) -> None:
    """Of three tokens only the second is in both copies: the others have weight 1/3."""
    counted = one_row("xx.", ".xx")
    logp = torch.tensor([[[0.1, 0.9, 1]], [[1, 0.2, 0.3]]], dtype=torch.float64).log()
    logp.requires_grad_()
    upper = gradient(exact(logp, counted, order).eubo, logp)[:, 0]
    assert upper[0, 0].item() == pytest.approx(1 / 3)
    assert upper[1, 2].item() == pytest.approx(1 / 3)
    assert upper[0, 1].item() == pytest.approx(0.9**order / (0.9**order + 0.2**order) / 3)
    assert upper[:, 1].sum().item() == pytest.approx(1 / 3)


@pytest.mark.parametrize("order", ORDERS)
def test_with_one_copy_all_gradients_are_the_same(order: float) -> None:
    counted = one_row("x.xx")
    logp = torch.tensor([[[-0.1, 0, -2.0, -5.0]]], requires_grad=True)
    found = exact(logp, counted, order)
    lower = gradient(found.elbo, logp)
    assert lower.flatten().tolist() == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])
    assert torch.allclose(gradient(found.eubo, logp), lower)
    assert torch.allclose(gradient(mixture(found, upper_weight=0.5), logp), lower)


def test_gradients_are_finite_differences(network: Any, every_text: Tensor) -> None:
    counted = torch.tensor([[[1, 1, 0], [0, 1, 1]], [[0, 1, 1], [0, 0, 1]]]).bool()
    response = torch.tensor([[1, 1, 1], [0, 1, 1]]).bool()

    def both(*parameters: Tensor) -> Bounds:
        named = dict(zip(dict(network.named_parameters()), parameters, strict=True))
        masked = counted.expand(2, 2, 3)
        shown = every_text[[5, 19]].masked_fill(masked, 3)
        out = torch.func.functional_call(network, named, (shown,))
        logp = out.gather(-1, every_text[[5, 19]].expand(2, 2, 3)[..., None])[..., 0]
        return bounds(logp, counted, response, order=1.5)

    assert torch.autograd.gradcheck(both, tuple(network.parameters()))


def drawn(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return logp, counted and response of 3 copies of 4 rows of 6 tokens."""
    generator = torch.Generator().manual_seed(seed)
    response = torch.arange(6) < torch.tensor([[6], [4], [1], [3]])
    counted = response & (torch.rand(3, 4, 6, generator=generator) < 0.6)
    counted[..., 0] = True
    logp = -3 * torch.rand(3, 4, 6, generator=generator, dtype=torch.float64)
    return logp.requires_grad_(), counted, response


@pytest.mark.parametrize("order", ORDERS)
def test_the_weights_are_the_derivatives(order: float) -> None:
    logp, counted, response = drawn(1)
    found = bounds(logp, counted, response, order=order)
    assert torch.allclose(gradient(found.elbo, logp), elbo_weights(counted).double())
    upper = eubo_weights(logp, counted, response, order=order)
    assert torch.allclose(gradient(found.eubo, logp), upper)
    assert upper.sum((0, 2)).tolist() == pytest.approx([1] * 4)


def test_a_row_alone_has_the_bounds_it_has_in_a_batch() -> None:
    logp, counted, response = drawn(2)
    together = bounds(logp, counted, response, order=1.5)
    for i in range(4):
        size = int(response[i].sum())
        alone = bounds(
            logp[:, i : i + 1, :size],
            counted[:, i : i + 1, :size],
            response[i : i + 1, :size],
            order=1.5,
        )
        assert alone.elbo.item() == pytest.approx(together.elbo[i].item())
        assert alone.eubo.item() == pytest.approx(together.eubo[i].item())


def test_probabilities_too_small_for_float32_are_not_lost() -> None:
    """exp(-90)^1.5 = exp(-135) is 0 in float32. Both copies see both tokens: eubo = -90."""
    counted = one_row("xx", "xx")
    logp = torch.full((2, 1, 2), -90.0, requires_grad=True)
    found = exact(logp, counted)
    assert found.eubo.item() == pytest.approx(-90)
    assert gradient(found.eubo, logp).flatten().tolist() == pytest.approx([0.25] * 4, rel=1e-5)


def test_what_is_not_counted_is_not_looked_at() -> None:
    """The second token in one copy, the third in both."""
    counted = one_row("x..", "xx.")
    nan = math.nan
    logp = torch.tensor([[[-1.0, nan, nan]], [[-2.0, -3.0, nan]]], requires_grad=True)
    found = exact(logp, counted)
    assert gradient(found.elbo + found.eubo, logp).isfinite().all()
    assert eubo_weights(logp, counted, whole(counted), order=1.5).isfinite().all()


def test_half_precision_is_raised_to_float32() -> None:
    counted = one_row("xx", "xx")
    logp = torch.full((2, 1, 2), -1.5, dtype=torch.bfloat16)
    assert {value.dtype for value in exact(logp, counted)} == {torch.float32}
