"""A Ray cluster with two workers on this machine: killed on the way, it makes the same files.

Workers, and the process that asks, are ended by kill -9. One cluster serves the whole file.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from remask import cli
from remask.collect import score_file
from remask.collect.chunks import Chunk
from remask.collect.cluster import Cluster, ModelSpec
from remask.collect.collect import collect
from remask.collect.engine import ChunkedWork, Lines, RemoteModel
from remask.collect.settings import CollectSettings, ScoreSettings
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.errors import CheckpointError, EngineError, InputError
from remask.records import jsonl
from remask.records.manifest import part_path, read_manifest
from remask.sampling.settings import SamplerSettings
from remask.testing import write_checkpoint

TRIPS = ConsistencySettings(trips=2, rebuild_steps=8)
COLLECT = CollectSettings(
    task="wordmath", problems=28, metrics="core", consistency=TRIPS, tokens=2048, chunk=4,
    sampler=SamplerSettings(length=64, steps=64, block=64, temperature=1.0),
)  # fmt: skip
FLAGS = (
    "--task", "wordmath", "--problems", "60", "--length", "64", "--steps", "32", "--trips", "2",
    "--rebuild-steps", "8", "--metrics", "core", "--temperature", "1", "--device", "cpu",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_checkpoint(
        tmp_path_factory.mktemp("checkpoint") / "model", layers=2, width=32, heads=2, inner=32,
        length=16, max_length=1024, dtype=torch.float32,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(folder: Path) -> Denoiser:
    return load(folder, device="cpu")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        with Cluster(ModelSpec(model=str(folder), device="cpu"), workers=2) as found:
            yield found


@pytest.fixture(scope="module")
def remote(cluster: Cluster) -> RemoteModel:
    return cluster.load()


def children(of: int) -> dict[int, str]:
    """Return the processes below one, by id, with their titles."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
    below = {of}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: title(pid) for pid in below - {of}}


def title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


class Killer:
    """Ends the first worker that is found in the middle of a chunk when progress is told."""

    def __init__(self) -> None:
        self.killed: list[int] = []

    def __call__(self, done: int, forwards: int = 0) -> None:
        titles = children(os.getpid())
        busy = [pid for pid, text in titles.items() if text.startswith("ray::Worker.run")]
        if busy and not self.killed:
            os.kill(busy[0], signal.SIGKILL)
            self.killed.append(busy[0])


def test_a_collection_whose_workers_are_killed_has_the_bytes_of_one_process(
    cluster: Cluster, remote: RemoteModel, model: Denoiser, tmp_path: Path
) -> None:
    whole = collect(model, COLLECT, tmp_path / "whole.jsonl")
    killer = Killer()
    out = collect(remote, COLLECT, tmp_path / "out.jsonl", killer, cluster)
    assert killer.killed
    assert cluster.deaths >= 1
    assert out.read_bytes() == whole.read_bytes()
    manifest, expected = read_manifest(out), read_manifest(whole)
    assert (manifest.settings, manifest.model) == (expected.settings, expected.model)
    (run,), (alone,) = manifest.runs, expected.runs
    assert run.engine == "ray, 2 workers"
    assert (run.device, run.forwards, run.stop) == ("cpu", alone.forwards, 28)
    assert not part_path(out).exists()


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_file_scored_by_workers_that_are_killed_has_the_bytes_of_one_process(
    cluster: Cluster, remote: RemoteModel, model: Denoiser, tmp_path: Path, suffix: str
) -> None:
    rows = [{"prompt": f"What is {k} + 1?", "answer": f"It is {k + 1}."} for k in range(30)]
    rows[7] = {"prompt": "What?", "answer": ""}
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = ScoreSettings(
        model="some", metrics="core", consistency=ConsistencySettings(trips=2, rebuild_steps=32)
    )
    whole, out = tmp_path / f"whole.{suffix}", tmp_path / f"out.{suffix}"
    alone = score_file.score_file(model, score_file.prepare(source, whole, settings), batch=4)
    killer = Killer()
    job = score_file.prepare(source, out, settings)
    done = score_file.score_file(remote, job, batch=4, progress=killer, engine=cluster)
    assert killer.killed
    assert done == alone
    assert done.failed == 1
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [source.name, *(f"{o.name}{end}" for o in (whole, out) for end in ("", ".manifest.json"))]
    )


def test_a_chunk_that_ends_three_workers_is_named_and_nothing_else_is_lost(
    cluster: Cluster, remote: RemoteModel
) -> None:
    def compute(denoiser: Denoiser, start: int) -> Lines:
        if start == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return [[{"start": start}]]

    chunks = [Chunk(0, 2), Chunk(2, 4), Chunk(4, 6)]
    results = cluster.results(ChunkedWork(chunks, lambda c: c.start, compute))
    arrived: list[Chunk] = []
    with pytest.raises(EngineError, match="rows 2 to 3 ended 3 workers one after another"):
        arrived.extend(chunk for chunk, _ in results)
    assert arrived == [Chunk(0, 2), Chunk(4, 6)]


def test_an_error_of_the_work_is_raised_here_as_it_is(
    cluster: Cluster, remote: RemoteModel
) -> None:
    def compute(denoiser: Denoiser, start: int) -> Lines:
        raise InputError("the prompt is empty; give the question as text.")

    work = ChunkedWork([Chunk(0, 2)], lambda c: c.start, compute)
    with pytest.raises(InputError, match=r"^the prompt is empty; give the question as text\.$"):
        list(cluster.results(work))


def test_a_model_that_cannot_be_loaded_is_told_as_it_would_be_here(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "spec", ModelSpec(model="nowhere", device="cpu"))
    monkeypatch.setattr(cluster, "_needs", {"num_cpus": 0})
    monkeypatch.setattr(cluster, "workers", 1)
    monkeypatch.setattr(cluster, "_actors", [])
    with pytest.raises(CheckpointError, match="model 'nowhere' is neither 'tiny', nor a folder"):
        cluster.load()


def wait_for(found: Callable[[], Any], process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 600
    while not found():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.02)


def workers_of(below: dict[int, str]) -> dict[int, str]:
    return {pid: text for pid, text in below.items() if text.startswith("ray::Worker")}


def end(below: dict[int, str]) -> None:
    """See that workers end with the process that started them; end Ray's agents, which linger."""
    until = time.monotonic() + 300
    workers = workers_of(below)
    assert len(workers) == 2
    while any(title(pid) == text for pid, text in workers.items()):
        assert time.monotonic() < until, "a worker outlived the process that started it"
        time.sleep(0.1)
    for pid, text in below.items():
        if text and title(pid) == text:
            os.kill(pid, signal.SIGKILL)


def test_a_command_killed_with_its_cluster_is_continued_from_its_journal_by_one_process(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    words = ["collect", "--model", str(folder), *FLAGS, "--out"]
    command = [sys.executable, "-m", "remask.cli", *words, str(out), "--engine", "ray"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as asking:
        part = part_path(out)
        wait_for(lambda: part.exists() and part.stat().st_size, asking)
        # On a busy machine one of them may have written before the other is up.
        wait_for(lambda: len(workers_of(children(asking.pid))) == 2, asking)
        below = children(asking.pid)
        asking.kill()
    assert not out.exists()
    assert list(jsonl.read(part))
    end(below)
    for path in (out, whole):
        monkeypatch.setattr(sys, "argv", ["remask", *words, str(path)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert left.value.code == 0
    assert out.read_bytes() == whole.read_bytes()
    assert not part.exists()
    assert [run.engine for run in read_manifest(out).runs] == ["ray, 2 workers", "local"]
