"""`--split layers`: the same answers from a model over two devices, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.testing import write_checkpoint

Run = Callable[..., Any]
Fails = Callable[..., str]
BOTH = ("--device", "cpu,cpu", "--split", "layers")


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random LLaDA of two layers."""
    folder = tmp_path_factory.mktemp("deep") / "model"
    write_checkpoint(
        folder, layers=2, width=16, heads=2, inner=16, length=16, max_length=1024,
        dtype=torch.float32,
    )  # fmt: skip
    return str(folder)


@pytest.fixture
def words(deep: str) -> tuple[str, ...]:
    return ("--model", deep, "--metrics", "core", "--trips", "1", "--rebuild-steps", "1")


def test_verify_tells_what_one_device_tells(run: Run, words: tuple[str, ...]) -> None:
    one, over = (
        json.loads(run("verify", "1 + 1?", "It is 2.", *words, *more, "--json").out)
        for more in (("--device", "cpu"), BOTH)
    )
    assert one == over


def test_collect_takes_both_splits_and_writes_the_same_bytes(
    run: Run, words: tuple[str, ...], tmp_path: Path
) -> None:
    task = ("--task", "wordmath", "--problems", "2", "--length", "16", "--steps", "2")
    files = []
    for name, more in (("one", ("--device", "cpu")), ("over", BOTH)):
        out = tmp_path / f"{name}.jsonl"
        split = ("--split", "validation")
        assert run("collect", "-o", out, *task, *words, *more, *split).code == 0
        files.append(out.read_bytes())
    assert files[0] == files[1]
    assert b"validation" in files[0]


@pytest.mark.parametrize("command", ["solve", "verify", "score", "collect", "serve", "demo"])
def test_every_command_that_loads_a_model_has_the_flag(run: Run, command: str) -> None:
    assert "layers" in run(command, "--help").out


def test_what_cannot_be_split_is_one_sentence(
    run: Run, fails: Fails, words: tuple[str, ...], tmp_path: Path
) -> None:
    """The second is of three layers of a model that has two; Ray's workers have one device."""
    one = fails(1, "verify", "1", "2", *words, "--device", "cpu", "--split", "layers")
    assert one.startswith("split 'layers' spreads one model over several devices and device 'cpu'")
    three = fails(1, "verify", "1", "2", *words, "--device", "cpu,cpu,cpu", "--split", "layers")
    assert "names 3 devices and the model has 2 layers" in three
    collect = ("collect", "-o", tmp_path / "o.jsonl", "--task", "wordmath", *words)
    assert "leave --engine ray out" in fails(2, *collect, *BOTH, "--engine", "ray")
    assert "Unknown split 'tests'. Did you mean 'test'?" in fails(2, *collect, "--split", "tests")
    twice = ("--split", "test", "--split", "train")
    assert "--split test --split train is more than one choice" in fails(2, *collect, *twice)
    assert list(tmp_path.iterdir()) == []
