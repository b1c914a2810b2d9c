"""Shards of a collection: joined they are what one job writes, and nothing else is joined."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remask.collect.answers import PromptedProblem, prompt_for
from remask.collect.collect import collect
from remask.collect.job_shard import JobShard
from remask.collect.join import join_shards
from remask.collect.settings import CollectSettings
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.errors import InputError, RecordError, SettingsError
from remask.records import jsonl
from remask.records.manifest import manifest_path, read_manifest
from remask.sampling.settings import SamplerSettings
from remask.tasks.base import Problem
from remask.testing import write_checkpoint

SAMPLER = SamplerSettings(length=16, steps=2, block=16, temperature=1.0)
WORK = 800  # tokens times passes: every problem is a chunk of its own
Make = Callable[..., Path]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Denoiser:
    torch.set_num_threads(1)
    folder = write_checkpoint(
        tmp_path_factory.mktemp("checkpoint") / "model", layers=1, width=16, heads=2, inner=16,
        length=16, max_length=1024, dtype=torch.float32,
    )  # fmt: skip
    return load(folder, device="cpu")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remask.collect.collect.work_budget", lambda denoiser: WORK)


@pytest.fixture
def settings(tmp_path: Path) -> CollectSettings:
    """Several samples, some verified; a problem that cannot be asked."""
    rows = [
        {"question": f"What is {k} + 1? " * (1 + k % 3), "answer": f"#### {k}"} for k in range(4)
    ]
    rows.insert(2, {"question": "Why? " * 400, "answer": "#### 1"})
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *rows[:1]]))
    return CollectSettings(
        task="gsm8k", data=data, problems=6, samples=2, sampler=SAMPLER, metrics="core", chunk=2,
        consistency=ConsistencySettings(trips=1, rebuild_steps=1),
    )  # fmt: skip


@pytest.fixture
def make(model: Denoiser, settings: CollectSettings, tmp_path: Path) -> Make:
    """Collect a shard into a folder of its name."""

    def shard(text: str, folder: str = "", **other: Any) -> Path:
        out = tmp_path / (folder or text.replace("/", "-of-")) / "some.jsonl"
        collect(model, replace(settings, **other), out, shard=JobShard.parse(text))
        return out

    return shard


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_joined_shards_have_the_bytes_of_one_job(
    model: Denoiser, settings: CollectSettings, make: Make, tmp_path: Path, count: int
) -> None:
    whole = collect(model, settings, tmp_path / "whole.jsonl")
    shards = [make(f"{number}/{count}") for number in range(count, 0, -1)]
    assert sum(len(read_manifest(path).problems) for path in shards) == 6
    (joined,) = join_shards([path.parent for path in shards], tmp_path / "all")
    assert (joined.out, joined.shards, joined.rows) == (tmp_path / "all/some.jsonl", count, 11)
    assert joined.out.read_bytes() == whole.read_bytes()
    ours, theirs = read_manifest(joined.out), read_manifest(whole)
    assert replace(ours, runs=[]) == replace(theirs, runs=[])
    for name in ("forwards", "errors"):
        assert sum(getattr(r, name) for r in ours.runs) == getattr(theirs.runs[0], name)
    assert [(run.start, run.stop) for run in ours.runs] == sorted(
        (read_manifest(path).problems.start, read_manifest(path).problems.stop) for path in shards
    )


def test_files_are_joined_to_a_file_that_collect_goes_on_with(
    model: Denoiser, settings: CollectSettings, make: Make, tmp_path: Path
) -> None:
    whole = collect(model, settings, tmp_path / "whole.jsonl")
    less = replace(settings, problems=4)
    (joined,) = join_shards(
        [make(f"{n}/2", problems=less.problems) for n in (1, 2)], tmp_path / "out.jsonl"
    )
    before = joined.out.read_bytes()
    collect(model, less, joined.out)
    assert joined.out.read_bytes() == before
    collect(model, settings, joined.out)
    ids = [[(row["id"], row["number"]) for row in jsonl.read(path)] for path in (joined.out, whole)]
    assert ids[0] == ids[1]


def test_a_shard_that_was_edited_is_not_joined(
    model: Denoiser, settings: CollectSettings, make: Make, tmp_path: Path
) -> None:
    out = make("2/2")
    content = out.read_bytes()
    lines = content.splitlines(keepends=True)
    for edited in (content[:-1], b"".join(lines[1:]), b"".join([*lines[:-1], lines[0]])):
        out.write_bytes(edited)
        assert "was edited after remask wrote it" in refused(
            [out, make("1/2")], tmp_path / "never.jsonl"
        )
    out.write_bytes(content)
    collect(model, settings, out, shard=JobShard(2, 2), retry_errors=True)
    assert out.read_bytes() == content


def test_the_error_of_a_shard_is_asked_again_in_its_place(
    model: Denoiser, settings: CollectSettings, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Problem 2 of 6 is too long; once it can be read it is answered, and the others stay."""
    monkeypatch.setattr("remask.collect.collect.work_budget", lambda denoiser: None)
    out = make("2/3")
    before = list(jsonl.read(out))
    assert ["error" in row for row in before] == [True, False, False]

    def shortened(denoiser: Denoiser, problem: Problem, length: int) -> PromptedProblem:
        short = prompt_for(denoiser, replace(problem, prompt=problem.prompt[:9]), length)
        return short._replace(problem=problem)

    monkeypatch.setattr("remask.collect.collect.prompt_for", shortened)
    collect(model, settings, out, shard=JobShard(2, 3), retry_errors=True)
    rows = list(jsonl.read(out))
    assert [row["id"] for row in rows] == [before[0]["id"]] * 2 + [before[1]["id"]] * 2
    assert rows[2:] == before[1:]


