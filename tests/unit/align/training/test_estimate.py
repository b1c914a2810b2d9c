"""The dry run, counted by hand."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from remask.align.estimate import RowSize, estimate, forwards_per_update
from remask.align.policy import load_policy, log_probs, trained
from remask.align.rollout import Prompts, draw_groups
from remask.align.settings import AlignSettings
from remask.sampling.batches import finished_rows
from remask.tasks import task as find_task
from remask.testing import write_checkpoint

Settings = Callable[..., AlignSettings]


def test_forward_passes_are_counted_by_hand(settings: Settings) -> None:
    """2 prompts x 3 completions, 2 updates on each rollout.

    rollout: 6 rows x 4 steps / 2; score: 6 x 2 trips x 2 steps / 2; preview and update: 6 x 2
    copies. Blocks of 4 on a canvas of 16: a block-causal model rebuilds 4 times as often.
    """
    canvas = RowSize(num_prompt=20, length=16, steps=4, block=4)
    s = settings(reward="consistency")
    wanted = {"rollout": 12.0, "score": 12.0, "preview": 12.0, "update": 12.0}
    assert forwards_per_update(s, canvas) == wanted
    assert forwards_per_update(s, canvas, 4) == {**wanted, "score": 48.0}
    other = partial(settings, reward="consistency", trips=4, rebuild_steps=16, metrics="paper")
    # One pass, or 1 + 8 + 8; in blocks of 4 twice as dear.
    passes = {"probe": (1, 2), "verifier": (17, 2 * (1 + 8 + 8))}
    for name, (plain, in_blocks) in passes.items():
        assert forwards_per_update(other(scorer=name), canvas)["score"] == 6 * plain / 2
        assert forwards_per_update(other(scorer=name), canvas, 4)["score"] == 6 * in_blocks / 2
    outcome = settings(reward="outcome", negative="elbo")
    assert forwards_per_update(outcome, canvas) == {**wanted, "score": 0.0, "preview": 0.0}
    grpo = settings(method="diffu_grpo", reward="outcome")
    assert forwards_per_update(grpo, canvas) == {
        "rollout": 12.0, "score": 0.0, "preview": 6 * (0.5 + 1), "update": 6.0,
    }  # fmt: skip
    regression = partial(settings, method="regression", reward="outcome")
    # Copies 2 of 6 rows: on every second update what moved and from where; or both on each.
    for anchor, preview in (("rollout", 12 * (0.5 + 0.5)), ("start", 12 * (1 + 1))):
        found = forwards_per_update(regression(anchor=anchor), canvas)
        assert found == {"rollout": 12.0, "score": 0.0, "preview": preview, "update": 12.0}
    held = settings(reward="outcome", negative="elbo", ratio_clip=0.2, start_kl=0.1)
    assert forwards_per_update(held, canvas)["preview"] == 12 * (1 + 0.5 + 1)
    sft = settings(method="sft")
    assert forwards_per_update(sft, canvas) == {
        "rollout": 0.0, "score": 0.0, "preview": 0.0, "update": 6.0,
    }  # fmt: skip


def test_parameters_are_those_of_the_loaded_model(settings: Settings) -> None:
    for tuning in ("full", "lora"):
        s = settings(tuning=tuning)
        found, policy = estimate(s), load_policy(s)
        learn = sum(p.numel() for p in trained(policy).values())
        assert found["trained"] == learn
        assert found["memory_gb"]["optimizer"] == pytest.approx(8 * learn / 1e9)
        assert found["memory_gb"]["gradients"] == pytest.approx(4 * learn / 1e9)


def test_weights_and_arithmetic_are_counted_by_hand(settings: Settings, tmp_path: Path) -> None:
    """Width 8, inner 16, 3 layers, vocabulary 32, untied.

    A block has 8 x 24 + 8 x 8 + 8 x 32 + 16 x 8 = 640 weights in matrices and 16 in norms; with
    two embeddings of 256 and a norm of 8: 3 x 656 + 520 = 2,488 parameters, 4 bytes each.
    Adapters of rank 2: 2 x (32 + 16 + 40 + 24) = 224 a block, 672 in all.
    A row has 200 + 16 tokens: 216 x (2 x 1920 + 4 x 216 x 24) FLOPs in the blocks, and 2 x 8 x 32
    for each row of the head, half a block of 4 on average.
    """
    config = {
        "architectures": ["LLaDAModelLM"], "d_model": 8, "n_layers": 3, "n_heads": 2,
        "n_kv_heads": 2, "mlp_hidden_size": 16, "vocab_size": 32, "max_sequence_length": 64,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    s = settings(model=str(tmp_path), tuning="lora", reward="outcome", dtype="float32")
    found = estimate(s, processes=2, tflops=1.0)
    assert found["parameters"] == 2488
    assert found["memory_gb"]["weights"] == pytest.approx(2488 * 4 / 1e9)
    assert found["trained"] == 672
    assert found["row_tokens"] == {"prompt": 200, "canvas": 16}
    row = 216 * (2 * 1920 + 4 * 216 * 24) + 2 * (2 * 8 * 32)
    assert found["seconds_per_update"]["rollout"] == pytest.approx(12 * row / 2e12)
    total = sum(found["seconds_per_update"].values())
    assert found["hours"] == pytest.approx(6 * total / 3600)


def test_the_canvas_is_that_of_the_training(settings: Settings) -> None:
    for changes in ({}, {"length": None, "steps": None, "block": None}, {"block": None}):
        s = settings(**changes)
        prompts = Prompts(s)
        sampler = s.sampler(load_policy(s), prompts.task.canvas_length(prompts.level))
        found = estimate(s)
        assert found["row_tokens"]["canvas"] == sampler.length
        assert found["sampler"] == {"steps": sampler.steps, "block": sampler.block}


def test_a_benchmark_has_the_canvas_of_its_official_evaluation(settings: Settings) -> None:
    found = estimate(settings(task="math", length=None, steps=None))
    assert found["row_tokens"]["canvas"] == find_task("math").canvas_length("")
    assert found["row_tokens"]["canvas"] > 16, "which is the length of the model's preset"


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_activations_are_a_little_more_than_a_graph_holds(
    tuning: str, settings: Settings, tmp_path: Path
) -> None:
    """Counted: the distinct storages that the pass forward leaves for the pass back."""
    model = write_checkpoint(
        tmp_path / "model", layers=3, width=64, heads=4, inner=192, length=64, dtype=torch.float32
    )
    s = settings(model=str(model), tuning=tuning, length=64, steps=16, block=16, lora_rank=8,
                 micro_batch=6)  # fmt: skip
    policy, prompts = load_policy(s), Prompts(s)
    sampler = s.sampler(policy, prompts.task.canvas_length(prompts.level))
    with torch.no_grad():
        drawn = draw_groups(policy, [prompts.training(0)], 6, sampler, seed=0)
    canvas, response = finished_rows(policy, drawn)
    weights = {p.untyped_storage().data_ptr() for p in policy.model.parameters()}
    held: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    policy.model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        log_probs(policy, canvas, response, response)
    told = estimate(s)["memory_gb"]
    total = sum(held.values()) / 1e9
    assert total < told["activations"] + told["logits"] < 2 * total


def test_nothing_is_loaded(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.Module, "to_empty", lambda self, device: pytest.fail("loaded"))
    assert estimate(settings())["memory_gb"]["weights"] > 0


def test_what_several_processes_hold_is_counted_by_hand(settings: Settings, tmp_path: Path) -> None:
    """The model above: 3 blocks of 656 weights, the last of them with the other 520.

    Divided by two: 1,244 float32 weights, gradients and twice moments each, a whole copy that
    writes, and at once whole, with gradients: 520 + 656, and two of the other blocks.
    Adapters are whole: 672 gradients, and 672 twice more while they are summed.
    """
    config = {
        "architectures": ["LLaDAModelLM"], "d_model": 8, "n_layers": 3, "n_heads": 2,
        "n_kv_heads": 2, "mlp_hidden_size": 16, "vocab_size": 32, "max_sequence_length": 64,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    s = settings(model=str(tmp_path), reward="outcome", dtype="float32")
    found = estimate(s, processes=2)
    assert found["sharding"] == "learner"
    memory = {name: size * 1e9 for name, size in found["memory_gb"].items()}
    assert memory["weights"] == pytest.approx(4 * 1244 + 4 * 2488)
    assert memory["gradients"] == pytest.approx(4 * 1244)
    assert memory["optimizer"] == pytest.approx(8 * 1244)
    assert memory["gathered"] == pytest.approx(8 * (520 + 656 + 2 * 656))
    found = estimate(settings(model=str(tmp_path), reward="outcome", dtype="float32",
                              sharding="all"), processes=2)  # fmt: skip
    assert found["memory_gb"]["weights"] * 1e9 == pytest.approx(4 * 1244)
    found = estimate(replace(s, tuning="lora"), processes=2)
    assert found["sharding"] == "none"
    assert found["memory_gb"]["gradients"] * 1e9 == pytest.approx(4 * 3 * 672)
    assert found["memory_gb"]["gathered"] == 0
