"""The formulas of appendix C, with T = 12, K = 4 and N = 2, on pools of two samples.

problem   scores     written   verified
a         .9 .1      10 10     8 8         accepted at once
b         .2 .8      6 10      8 4         the second is accepted
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remask.analysis.cost import Steps, cost
from remask.analysis.figure import Figures
from remask.errors import RecordError
from remask.records import jsonl
from remask.records.manifest import FileState, Manifest
from remask.records.record import Record

Make = Callable[..., Record]
STEPS = Steps(generation=12, rebuild=4, trips=2)


@pytest.fixture
def rows(make_record: Make) -> list[Record]:
    table = {"a": ((0.9, 10, 8), (0.1, 10, 8)), "b": ((0.2, 6, 8), (0.8, 10, 4))}
    return [
        replace(make_record(name, k, score=score), forwards=written, verify_forwards=verified)
        for name, pool in table.items()
        for k, (score, written, verified) in enumerate(pool)
    ]


def told(rows: list[Record]) -> dict[str, tuple[float, ...]]:
    """Return the formula, what was counted, and their ratio."""
    figures = cost("s", rows, STEPS, 0.5, resamples=50)
    by_method: dict[str, dict[str, float]] = {}
    for figure in figures:
        by_method.setdefault(figure.method, {})[figure.measure] = figure.value
    measures = ("formula", "counted", "ratio")
    return {method: tuple(row[m] for m in measures) for method, row in by_method.items()}


def test_every_formula_is_worked_out(rows: list[Record]) -> None:
    """T = 12, N K = 8. The first samples took 10 and 6 forwards to write, 8 each to verify.

    Pools took 20 and 16 to write; 2 T is 24. Rejection sampling drew 1 and 2 samples for 18 and 28
    forwards; N_avg (T + N K) is 1.5 x 20. The share is 32 / 36 counted and 20 / 24 by the formula.
    """
    found = told(rows)
    expected = {
        "generation": (12, 8, 8 / 12),
        "verification": (8, 8, 1),
        "diagnosis": (20, 16, 16 / 20),
        "self_consistency": (24, 18, 18 / 24),
        "diagnosis_share": (20 / 24, 32 / 36, (32 / 36) / (20 / 24)),
        "mgrs": (30, 23, 23 / 30),
    }
    assert found.keys() == expected.keys()
    for what, values in expected.items():
        assert found[what] == pytest.approx(values), what


def test_a_pool_of_one_has_no_self_consistency(make_record: Make) -> None:
    found = told([make_record("a"), make_record("b")])
    assert set(found) == {"generation", "verification", "diagnosis", "mgrs"}


def test_rejection_sampling_needs_a_verified_pool(rows: list[Record]) -> None:
    unscored = replace(rows[1], verify_forwards=None)
    assert "mgrs" not in told([rows[0], unscored, *rows[2:]])
    assert cost("s", [replace(unscored, number=0)], STEPS, 0.5) == []


def test_what_was_asked_is_read_from_the_manifest(tmp_path: Path, rows: list[Record]) -> None:
    path = tmp_path / "pool-wordmath-hard.jsonl"
    jsonl.append(path, [row.to_json() for row in rows])
    with pytest.raises(RecordError, match="has no manifest pool-wordmath-hard"):
        Steps.read(path)
    asked = {"sampler": {"steps": 12}, "consistency": {"rebuild_steps": 4, "trips": 2}}
    manifest = tmp_path / "pool-wordmath-hard.jsonl.manifest.json"
    manifest.write_text(json.dumps({"asked": asked}))
    assert Steps.read(path) == STEPS
    manifest.write_text(json.dumps({"asked": {**asked, "sampler": {"steps": "12"}}}))
    with pytest.raises(
        RecordError, match=r"is damaged: asked\.sampler\.steps is '12', not a whole"
    ):
        Steps.read(path)
    Manifest(settings=asked, file=FileState()).write(path)
    with pytest.raises(RecordError, match="was edited after remask wrote it, so its cost is"):
        Steps.read(path)


def test_figures_have_the_names_of_their_formulas(rows: list[Record]) -> None:
    found = Figures(cost("wordmath-hard", rows, STEPS, 0.5, resamples=5))
    assert found["cost/wordmath-hard/mgrs/formula"].value == 30
    assert found["cost/wordmath-hard/mgrs/counted"].value == 23
    assert found["cost/wordmath-hard/diagnosis_share/counted"].unit == "share"
