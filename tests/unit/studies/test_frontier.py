"""The collection of the frontier: what validation chooses is worked out by hand."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remask.records.record import Record
from remask.tasks import TASKS
from studies.frontier import plan as frontier


def test_the_sets_are_tasks_with_levels() -> None:
    for own in frontier.SETS.values():
        assert own.level in TASKS[own.task].levels
        assert 1000 <= own.problems <= 5000


def test_sets_of_values_are_within_the_budget() -> None:
    """Two readings of one probe cost it once, the generation nothing."""
    names = ["generation.response_min", "halves16.critical_min", "halves16.critical_mean"]
    assert len(frontier.affordable(names)) == 3 + 3 + 1
    dear = ["halves16.critical_min", "stratified50x8.response_mean", "halves4.response_mean"]
    assert frontier.affordable(dear) == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]


def test_choosing_ranks_plain_means(
    tmp_path: Path, draw_features: Callable[..., list[Record]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A value that tells all right answers is the best, halves that are absent are passed over."""
    for name, own in frontier.SETS.items():
        rows = [
            replace(row, features={**row.features, "visible.response_mean": math.log(chance)})
            for row in draw_features(40, task=own.task, level=own.level, split="validation")
            for chance in [0.9 if row.right else 0.1]
        ]
        if own.task == "choice":
            absent = {"halves8.critical_mean": None, "halves8.critical_min": None}
            rows = [replace(row, features={**row.features, **absent}) for row in rows]
        lines = "".join(json.dumps(row.to_json()) + "\n" for row in rows)
        (tmp_path / f"tried-{name}.jsonl").write_text(lines)
    frontier.choose(tmp_path)
    shown = capsys.readouterr().out
    best = next(line for line in shown.splitlines() if line.startswith("1.0000"))
    assert best.endswith("visible.response_mean")
    assert "without choice: 1.0000" in shown
    assert "the verifier: " in shown
