"""The picture of a training: what is on it is what the log says."""

import json
from pathlib import Path
from typing import Any

import pytest

from remask.report import render, training


def write_log(out: Path, lines: list[Any]) -> None:
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (out / "log.jsonl").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")


def test_lines_are_the_log_and_what_is_absent_has_no_panel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skipped update has no loss, one reward is no line, and half a row is none."""
    write_log(tmp_path, [
        {"step": 0, "eval/accuracy": 0.5},
        {"step": 1, "reward": 1.0, "loss": 0.1},
        {"step": 2, "loss": None},
        {"step": 3, "loss": 0.3},
        {"step": 3, "eval/accuracy": 0.75},
        '{"step": 4, "lo',
    ])  # fmt: skip
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(render, "panels", lambda panels, path, *, x: drawn.update(panels) or path)
    assert training.draw_training(tmp_path) == tmp_path / "curves.png"
    assert drawn == {
        "Validation accuracy, greedy": {"accuracy": ([0, 3], [0.5, 0.75])},
        "Loss": {"loss": ([1, 3], [0.1, 0.3])},
    }


def test_the_picture_is_there_and_the_same_log_is_the_same_picture(tmp_path: Path) -> None:
    rows = [{"step": i, "reward": i / 10, "reward_std": 0.1, "entropy": 1.0} for i in range(5)]
    write_log(tmp_path, rows)
    picture = training.draw_training(tmp_path)
    assert picture is not None
    assert picture.read_bytes().startswith(b"\x89PNG")
    before = picture.with_suffix(".svg").read_bytes()
    training.draw_training(tmp_path)
    assert picture.with_suffix(".svg").read_bytes() == before


def test_without_a_log_there_is_nothing_to_draw(tmp_path: Path) -> None:
    assert training.draw_training(tmp_path) is None
    write_log(tmp_path, [{"step": 1}])
    assert training.draw_training(tmp_path) is None
