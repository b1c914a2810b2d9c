"""Problems that cannot be asked: kept, counted beside n everywhere, and tried again."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.analysis import fitting
from remask.collect import answers
from remask.collect.collect import collect
from remask.collect.settings import CollectSettings
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.errors import InputError, RecordError
from remask.records import jsonl
from remask.report.page import write_page
from remask.report.studies import study
from remask.sampling.settings import SamplerSettings
from remask.testing import write_checkpoint

Make = Callable[..., dict[str, Any]]
FINE = [{"question": f"What is {k}?", "answer": f"So.\n#### {k}"} for k in range(4)]
LONG = {"question": "Why? " * 400, "answer": "So.\n#### 1"}
ODD = {"question": "Half a pair \ud800?", "answer": "So.\n#### 1"}
EMPTY_TURN = {"question": "An <|endoftext|> inside?", "answer": "So.\n#### 1"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Denoiser:
    torch.set_num_threads(1)
    folder = write_checkpoint(
        tmp_path_factory.mktemp("checkpoint") / "model", layers=1, width=16, heads=2, inner=16,
        length=16, max_length=512, dtype=torch.float32,
    )  # fmt: skip
    return load(folder, device="cpu")


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def settings(tmp_path: Path) -> CollectSettings:
    rows = [FINE[0], LONG, FINE[1], ODD, EMPTY_TURN, FINE[2]]
    return CollectSettings(
        task="gsm8k", data=write_rows(tmp_path / "rows.jsonl", rows), problems=6, samples=2,
        sampler=SamplerSettings(length=16, steps=2, block=16, temperature=1.0), metrics="core",
        consistency=ConsistencySettings(trips=1, rebuild_steps=1),
    )  # fmt: skip


def test_a_problem_that_cannot_be_asked_is_one_row_that_names_it(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    rows = list(jsonl.read(collect(model, settings, tmp_path / "out.jsonl")))
    shape = [(row["id"].rpartition("/")[2], row["number"], "error" in row) for row in rows]
    assert shape == [
        ("0", 0, False), ("0", 1, False), ("1", 0, True), ("2", 0, False), ("2", 1, False),
        ("3", 0, True), ("4", 0, True), ("5", 0, False), ("5", 1, False),
    ]  # fmt: skip
    long, odd, special = (row["error"] for row in rows if "error" in row)
    assert long.startswith("gsm8k/all/test/0/1 cannot be asked: the prompt has 2")
    assert "more than the 512" in long
    assert "is not valid unicode" in odd
    assert "contains the special token" in special
    assert rows[5]["prompt"].count("\ud800") == 1, "what it was stays to be seen"
    document = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert document["runs"][0]["errors"] == 3


def test_answers_do_not_depend_on_errors_between_them(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    rows = list(jsonl.read(collect(model, settings, tmp_path / "out.jsonl")))
    alone = replace(settings, data=write_rows(tmp_path / "fine.jsonl", FINE), problems=1)
    own = list(jsonl.read(collect(model, alone, tmp_path / "own.jsonl")))
    assert [row["text"] for row in own] == [row["text"] for row in rows[:2]]


def test_errors_are_tried_again_only_when_asked_for_and_keep_their_places(
    model: Denoiser, settings: CollectSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = collect(model, settings, tmp_path / "out.jsonl")
    before = list(jsonl.read(out))
    collect(model, settings, out)
    assert list(jsonl.read(out)) == before
    real = answers.prompt_for
    fixed = "gsm8k/all/test/0/1"

    def lenient(denoiser: Denoiser, problem: Any, length: int) -> answers.PromptedProblem:
        if problem.id == fixed:
            return real(denoiser, replace(problem, prompt="Why?"), length)._replace(problem=problem)
        return real(denoiser, problem, length)

    monkeypatch.setattr("remask.collect.collect.prompt_for", lenient)
    collect(model, settings, out, retry_errors=True)
    rows = list(jsonl.read(out))
    assert [(row["id"], row["number"]) for row in rows if "error" not in row][2:4] == [
        (fixed, 0), (fixed, 1),
    ]  # fmt: skip
    assert [row for row in rows if row["id"] != fixed] == [r for r in before if r["id"] != fixed]
    runs = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())["runs"]
    assert (runs[-1]["retried"], runs[-1]["errors"]) == (3, 2)
    same = out.read_bytes()
    collect(model, settings, out)
    assert out.read_bytes() == same, "a file with answers in the place of errors goes on"


def test_where_nothing_can_be_asked_nothing_is_written(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    write_rows(tmp_path / "rows.jsonl", [LONG, LONG])
    with pytest.raises(InputError, match=r"gsm8k/all/test/0/0 cannot be asked: the prompt has"):
        collect(model, replace(settings, problems=2), tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_another_kind_of_records_is_replaced_only_by_force_and_the_same_is_continued(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, replace(settings, problems=2), tmp_path / "out.jsonl")
    begun = out.read_bytes()
    collect(model, settings, out, force=True)
    assert out.read_bytes().startswith(begun)
    runs = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())["runs"]
    assert len(runs) == 2
    other = replace(settings, seed=1, problems=1)
    with pytest.raises(RecordError, match=r"seed was 0, got 1. Choose another file"):
        collect(model, other, out)
    collect(model, other, out, force=True)
    assert [row["id"] for row in jsonl.read(out)] == ["gsm8k/all/test/1/0"] * 2
    out.write_text("my notes\n")
    Path(f"{out}.manifest.json").unlink()
    with pytest.raises(RecordError, match="has no manifest"):
        collect(model, other, out)
    assert out.read_text() == "my notes\n"


@pytest.fixture
def recorded(tmp_path: Path, make_row: Make) -> Path:
    """Six answers, and two problems that could not be asked."""
    folder = tmp_path / "records"
    folder.mkdir()
    rows = [
        make_row(str(k), number, right=k % 2 == 0, score=0.9 - k / 10)
        for k in range(6)
        for number in range(2)
    ]
    errors = [
        {"id": f"wordmath/hard/e{k}", "task": "wordmath", "level": "hard", "number": 0,
         "prompt": "Why?", "gold": "1", "error": f"e{k} cannot be asked: it is <b>too long</b>."}
        for k in range(2)
    ]  # fmt: skip
    jsonl.append(folder / "some.jsonl", [*rows[:4], errors[0], *rows[4:], errors[1]])
    return folder


@pytest.mark.parametrize("name", ["diagnosis", "correction"])
def test_every_table_counts_them_beside_n(recorded: Path, name: str) -> None:
    tables = [table for table in study(name, [recorded]).tables if "n" in table.heads]
    assert tables
    for table in tables:
        counts = {row[list(table.heads).index("n")] for row in table.rows}
        assert counts == {"6, 2 errors"}, table.title


def test_the_report_counts_and_lists_them(recorded: Path, tmp_path: Path) -> None:
    page = write_page(recorded / "some.jsonl", tmp_path / "page.html").read_text()
    assert "12 answers in one file, 6 of them right. 2 more problems could not be asked." in page
    assert "Problems that could not be asked" in page
    assert "e1 cannot be asked: it is &lt;b&gt;too long&lt;/b&gt;." in page
    assert "6, 2 errors" in page


def test_weights_are_fitted_on_the_answers(recorded: Path) -> None:
    asked = {"task": "wordmath", "model": "m", "split": "test", "seed": 0, "metrics": "core"}
    (recorded / "some.jsonl.manifest.json").write_text(json.dumps({"asked": asked}))
    assert fitting.fit(recorded / "some.jsonl", columns=["confidence", "vote"]).n == 6
    with pytest.raises(InputError, match="holds no editor; collect it with --baselines editor"):
        fitting.fit(recorded / "some.jsonl", columns=["editor"])
