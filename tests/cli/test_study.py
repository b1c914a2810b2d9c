"""`study`, on records written by hand: what it prints is what the library returns."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remask.report.studies import NAMES, study
from remask.report.table import text

Run = Callable[..., Any]
Fails = Callable[..., str]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Six problems of three samples, four of the first samples right; the right score higher."""
    rows = []
    for k in range(6):
        for number in range(3):
            right = (k + number) % 6 < 4
            score = 0.9 - k / 100 if right else 0.6 + k / 100
            rows.append(
                {
                    "id": f"wordmath/easy/test/0/{k}", "task": "wordmath", "level": "easy",
                    "number": number, "prompt": "Ben has 12 pens.", "gold": "12",
                    "text": "\u001b[31m#### 12", "answer": str(12 + (not right)), "right": right,
                    "process_ok": right and k > 0, "forwards": 4, "verify_forwards": 8,
                    "scores": {"confidence": 0.9, "roundtrips": score},
                    "by_trip": {"token_accuracy": [score, score]},
                }
            )  # fmt: skip
    path = tmp_path / "few.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = {"sampler": {"steps": 4}, "consistency": {"rebuild_steps": 4, "trips": 2}}
    Path(f"{path}.manifest.json").write_text(json.dumps({"asked": asked}))
    return path


@pytest.mark.parametrize("name", NAMES)
def test_json_is_what_the_library_says(run: Run, source: Path, name: str) -> None:
    told = json.loads(run("study", name, source, "--json").out)
    same = json.loads(json.dumps(study(name, [source]).document()))
    assert told == {**same, "files": []}


def test_tables_are_printed_with_intervals_and_what_is_missing(run: Run, source: Path) -> None:
    shown = run("study", "diagnosis", source).out
    told = study("diagnosis", [source])
    for table in told.tables:
        assert table.title in shown
        assert all(text(cell) in shown for row in table.rows for cell in row)
    assert "remask collect --split validation" in shown


def test_what_a_model_wrote_cannot_move_the_cursor(run: Run, source: Path) -> None:
    low = source.read_text().replace('"roundtrips": 0.9}', '"roundtrips": 0.1}')
    source.write_text(low)  # the right answer with a wrong step, now below the threshold
    shown = run("study", "spurious", source).out
    assert "\\x1b[31m#### 12" in shown
    assert "\x1b[31m" not in shown


def test_tables_and_plots_are_written_on_demand(run: Run, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "told"
    shown = run("study", "correction", source, "--out", out, "--json")
    files = json.loads(shown.out)["files"]
    assert sorted(files) == sorted(str(path) for path in out.iterdir())
    assert {Path(path).suffix for path in files} == {".md", ".csv", ".svg"}


def test_mistakes_are_one_sentence(fails: Fails, source: Path, tmp_path: Path) -> None:
    assert "does not exist; name a folder" in fails(1, "study", "cost", tmp_path / "none")
    assert "alignment" in fails(2, "study", "alignment", source)
    assert "reads one folder or file" in fails(1, "study", "cost", source, source)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "holds no records; collect some" in fails(1, "study", "geometry", empty)


OWN = """
from remask.analysis.figure import Figures
from remask.report.studies.base import Study
from remask.report.table import Table


def tables(figures):
    return [Table(name="sizes", title="How many", heads=["records"], rows=[["some"]])]


STUDY, OWN = Study(name="counting", figures=lambda source: Figures(), tables=tables), 3
"""


def test_a_study_of_ones_own_is_named_by_its_module(
    run: Run, fails: Fails, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_study.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "out"
    shown = json.loads(run("study", "own_study:STUDY", source, "--out", out, "--json").out)
    assert (shown["study"], shown["tables"][0]["title"]) == ("counting", "How many")
    assert (out / "counting.md").exists()
    assert "has no name, run" in fails(1, "study", "own_study:OWN", source)
    assert "cannot be imported" in fails(1, "study", "own_study:nothing", source)
