"""Shards of a scored file: joined they are what one job writes, and nothing else is joined."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remask import api
from remask.collect import score_file
from remask.collect.job_shard import JobShard
from remask.collect.join import join_shards
from remask.collect.settings import ScoreSettings
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.native import NativeDenoiser
from remask.errors import InputError, RecordError, SettingsError
from remask.records.manifest import manifest_path, read_manifest
from remask.records.parquet import write_parquet

SETTINGS = ScoreSettings(
    model="random", metrics="core", consistency=ConsistencySettings(trips=2, rebuild_steps=2)
)
ROWS: list[dict[str, Any]] = [
    {"prompt": f"q{k}", "answer": f"{k}", "error": "a column of theirs"} for k in range(6)
]
ROWS[3]["answer"] = None  # cannot be scored
Make = Callable[..., Path]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.fixture
def make(llada: NativeDenoiser, source: Path, tmp_path: Path) -> Make:
    """Score a shard, or everything, two rows at a time."""

    def scored(text: str = "", *, batch: int = 2, force: bool = False, **other: Any) -> Path:
        out = tmp_path / (text.replace("/", "-of-") or "whole") / "scored.jsonl"
        shard = JobShard.parse(text) if text else None
        settings = replace(SETTINGS, **other)
        job = score_file.prepare(source, out, settings, shard=shard, force=force)
        score_file.score_file(llada, job, batch=batch)
        return out

    return scored


@pytest.mark.parametrize("count", [1, 2, 3])
def test_joined_shards_have_the_bytes_of_one_job(make: Make, tmp_path: Path, count: int) -> None:
    whole = make()
    shards = [make(f"{number}/{count}") for number in range(count, 0, -1)]
    (joined,) = join_shards([path.parent for path in shards], tmp_path / "all")
    assert (joined.out, joined.shards, joined.rows) == (tmp_path / "all/scored.jsonl", count, 6)
    assert joined.out.read_bytes() == whole.read_bytes()
    ours, theirs = read_manifest(joined.out), read_manifest(whole)
    assert replace(ours, runs=[]) == replace(theirs, runs=[])


def test_shards_end_where_chunks_of_the_whole_end(make: Make, tmp_path: Path) -> None:
    """Chunks of two: the first of two shards has one of three, rows 0 and 1."""
    ranges = [read_manifest(make(text)).problems for text in ("1/2", "2/2")]
    assert ranges == [range(2), range(2, 6)]
    with pytest.raises(SettingsError, match="the largest number of shards is 3 here;"):
        make("1/4")
    assert not (tmp_path / "1-of-4").exists()


def test_rows_of_parquet_are_shared_too(llada: NativeDenoiser, make: Make, tmp_path: Path) -> None:
    table = tmp_path / "in.parquet"
    write_parquet(table, ROWS)
    parts = []
    for number in (1, 2):
        parts.append(tmp_path / f"{number}.jsonl")
        job = score_file.prepare(table, parts[-1], SETTINGS, shard=JobShard(number, 2))
        score_file.score_file(llada, job, batch=2)
    join_shards(parts, tmp_path / "all.jsonl")
    assert (tmp_path / "all.jsonl").read_bytes() == make().read_bytes()
    with pytest.raises(InputError, match="is Parquet, and shards are joined as lines"):
        score_file.prepare(table, tmp_path / "x.parquet", SETTINGS, shard=JobShard(1, 2))


def test_a_shard_that_was_killed_is_continued_to_the_same_bytes(
    llada: NativeDenoiser, make: Make, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = make("2/2").read_bytes()
    out = tmp_path / "scored.jsonl"

    def begun() -> score_file.ScoreJob:
        return score_file.prepare(source, out, SETTINGS, shard=JobShard(2, 2))

    def stop(done: int, forwards: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_file.score_file(llada, begun(), batch=2, progress=stop)
    assert not out.exists()
    first = make("1/2")
    for sources in ([first, out], [first.parent, out.parent]):
        with pytest.raises(RecordError, match=r"scored.jsonl is not finished. Repeat the command"):
            join_shards(sources, tmp_path / "all")
    with pytest.raises(RecordError, match="shard was 2/2, got 1/2"):
        score_file.prepare(source, out, SETTINGS, shard=JobShard(1, 2))
    with pytest.raises(RecordError, match="shard was 2/2, got not set"):
        score_file.prepare(source, out, SETTINGS)
    with pytest.raises(RecordError, match=r"batch was 2, got 3; rows of the shard was \(2, 6\)"):
        score_file.score_file(llada, begun(), batch=3)
    sample = api.sample_from_text(llada, "q0", "0")
    budget = 4 * (
        len(sample.prompt) + len(sample.canvas)
    )  # one row a chunk, as if on a slow device
    with monkeypatch.context() as slow:
        slow.setattr(score_file, "work_budget", lambda denoiser: budget)
        with pytest.raises(RecordError, match=r"rows of the shard was \(2, 6\), got \(3, 6\)"):
            score_file.score_file(llada, begun(), batch=2)
    done = score_file.score_file(llada, begun(), batch=2)
    assert (done.rows, done.resumed, done.failed) == (4, 2, 1)
    assert out.read_bytes() == wanted


def discard(out: Path) -> None:
    out.unlink()
    manifest_path(out).unlink()


def test_what_makes_no_whole_is_refused_by_name(make: Make, tmp_path: Path) -> None:
    def refused(*paths: Path) -> str:
        with pytest.raises(RecordError) as error:
            join_shards(paths, tmp_path / "out.jsonl")
        assert not (tmp_path / "out.jsonl").exists()
        return str(error.value)

    first, second = make("1/2"), make("2/2")
    assert "the shards 2/2 are missing" in refused(first)
    assert "are both shard 1/2" in refused(first, first)
    assert "is not a shard" in refused(first, make())
    content = second.read_bytes()
    second.write_bytes(content[:-1])
    assert "was edited after remask wrote it. Repeat the command" in refused(first, second)
    assert make("2/2", force=True).read_bytes() == content
    discard(second)
    make("2/2", seed=1)
    assert "are shards of two files: seed is 0 and 1." in refused(first, second)
    discard(second)
    make("2/2", batch=3)
    assert "batch is 2 and 3" in refused(first, second)
