"""What keeps SPG from running away, each worked out by hand on two completions of one token."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from remask.align.method_settings import SpgSettings
from remask.align.restraints import divergence, gains, never_down
from remask.align.spg import needs_preview, spg_loss, spg_weights
from remask.errors import SettingsError

NOW = torch.tensor([-1.0, -3.0])
ADVANTAGES = torch.tensor([0.5, -0.5])
ONES = torch.ones(2, 2, 1).bool()  # two copies of two rows of one token


def test_right_answers_are_never_pushed_down() -> None:
    right = torch.tensor([True, True, False, False])
    found = never_down(torch.tensor([0.5, -0.25, -0.25, 0.0]), right)
    assert found.tolist() == [0.5, 0.0, -0.25, 0.0]


def gain_and_slope(now: Tensor, before: Tensor | None, **changes: Any) -> tuple[Any, Any]:
    leaf = now.clone().requires_grad_()
    found = gains(leaf, before, ADVANTAGES, SpgSettings(**changes))
    (slope,) = torch.autograd.grad(found.sum(), leaf)
    return found.tolist(), slope.tolist()


def test_below_the_floor_a_negative_is_left_alone() -> None:
    """Bounds -1 and -3, A = 1/2 and -1/2: gains -1/2 and 3/2; a floor of -2 makes the last 1."""
    assert gain_and_slope(NOW, None, negative_floor=-4.0) == ([-0.5, 1.5], [0.5, -0.5])
    assert gain_and_slope(NOW, None, negative_floor=-2.0) == ([-0.5, 1.0], [0.5, 0.0])


def test_a_ratio_that_has_gone_far_enough_stops() -> None:
    """Clip 1/2. Ratios 2 and 1/4 have gone the right way: gains 3/2 x 1/2 and 1/2 x -1/2, no slope.

    Ratios 1/4 and 2 have gone the wrong way: gains 1/8 and -1, and their slopes are the same.
    Where nothing has moved, gain and slope are the advantage.
    """
    far = torch.tensor([math.log(2), -math.log(4)])
    values, slopes = gain_and_slope(NOW, NOW - far, ratio_clip=0.5)
    assert (values, slopes) == (pytest.approx([0.75, -0.25]), [0.0, 0.0])
    values, slopes = gain_and_slope(NOW, NOW - far.flip(0), ratio_clip=0.5)
    assert values == slopes == pytest.approx([0.125, -1.0])
    assert gain_and_slope(NOW, None, ratio_clip=0.5) == ([0.5, -0.5], [0.5, -0.5])


def test_the_divergence_is_over_counted_tokens_then_over_copies() -> None:
    """One row, p = 1/2, at the start 1 and 1/4: q = log 2 and - log 2.

    exp(q) - q - 1 = 1 - log 2 and log 2 - 1/2. The first copy counts both, the second the first.
    """
    counted = torch.tensor([[[1, 1]], [[1, 0]]]).bool()
    logp = torch.full((2, 1, 2), 0.5).log()
    start = torch.tensor([[[1.0, 0.25]], [[1.0, math.nan]]]).log()
    found = divergence(logp, start, counted)
    assert found.tolist() == pytest.approx([(0.25 + 1 - math.log(2)) / 2])


def test_the_penalty_is_added_to_the_loss() -> None:
    """p = 1/2 and 1/4 in both copies, 1/2 at the start: the second row is off by log 2.

    exp(q) - q - 1 = 1 - log 2 there. A = 0: the loss is 0.1 x (1 - log 2) / 2 rows of one token.
    """
    logp = torch.tensor([[[0.5], [0.25]]] * 2).log()
    about = (ONES, ONES[0], torch.zeros(2), SpgSettings(start_kl=0.1))
    found = spg_loss(logp, *about, start_logp=torch.full_like(logp, math.log(0.5)))
    assert found.loss.item() == pytest.approx(0.1 * (1 - math.log(2)) / 2)
    with pytest.raises(SettingsError, match=r"start_kl 0\.1 needs the model before the first"):
        spg_loss(logp, *about)


RESTRAINTS: list[dict[str, Any]] = [
    {"negative_floor": -2.0}, {"ratio_clip": 0.2}, {"start_kl": 0.3},
    {"negative_floor": -2.0, "ratio_clip": 0.2, "start_kl": 0.3, "negative": "elbo"},
]  # fmt: skip


@pytest.mark.parametrize("changes", RESTRAINTS)
def test_the_weights_are_the_derivatives_of_the_loss(changes: dict[str, Any]) -> None:
    """Rows: above the mean, below it, below it and the floor; the old model is a little off."""
    generator = torch.Generator().manual_seed(0)
    logp = -torch.rand(3, 3, 4, generator=generator, dtype=torch.float64)
    logp[:, 2] -= 3
    counted, response = torch.ones(3, 3, 4).bool(), torch.ones(3, 4).bool()
    about = (counted, response, torch.tensor([0.7, -0.3, -0.4]), SpgSettings(**changes))
    others = {"old_logp": logp + 0.1, "start_logp": logp.flip(0)}
    weights = spg_weights(logp, *about, **others)

    def value(one: Tensor) -> Tensor:
        return spg_loss(one, *about, **others).loss

    leaf = logp.clone().requires_grad_()
    assert torch.autograd.gradcheck(value, (leaf,))
    (wanted,) = torch.autograd.grad(value(leaf), leaf)
    assert torch.equal(weights, wanted)
    assert bool((weights[:, 2] == 0).all()) == ("negative_floor" in changes and len(changes) == 1)


def test_a_floor_that_is_not_reached_leaves_the_published_weights() -> None:
    logp = torch.tensor([[[0.5], [0.25]], [[0.4], [0.125]]]).log()
    about = (ONES, ONES[0], ADVANTAGES)
    plain = spg_weights(logp, *about, SpgSettings())
    assert torch.allclose(spg_weights(logp, *about, SpgSettings(negative_floor=-9.0)), plain)
    assert torch.allclose(spg_weights(logp, *about, SpgSettings(ratio_clip=0.2)), plain)


def test_rows_are_looked_at_first_where_a_restraint_depends_on_them() -> None:
    advantages = torch.tensor([1.0, 0.0, -1.0])
    floor = SpgSettings(negative="elbo", negative_floor=-2.0)
    assert needs_preview(advantages, floor).tolist() == [False, False, True]
    assert needs_preview(advantages, SpgSettings(ratio_clip=0.2)).all()
    assert needs_preview(advantages, SpgSettings(start_kl=0.1)).all()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"negative_floor": 0.0}, "negative_floor must be below 0, got 0.0"),
        ({"ratio_clip": 1.0}, "ratio_clip must be below 1, got 1.0"),
        ({"start_kl": -1.0}, "start_kl must be at least 0, got -1.0"),
    ],
)
def test_restraints_that_cannot_work_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        SpgSettings(**changes)
