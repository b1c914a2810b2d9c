"""The collection of the frontier: what validation chooses is worked out by hand."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import frontier
import pytest

from remask.probes.settings import Probe
from remask.records.record import Record
from remask.tasks import TASKS

MakeRecord = Callable[..., Record]


def test_the_sets_are_tasks_with_levels_and_the_label_free_probes_cost_25_passes() -> None:
    for own in frontier.SETS.values():
        assert own.level in TASKS[own.task].levels
        assert 1000 <= own.problems <= 5000
    assert sum(Probe.named(probe).passes for probe in frontier.PROBES) == 25


def test_a_plain_mean_passes_over_what_is_absent() -> None:
    features = {"critical.critical_mean": math.log(0.2), "forced8.response_mean": math.log(0.6)}
    assert frontier.plain_mean(features, ("critical", "forced8")) == pytest.approx(0.4)
    assert frontier.plain_mean(features, ("critical", "halves8")) == pytest.approx(0.2)


def test_sets_of_a_family_are_left_out_together() -> None:
    values = {"choice": 0.5, "choice-hard": 0.7, "pycode": 0.9}
    assert frontier.without(values, "choice") == {"pycode": 0.9}


def test_choosing_ranks_probes(
    tmp_path: Path, draw_features: Callable[..., list[Record]], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, own in frontier.SETS.items():
        rows = draw_features(40, task=own.task, level=own.level, split="validation")
        lines = "".join(json.dumps(row.to_json()) + "\n" for row in rows)
        (tmp_path / f"validation-{name}.jsonl").write_text(lines)
    frontier.choose(tmp_path)
    shown = capsys.readouterr().out
    assert "without choice: " in shown
