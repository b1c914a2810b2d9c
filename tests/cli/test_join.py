"""`--shard` of `remask collect` and `remask score`, and `remask join`: jobs that share the work."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Fails = Callable[..., str]


@pytest.fixture
def collect(run: Run, model: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr("remask.collect.collect.work_budget", lambda denoiser: 400)
    words = (
        "collect", "--model", model, "--task", "wordmath", "--problems", "5", "--metrics", "core",
        "--trips", "1", "--rebuild-steps", "1", "--steps", "2", "--length", "16",
    )  # fmt: skip
    return lambda out, *more: run(*words, "-o", out, *more)


def test_two_jobs_and_join_write_what_one_command_writes(
    run: Run, fails: Fails, collect: Callable[..., Any], tmp_path: Path
) -> None:
    assert collect(tmp_path / "whole.jsonl").code == 0
    for number in (1, 2):
        out = tmp_path / f"job-{number}" / "all.jsonl"
        shown = collect(out, "--shard", f"{number}/2", "--json")
        assert shown.code == 0, shown.err
        document = json.loads(shown.out)
        assert (document["shard"], document["rows"]) == (f"{number}/2", number + 1)
    folders = (tmp_path / "job-1", tmp_path / "job-2")
    missing = fails(1, "join", folders[0], "-o", tmp_path / "records")
    assert "of all.jsonl the shards 2/2 are missing" in missing
    assert not (tmp_path / "records").exists()
    shown = run("join", *folders, "-o", tmp_path / "records", "--json")
    out = tmp_path / "records" / "all.jsonl"
    assert json.loads(shown.out) == [{"out": str(out), "shards": 2, "rows": 5}]
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert "2 shards, 5 rows: " in run("join", *folders, "-o", tmp_path / "again").out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "shard '' is not of the form NUMBER/COUNT; write 2/8 for the second of eight."),
        ("3", "shard '3' is not of the form NUMBER/COUNT; write 2/8 for the second of eight."),
        ("0/4", "shard 0/4 does not exist; count from 1/4 to 4/4."),
        ("1/99", "shard 1/99 is one of too many: "),
    ],
)
def test_a_shard_that_does_not_exist_is_refused(
    collect: Callable[..., Any], tmp_path: Path, text: str, sentence: str
) -> None:
    shown = collect(tmp_path / "out.jsonl", "--shard", text)
    assert shown.code == 1
    assert sentence in shown.err
    assert not list(tmp_path.glob("out*"))


def test_two_jobs_and_join_score_what_one_command_scores(
    run: Run, fails: Fails, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row is a chunk: of five, the first job has two."""
    monkeypatch.setattr("remask.collect.score_file.work_budget", lambda denoiser: 1)
    rows = [{"prompt": f"What is {k} + 1?", "answer": f"{k + 1}"} for k in range(5)]
    source = tmp_path / "answers.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = (
        "score", source, "--model", model, "--metrics", "core", "--trips", "1", "--rebuild-steps",
        "1",
    )  # fmt: skip
    assert run(*words, "-o", tmp_path / "whole.jsonl").code == 0
    parts = [tmp_path / f"job-{number}" / "scored.jsonl" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        shown = run(*words, "-o", part, "--shard", f"{number}/2", "--json")
        assert shown.code == 0, shown.err
        document = json.loads(shown.out)
        assert (document["shard"], document["rows"]) == (f"{number}/2", number + 1)
    out = tmp_path / "joined.jsonl"
    assert "2 shards, 5 rows: " in run("join", *parts, "-o", out).out
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    text = fails(1, *words, "-o", tmp_path / "out.jsonl", "--shard", "")
    assert "shard '' is not of the form NUMBER/COUNT; " in text
    text = fails(1, *words, "-o", tmp_path / "out.parquet", "--shard", "1/2")
    assert "is Parquet, and shards are joined as lines; name a .jsonl output." in text
