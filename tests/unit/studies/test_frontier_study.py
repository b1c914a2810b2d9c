"""The frontier as tables and as a picture, of drawn records."""

import csv
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from remask.analysis.figure import Figure, Figures
from remask.analysis.load_records import read_source
from remask.records import jsonl
from remask.records.record import Record
from remask.report.studies import study
from remask.report.studies.base import StudyResult
from remask.report.table import Table, text
from studies.frontier import measure as frontier
from studies.frontier.plot import frontier_plot
from studies.frontier.study import STUDY

Draw = Callable[..., list[Record]]


@pytest.fixture(scope="module", autouse=True)
def few_fits() -> Iterator[None]:
    """How good the fits are is not what these tests look at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier, "LABELS", (50, 200))
        patch.setattr(frontier, "USUAL", 50)
        patch.setattr(frontier, "fit_set", partial(frontier.fit_set, draws=2))
        patch.setattr(frontier, "fit_sequential", partial(frontier.fit_sequential, draws=2))
        yield


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, draw_features: Draw) -> StudyResult:
    folder = tmp_path_factory.mktemp("records")
    places = {"wordmath-hard": ("wordmath", "hard", 170), "choice": ("choice", "medium", 170),
              "pycode": ("pycode", "medium", 30)}  # fmt: skip
    for name, (task, level, problems) in places.items():
        for split in ("test", "validation"):
            rows = draw_features(problems, 10, split=split, task=task, level=level)
            jsonl.append(folder / f"{split}-{name}.jsonl", [row.to_json() for row in rows])
        (folder / f"test-{name}.jsonl").rename(folder / f"{name}.jsonl")
    return study(STUDY, [folder])


def table(told: StudyResult, name: str) -> Table:
    return next(table for table in told.tables if table.name == name)


def test_the_one_table_has_a_row_per_method_with_its_cost(told: StudyResult) -> None:
    own = table(told, "mean")
    rows = {str(row[0]): row for row in own.rows}
    assert list(rows)[:3] == ["round trips", "one probe", "verifier, label-free"]
    assert {"10 samples", "10 samples, fitted", "sequential", "length", "TRE"} <= set(rows)
    assert own.heads[:4] == ["score", "n", "extra forwards", "AUROC"]
    verifier = dict(zip(own.heads, rows["verifier, label-free"], strict=True))
    assert text(verifier["extra forwards"]) == "17.0"
    assert verifier["AUROC"] == told.figures["frontier/mean/verifier/auroc"]
    assert own.note == "Left out, with fewer than 50 of the rarer outcome: pycode."


def test_every_set_is_shown_also_one_that_is_left_out_of_the_mean(told: StudyResult) -> None:
    assert table(told, "sets-auroc").heads == ["score", "wordmath-hard", "choice", "pycode"]
    assert told.figures["frontier/mean/sets"].value == 2
    assert table(told, "carried-verifier").heads[1:] == [
        "on wordmath-hard", "on choice", "on pycode",
    ]  # fmt: skip
    fits = {str(row[0]): row for row in table(told, "carried-fitted20").rows}
    assert fits["choice"][2] == "", "a set's own fit is not carried"
    assert isinstance(fits["choice"][1], Figure)


def test_differences_stand_with_and_without_each_family(told: StudyResult) -> None:
    own = table(told, "differences")
    assert own.heads[1] == "all sets"
    assert {"without wordmath", "only wordmath", "without choice"} <= set(own.heads)
    labels = [row[0] for row in own.rows]
    assert labels[:2] == [
        "verifier, label-free - round trips", "verifier, label-free - round trips, equal length",
    ]  # fmt: skip


def test_the_picture_says_what_it_draws_and_comes_with_its_numbers(
    told: StudyResult, tmp_path: Path
) -> None:
    ((records, plot),) = told.plots
    path = plot.write(tmp_path, f"{records}-")
    assert path.name == "mean-frontier.svg"
    picture = path.read_text()
    assert "one probe" in picture
    assert "forwards per answer beyond" in picture
    with path.with_suffix(".csv").open(newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    value = told.figures["frontier/mean/verifier/auroc"].value
    assert float(rows["verifier, label-free"]["auroc"]) == value
    front = [name for name, row in rows.items() if row["on_front"] == "1"]
    assert "10 samples" not in front, "another set of methods reaches more for less here"
    assert all(name in plot.says for name in front)
    assert len(rows) > len(front) > 0


def test_without_a_set_that_counts_there_is_no_picture() -> None:
    assert frontier_plot(Figures(), {}) is None


def test_what_the_records_lack_is_said(draw_features: Draw, tmp_path: Path) -> None:
    rows = [row.to_json() for row in draw_features(12, num_read=0)]
    jsonl.append(tmp_path / "wordmath-hard.jsonl", rows)
    notes = STUDY.run(read_source(tmp_path)).notes
    assert [note.split(":")[0] for note in notes] == [
        "No optimized weights", "No probes", "No rejection sampling",
    ]  # fmt: skip
