"""The gradient of an update: copy by copy, part by part, whatever saves memory."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.align import update
from remask.align.method_settings import SpgSettings
from remask.align.policy import Policy, learning, load_policy, trained
from remask.align.rollout import Prompts, draw_groups
from remask.align.settings import AlignSettings
from remask.align.spg import spg_loss
from remask.align.update import Batch, Updater

Settings = Callable[..., AlignSettings]


def batch_of(s: AlignSettings) -> tuple[Any, Batch]:
    policy, prompts = load_policy(s), Prompts(s)
    sampler = s.sampler(policy, prompts.task.canvas_length(prompts.level))
    with torch.no_grad():
        samples = draw_groups(policy, [prompts.training(0)], 3, sampler, seed=0)
    advantages = torch.tensor([0.5, -0.7, 0.2])
    tokens = sum(found.num_response for found in samples)
    batch = Batch(
        samples=samples, advantages=advantages, num_tokens=tokens, num_rows=3, update=0,
    )  # fmt: skip
    return policy, batch


def gradients(s: AlignSettings) -> dict[str, torch.Tensor]:
    policy, batch = batch_of(s)
    Updater(policy, s, s.masks(s.block or 1)).backward(batch)
    return {n: p.grad.clone() for n, p in trained(policy).items() if p.grad is not None}


def test_a_copy_at_a_time_leaves_the_gradient_of_all_at_once(settings: Settings) -> None:
    s = settings(copies=3)
    policy, batch = batch_of(s)
    updater = Updater(policy, s, s.masks(4))
    (part,) = updater._micro_batches(batch, 0)
    masks = updater._draw(part)
    logp = torch.stack(
        [update.log_probs(policy, part.canvas, masks.masked[m], masks.counted[m]) for m in range(3)]
    )
    loss = spg_loss(logp, masks.counted, part.response, part.advantages, s.part(SpgSettings)).loss
    loss.backward()
    wanted = {n: p.grad.clone() for n, p in trained(policy).items() if p.grad is not None}
    found = gradients(s)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, atol=1e-6, rtol=1e-4)


def test_rows_that_are_not_pushed_down_are_left_out_and_nothing_changes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of advantages .5, -.7 and .2 the second has weight 0 where nothing goes downwards."""
    s = settings(copies=2, negative="zero", micro_batch=4)
    policy, batch = batch_of(s)
    updater = Updater(policy, s, s.masks(4))
    assert [i for part in updater._micro_batches(batch, 0) for i in part.rows] == [0, 2]
    found = gradients(s)
    monkeypatch.setattr(Updater, "_learning_rows", lambda self, batch: [0, 1, 2])
    for name, value in gradients(s).items():
        torch.testing.assert_close(found[name], value, atol=1e-6, rtol=1e-4)


@torch.no_grad()
def shaken(policy: Policy) -> Policy:
    """Return a policy whose trained weights are all random: adapters begin with zeros."""
    generator = torch.Generator().manual_seed(0)
    for parameter in trained(policy).values():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
    return policy


@pytest.mark.parametrize(
    "changes", [{}, {"negative": "zero"}, {"method": "diffu_grpo", "kl_weight": 0.0}]
)
def test_padding_changes_neither_gradient_nor_log(
    changes: dict[str, Any], settings: Settings
) -> None:
    """Another rank has two micro-batches more."""
    s = settings(**changes)
    policy, batch = batch_of(s)
    padded = Updater(policy, s, s.masks(4), largest=lambda number: number + 2)
    assert len(list(padded._micro_batches(batch, 0))) == 3
    sums = padded.backward(batch)
    found = {n: p.grad.clone() for n, p in trained(policy).items() if p.grad is not None}
    policy.model.zero_grad()
    assert sums == pytest.approx(Updater(policy, s, s.masks(4)).backward(batch), rel=1e-5)
    for name, p in trained(policy).items():
        torch.testing.assert_close(found[name], p.grad, atol=1e-6, rtol=1e-4)


@torch.no_grad()
def test_what_a_gradient_is_weighed_by_has_the_dropout_of_its_own_pass(settings: Settings) -> None:
    s = settings(copies=2, tuning="lora")
    policy, batch = batch_of(s)
    updater = Updater(shaken(policy), s, s.masks(4))
    (part,) = updater._micro_batches(batch, 0)
    masks = updater._draw(part)
    passes = [(part.canvas, masks.masked[m], masks.counted[m]) for m in range(2)]
    dry = torch.stack([update.log_probs(policy, *seen) for seen in passes])
    wanted = torch.zeros_like(dry)
    for m, seen in enumerate(passes):
        with learning(policy, 0, part.number, m, seed=s.seed):
            wanted[m] = update.log_probs(policy, *seen)
    assert torch.equal(updater._preview(part, masks, 0), wanted)
    assert not torch.equal(dry, wanted)


@pytest.mark.parametrize(("kl_weight", "learns"), [(0.04, True), (0.0, False)])
def test_the_penalty_of_d1_holds_rows_without_advantage_too(
    kl_weight: float, learns: bool, settings: Settings
) -> None:
    s = settings(method="diffu_grpo", kl_weight=kl_weight)
    policy, batch = batch_of(s)
    reference, _ = batch_of(s)
    still = replace(batch, advantages=torch.zeros(3))
    Updater(shaken(policy), s, s.masks(4), reference).backward(still)
    assert any(p.grad is not None for p in trained(policy).values()) is learns


@pytest.mark.parametrize("changes", [{"micro_batch": 1}, {"gradient_checkpointing": True}])
def test_what_saves_memory_changes_no_gradient(
    changes: dict[str, Any], settings: Settings, tmp_path: Path
) -> None:
    wanted, found = gradients(settings()), gradients(settings(**changes))
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, atol=1e-6, rtol=1e-4)


def test_dropout_is_drawn_from_the_seed_and_leaves_no_trace(settings: Settings) -> None:
    before = torch.random.get_rng_state()
    one = gradients(settings(tuning="lora"))
    assert torch.equal(before, torch.random.get_rng_state())
    torch.rand(3)
    other, third = gradients(settings(tuning="lora")), gradients(settings(tuning="lora", seed=1))
    assert all(torch.equal(one[n], other[n]) for n in one)
    assert not all(torch.equal(one[n], third[n]) for n in one)
