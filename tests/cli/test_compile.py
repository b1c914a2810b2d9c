"""`--compile` reaches the model, in every command that writes or scores answers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.cli.app import LazyCommands

Run = Callable[..., Any]  # see conftest.py
Fails = Callable[..., str]
PROMPT, ANSWER = "What is 2 + 3?", "It is 5."


@pytest.mark.parametrize("command", ["solve", "verify", "score", "collect", "serve"])
def test_a_command_has_the_flag(command: str) -> None:
    flags = {flag for parameter in LazyCommands()[command].params for flag in parameter.opts}
    assert "--compile" in flags


@pytest.mark.parametrize("command", ["solve", "verify", "score", "collect"])
def test_a_command_compiles_the_model_where_it_is_told_to(
    run: Run,
    fast: tuple[str, ...],
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps({"prompt": PROMPT, "answer": ANSWER}) + "\n")
    words: dict[str, tuple[object, ...]] = {
        "solve": (PROMPT, "--budget", "1", "--steps", "2", "--threshold", "0.75"),
        "verify": (PROMPT, ANSWER),
        "score": (source, "-o", out),
        "collect": (
            "--task", "wordmath", "--problems", "1", "--steps", "2", "--scored", "0", "-o", out,
        ),
    }  # fmt: skip
    compiled: list[torch.nn.Module] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda block, **_: compiled.append(block))
    assert run(command, *words[command], *fast, "--device", "cpu", "--compile").code == 0
    assert len(compiled) == 1  # the model has one layer


def test_formats_that_are_not_compiled_are_refused(fails: Fails, fast: tuple[str, ...]) -> None:
    words = ("verify", PROMPT, ANSWER, *fast, "--device", "cpu", "--compile")
    said = fails(1, *words, "--weights", "nf4")
    assert said == "compile requires weights full or fp8, got nf4."
