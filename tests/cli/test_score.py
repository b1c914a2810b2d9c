"""`remask score`: one row out per row in, whatever happens on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from remask import api
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.load import load

Run = Callable[..., Any]
Fast = tuple[str, ...]
ADDED = ["score", "stderr", "metrics", "drift", "forwards", "error"]


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {"n": i, "prompt": f"Add 2 to {i}.", "answer": f"{i}+2={i + 2}", "note": {"é": [i, None]}}
        for i in range(count)
    ]


def write(path: Path, values: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in values))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "in.jsonl", rows(7))


def test_rows_keep_their_order_and_their_columns(run: Run, fast: Fast, source: Path) -> None:
    out = source.with_name("out.jsonl")
    assert run("score", source, "-o", out, *fast, "--batch", "3").code == 0
    found = read(out)
    assert [
        {k: row[k] for k in before} for row, before in zip(found, rows(7), strict=True)
    ] == rows(7)
    assert list(found[0]) == [*rows(1)[0], *(f"remask_{name}" for name in ADDED)]
    assert all(row["remask_error"] is None and row["remask_forwards"] == 4 for row in found)
    assert sorted(path.name for path in source.parent.iterdir()) == [
        "in.jsonl", "out.jsonl", "out.jsonl.manifest.json",
    ]  # fmt: skip


def test_scores_are_those_of_the_api(run: Run, fast: Fast, model: str, source: Path) -> None:
    out = source.with_name("out.jsonl")
    run("score", source, "-o", out, *fast, "--seed", "3")
    settings = ConsistencySettings(trips=2, rebuild_steps=2)
    pairs = [(row["prompt"], row["answer"]) for row in rows(7)]
    denoiser = load(model)
    scorer = api.consistency(denoiser, settings=settings, metrics="core", seed=3)
    scores = api.score_many(denoiser, pairs, scorer=scorer)
    for row, score in zip(read(out), scores, strict=True):
        assert row["remask_score"] == pytest.approx(score.value, abs=2e-6)
        assert row["remask_metrics"] == pytest.approx(score.by_metric, abs=2e-6)
        assert row["remask_drift"] == pytest.approx(score.drift, abs=2e-6)


def test_another_scorer_scores_a_file(run: Run, model: str, source: Path) -> None:
    out = source.with_name("out.jsonl")
    words = ("score", source, "-o", out, "--model", model, "--scorer", "editor", "--json")
    summary = json.loads(run(*words).out)
    assert (summary["scorer"], summary["rows"], summary["failed"]) == ("editor", 7, 0)
    assert summary["forwards"] == 7
    pairs = [(row["prompt"], row["answer"]) for row in rows(7)]
    scores = api.score_many(load(model), pairs, scorer="editor")
    for row, score in zip(read(out), scores, strict=True):
        assert row["remask_score"] == pytest.approx(score.value, abs=2e-6)
        assert row["remask_scorer"] == "editor"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--scorer", "editr"), 1, "Unknown scorer 'editr'. Did you mean 'editor'?"),
        (("--scorer", "editor", "--trips", "2"), 2, "--trips belongs to round trips, not to --sc"),
        (("--scorer", "editor", "--metrics", "core"), 2, "--metrics belongs to round trips, not"),
        (("--scorer", "editor", "--weights", "w.json"), 2, "--weights belongs to round trips, n"),
    ],
)
def test_what_does_not_belong_to_the_scorer_of_a_file_is_refused(
    fails: Callable[..., str], source: Path, words: Fast, code: int, sentence: str
) -> None:
    out = source.with_name("out.jsonl")
    assert fails(code, "score", source, "-o", out, "--model", "nosuch", *words).startswith(sentence)
    assert not out.exists()


def test_scores_do_not_depend_on_batches_or_order(run: Run, fast: Fast, tmp_path: Path) -> None:
    forwards = write(tmp_path / "a.jsonl", rows(7))
    backwards = write(tmp_path / "b.jsonl", rows(7)[::-1])
    run("score", forwards, "-o", tmp_path / "x.jsonl", *fast, "--batch", "1")
    run("score", backwards, "-o", tmp_path / "y.jsonl", *fast, "--batch", "5")
    for one, other in zip(
        read(tmp_path / "x.jsonl"), read(tmp_path / "y.jsonl")[::-1], strict=True
    ):
        assert one["remask_score"] == pytest.approx(other["remask_score"], abs=2e-6)
        assert one["remask_drift"] == other["remask_drift"]


def test_a_row_that_cannot_be_scored_says_why_and_the_run_goes_on(
    run: Run, fast: Fast, tmp_path: Path
) -> None:
    values: list[dict[str, Any]] = [
        {"prompt": "a", "answer": ""},
        {"prompt": "a", "answer": "1"},
        {"prompt": " ", "answer": "1"},
        {"prompt": "a", "answer": "x<|mdm_mask|>"},
        {"prompt": "a", "answer": "9" * 2000},
        {"prompt": "a", "answer": None},
        {"answer": "1"},
        {"prompt": "a", "answer": 12},
        {"prompt": "a", "answer": "\udc80"},
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in values))
    shown = run("score", source, "-o", tmp_path / "out.jsonl", *fast)
    assert shown.code == 0
    assert "9 rows, 8 failed, 4 forwards" in shown.out
    found = read(tmp_path / "out.jsonl")
    said = [row["remask_error"] for row in found]
    assert said[1] is None
    assert [row["remask_score"] is None for row in found] == [i != 1 for i in range(9)]
    for sentence, part in zip(
        [*said[:1], *said[2:]],
        ["answer is empty", "prompt is empty", "mask token", "more than the 1024",
         "answer is missing, not text", "prompt is missing, not text", "answer is int, not text",
         "not valid unicode"],
        strict=True,
    ):  # fmt: skip
        assert part in sentence


def test_a_file_without_a_single_usable_row_is_a_failure(
    run: Run, fast: Fast, tmp_path: Path
) -> None:
    source = write(tmp_path / "in.jsonl", [{"prompt": "a", "answer": ""}])
    result = run("score", source, "-o", tmp_path / "out.jsonl", *fast)
    assert result.code == 1
    assert "every row failed, the first because the answer is empty" in result.err
    assert len(read(tmp_path / "out.jsonl")) == 1


def test_a_file_without_rows_gives_one_without_rows(run: Run, fast: Fast, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [])
    assert run("score", source, "-o", tmp_path / "out.jsonl", *fast).code == 0
    assert (tmp_path / "out.jsonl").read_text() == ""


def test_other_columns_may_hold_prompt_and_answer(run: Run, fast: Fast, tmp_path: Path) -> None:
    named = [{"question": row["prompt"], "reply": row["answer"]} for row in rows(2)]
    plain = write(tmp_path / "a.jsonl", rows(2))
    other = write(tmp_path / "b.jsonl", named)
    columns = ("--prompt-column", "question", "--answer-column", "reply")
    run("score", plain, "-o", tmp_path / "x.jsonl", *fast)
    run("score", other, "-o", tmp_path / "y.jsonl", *fast, *columns)
    one, two = read(tmp_path / "x.jsonl"), read(tmp_path / "y.jsonl")
    assert [row["remask_score"] for row in one] == [row["remask_score"] for row in two]


def test_json_sums_the_run_up(run: Run, fast: Fast, source: Path) -> None:
    out = source.with_name("out.jsonl")
    assert json.loads(run("score", source, "-o", out, *fast, "--json").out) == {
        "out": str(out), "scorer": "roundtrips", "rows": 7, "failed": 0, "forwards": 28,
        "resumed": 0, "first_error": "",
    }  # fmt: skip


def test_parquet_keeps_its_types_and_agrees_with_json_lines(
    run: Run, fast: Fast, tmp_path: Path
) -> None:
    table = pa.table(
        {
            "prompt": [row["prompt"] for row in rows(3)],
            "answer": [rows(3)[0]["answer"], None, rows(3)[2]["answer"]],
            "small": pa.array([1, None, 3], pa.int8()),
            "when": pa.array([0, 1, 2], pa.timestamp("us")),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    assert run("score", tmp_path / "in.parquet", "-o", tmp_path / "out.parquet", *fast).code == 0
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.select(table.column_names).equals(table)
    assert found.column_names == [*table.column_names, *(f"remask_{name}" for name in ADDED)]
    assert found["remask_error"].to_pylist()[1] == "answer is missing, not text."

    source = write(tmp_path / "in.jsonl", rows(3))
    run("score", source, "-o", tmp_path / "lines.jsonl", *fast)
    run("score", source, "-o", tmp_path / "lines.parquet", *fast)
    lines, columns = read(tmp_path / "lines.jsonl"), pq.read_table(tmp_path / "lines.parquet")
    assert columns["remask_score"].to_pylist() == [row["remask_score"] for row in lines]
    assert columns["remask_metrics"].to_pylist() == [row["remask_metrics"] for row in lines]
    assert columns["note"].to_pylist() == [row["note"] for row in lines]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_run_cut_in_the_middle_of_a_line_ends_as_if_it_never_was(
    run: Run, fast: Fast, source: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = source.with_name(f"whole.{suffix}"), source.with_name(f"cut.{suffix}")
    run("score", source, "-o", whole, *fast, "--batch", "2")
    part = interrupt(run, monkeypatch, ("score", source, "-o", cut, *fast, "--batch", "2"), cut)
    content = part.read_bytes()
    assert [json.loads(line)["row"] for line in content.splitlines()] == [0, 1, 2, 3]
    part.write_bytes(content + content[:40])  # written and not committed
    shown = run("score", source, "-o", cut, *fast, "--batch", "2")
    assert "7 rows (4 by an earlier run), 0 failed" in shown.out
    assert cut.read_bytes() == whole.read_bytes()
    assert not part.exists()


def interrupt(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], out: Path
) -> Path:
    """Interrupt a run at its third batch; return the file it leaves.

    All 7 rows are brought to cut them into batches, and 4 more in two batches of 2.
    """
    real = api.sample_from_text
    calls = []

    def sample_from_text(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    monkeypatch.setattr(api, "sample_from_text", sample_from_text)
    assert run(*words).code == 130
    monkeypatch.setattr(api, "sample_from_text", real)
    return out.with_name(out.name + ".part")


def test_an_interrupted_run_is_not_continued_with_other_settings_or_input(
    run: Run, fast: Fast, source: Path, monkeypatch: pytest.MonkeyPatch, fails: Callable[..., str]
) -> None:
    out = source.with_name("out.jsonl")
    words = ("score", source, "-o", out, *fast, "--batch", "2")
    part = interrupt(run, monkeypatch, words, out)
    before = part.read_bytes()
    assert "seed was 0, got 1" in fails(1, *words, "--seed", "1")
    assert "mask_ratio was 0.9, got 0.5" in fails(1, *words, "--mask-ratio", "0.5")
    write(source, [*rows(6), {"prompt": "a", "answer": "b"}])
    assert "input was " in fails(1, *words)
    assert part.read_bytes() == before
    write(source, rows(7))
    assert run(*words).code == 0


def test_a_run_that_never_scored_a_row_does_not_stand_in_the_way(
    run: Run, fast: Fast, source: Path, fails: Callable[..., str]
) -> None:
    out = source.with_name("out.jsonl")
    assert "neither" in fails(1, "score", source, "-o", out, *fast, "--model", "nope")
    assert run("score", source, "-o", out, *fast).code == 0


def test_a_killed_process_loses_nothing(run: Run, fast: Fast, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", rows(80))
    out, whole = tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    part = tmp_path / "out.jsonl.part"
    words = [*fast, "--trips", "4", "--rebuild-steps", "8", "--batch", "1"]
    child = subprocess.Popen(
        [sys.executable, "-m", "remask.cli", "score", str(source), "-o", str(out), *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    give_up = time.monotonic() + 600
    while not (part.exists() and part.read_bytes().count(b"\n") > 3):
        assert child.poll() is None, "the child ended before it could be killed"
        assert time.monotonic() < give_up
        time.sleep(0.005)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert not out.exists()
    shown = json.loads(run("score", source, "-o", out, *words, "--json").out)
    assert 3 <= shown["resumed"] < 80
    run("score", source, "-o", whole, *words)
    assert out.read_bytes() == whole.read_bytes()
