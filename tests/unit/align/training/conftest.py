"""Trainings of seconds: a random LLaDA of one layer, single bytes for tokens, canvases of 16."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from remask.align import checkpoint, lora
from remask.align.owners import ignored
from remask.align.settings import AlignSettings, check_settings
from remask.align.trainer import align
from remask.records.run_folder import STATE
from remask.testing import write_checkpoint

TOY = '''
"""Rewards for a model that has learned nothing."""

import os
import signal

calls = 0


def low_ids(prompts, completions, completion_ids, **columns):
    return [sum(i < 131 for i in ids) / len(ids) for ids in completion_ids]


def by_score(prompts, completions, score, **columns):
    return [one.value for one in score]


def failing(prompts, completions, completion_ids, **columns):
    global calls
    calls += 1
    if calls == 3:
        raise ZeroDivisionError("no reason at all")
    return low_ids(prompts, completions, completion_ids)


def deadly(prompts, completions, completion_ids, trainer_state, **columns):
    if trainer_state.global_step >= 4 and os.environ.get("DEADLY"):
        os.kill(os.getpid(), signal.SIGKILL)
    return low_ids(prompts, completions, completion_ids)
'''
Settings = Callable[..., AlignSettings]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("align") / "model"
    return write_checkpoint(
        folder, layers=1, width=16, heads=2, inner=16, length=16, max_length=256,
        dtype=torch.float32,
    )  # fmt: skip


@pytest.fixture(scope="session")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with three layers, so that there is something to divide."""
    folder = tmp_path_factory.mktemp("align") / "deep"
    return write_checkpoint(
        folder, layers=3, width=16, heads=2, inner=16, length=16, max_length=256,
        dtype=torch.float32,
    )  # fmt: skip


@pytest.fixture
def fill_adapters() -> Callable[[torch.nn.Module, Path], None]:
    """Fill the adapters of a network from a folder in peft's layout; every tensor must fit."""

    @torch.no_grad()
    def fill(network: torch.nn.Module, folder: Path) -> None:
        tensors = load_file(folder / "adapter_model.safetensors")
        for name, layer in lora.adapted(network):
            for part in ("lora_A", "lora_B"):
                saved = tensors.pop(f"base_model.model.{name}.{part}.weight")
                weight = getattr(layer, part)["default"].weight
                assert weight.shape == saved.shape
                weight.copy_(saved)
        assert not tensors

    return fill


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of rewards, importable for the length of a test."""
    folder = tmp_path / "rewards"
    folder.mkdir()
    (folder / "toy_rewards.py").write_text(TOY, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(__import__("sys").modules, "toy_rewards", raising=False)
    return folder


@pytest.fixture
def settings(model: Path, tmp_path: Path, toy: Path) -> Settings:
    """Settings of a short training; whatever is named changes them."""

    def make(**changes: Any) -> AlignSettings:
        usual: dict[str, Any] = {
            "model": str(model), "task": "countdown", "out": tmp_path / "out", "tuning": "full",
            "reward": "toy_rewards:low_ids", "updates": 6, "prompts_per_update": 2,
            "num_generations": 3, "inner_updates": 2, "length": 16, "steps": 4, "block": 4,
            "temperature": 1.0, "metrics": "core", "trips": 2, "rebuild_steps": 2,
            "eval_every": 2, "eval_problems": 2, "checkpoint_every": 2, "learning_rate": 1e-3,
            "lora_rank": 2, "lora_dropout": 0.5, "micro_batch": 4, "show_every": 0,
            "track": "none", "device": "cpu",
        }  # fmt: skip
        told = {**usual, **changes}
        fields = {"method": "spg", "scorer": "roundtrips", **told}
        for _, name in ignored({**fields, "reward": fields["reward"].split(",")}):
            if name not in changes:
                told.pop(name, None)
        return check_settings(told)

    return make


@pytest.fixture
def train() -> Callable[..., list[dict[str, Any]]]:
    """Train in this process; return the rows that were said."""

    def run(
        settings: AlignSettings, *, resume: bool = False, resume_from: str = ""
    ) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        align(settings, rows.append, resume=resume, resume_from=resume_from)
        return rows

    return run


def last_state(out: Path) -> dict[str, Any]:
    folder = checkpoint.folder_of(out)
    last = folder.last()
    assert last is not None
    state: dict[str, Any] = torch.load(last / STATE, weights_only=True)
    return {**folder.read(last), **state}


@pytest.fixture
def state_of() -> Callable[[Path], dict[str, Any]]:
    return last_state


@pytest.fixture
def same_state() -> Callable[[Path, Path], None]:
    """Assert that two runs ended with the same weights, moments and place, bit for bit."""

    def check(a: Path, b: Path) -> None:
        one, other = last_state(a), last_state(b)
        assert one["weights"].keys() == other["weights"].keys()
        assert all(torch.equal(one["weights"][n], other["weights"][n]) for n in one["weights"])
        for number, moments in one["moments"].items():
            for name, value in moments.items():
                assert torch.equal(value, other["moments"][number][name])
        assert one["place"] == other["place"]
        assert one["guard"] == other["guard"]

    return check