def test_a_file_is_for_one_shard_alone(
    model: Denoiser, settings: CollectSettings, make: Make
) -> None:
    out = make("1/2")
    held = out.read_bytes()
    for shard, problems in ((JobShard(2, 2), 6), (None, 6), (JobShard(1, 2), 5)):
        text = f"shard was 1/2, got {shard or 'not set'}"
        if problems == 5:
            text = "problems was 6, got 5"
        with pytest.raises(RecordError, match=text):
            collect(model, replace(settings, problems=problems), out, shard=shard)
    assert out.read_bytes() == held


def test_more_shards_than_chunks_are_refused_by_each_of_them(make: Make) -> None:
    with pytest.raises(SettingsError, match="largest number of shards is 5 here; ask"):
        make("1/7")


def refused(paths: list[Path], out: Path) -> str:
    with pytest.raises((RecordError, InputError)) as error:
        join_shards(paths, out)
    assert not out.exists()
    return str(error.value)


def test_what_makes_no_whole_is_refused_by_name(
    model: Denoiser, settings: CollectSettings, make: Make, tmp_path: Path
) -> None:
    first, second, third = (make(f"{number}/3") for number in (1, 2, 3))
    out = tmp_path / "out.jsonl"
    assert "the shards 2/3 are missing; make them" in refused([first, third], out)
    twice = refused([first, second, third, make("2/3", "again")], out)
    assert twice == f"{second} and {tmp_path}/again/some.jsonl are both shard 2/3; leave one out."
    other = refused([first, second, make("3/3", "seed", seed=1)], out)
    assert "are shards of two files: seed is 0 and 1." in other
    assert "number of shards is 3 and 2" in refused([first, make("2/2", "halves")], out)
    whole = collect(model, settings, tmp_path / "whole.jsonl")
    assert "is not a shard: it was written without --shard" in refused([first, whole], out)
    assert "does not exist; name the files" in refused([first, tmp_path / "no.jsonl"], out)
    assert "name either kind alone" in refused([first, second.parent], out)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "holds no records" in refused([first.parent, empty], out)
    assert "is read by this command" in join_onto(first, [first, second, third])
    manifest_path(third).unlink()
    assert "has no manifest" in refused([first, second, third], out)


def join_onto(out: Path, paths: list[Path]) -> str:
    before = out.read_bytes()
    with pytest.raises(InputError) as error:
        join_shards(paths, out, force=True)
    assert out.read_bytes() == before
    return str(error.value)


def test_shards_cut_by_devices_of_two_kinds_are_refused(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make("1/2")
    monkeypatch.setattr("remask.collect.collect.work_budget", lambda denoiser: 3 * WORK)
    text = refused([first, make("2/2")], tmp_path / "out.jsonl")
    assert re.search(r"begins with number \d, and the shard before it ends with \d: ", text)


def test_what_is_there_is_replaced_on_demand_alone(make: Make, tmp_path: Path) -> None:
    shards = [make("1/2"), make("2/2")]
    out = tmp_path / "out.jsonl"
    out.write_text("{}\n")
    with pytest.raises(RecordError, match="exists already; choose another file, or add --force"):
        join_shards(shards, out)
    assert out.read_text() == "{}\n"
    join_shards(shards, out, force=True)
    assert len(out.read_text().splitlines()) == 11


@given(st.integers(0, 12), st.integers(0, 12))
def test_a_shard_is_written_as_it_is_read(number: int, of: int) -> None:
    text = f"{number}/{of}"
    if 1 <= number <= of:
        assert str(JobShard.parse(text)) == text
    else:
        with pytest.raises(SettingsError, match=f"shard {text} does not exist; count from 1/"):
            JobShard.parse(text)


@given(st.text("0123456789/ -x²", max_size=6))
def test_any_other_text_is_no_shard(text: str) -> None:
    try:
        shard = JobShard.parse(text)
    except SettingsError as error:
        sentence = str(error)
    else:
        sentence = f"shard {shard}, {1 <= shard.number <= shard.of}"
    assert sentence.startswith("shard ")
    assert "False" not in sentence


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 30))
def test_shards_cover_everything_once_and_evenly(sizes: list[int], of: int) -> None:
    edges = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    if of > len(sizes):
        with pytest.raises(SettingsError, match="is one of too many"):
            JobShard(1, of).range_in(edges)
        return
    ranges = [JobShard(number, of).range_in(edges) for number in range(1, of + 1)]
    assert [r.start for r in ranges] == [0, *(r.stop for r in ranges[:-1])]
    assert ranges[-1].stop == edges[-1]
    parts = [edges.index(r.stop) - edges.index(r.start) for r in ranges]
    assert max(parts) - min(parts) <= 1
