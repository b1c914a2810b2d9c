"""Processes that share one device: each loads the model once and works its shards of every file.

OUT/shards has the shards, OUT/records the files whose shards are all there and joined. A worker
stops before a chunk that it would not finish in time; one that does not stop is ended, which costs
a chunk. The number of processes decides nothing: shards are cut by the file.
"""

import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from remask.collect.collect import collect
from remask.collect.job_shard import JobShard
from remask.collect.join import ShardFile, join_shards
from remask.denoisers.load import load
from remask.denoisers.native import NativeDenoiser
from remask.errors import InputError, RecordError, RemaskError
from remask.records.manifest import manifest_path, read_manifest
from studies.language.jobs import Job, noted

NAME = "real-words"  # of the model in manifests: its folder may be another one tomorrow
GRACE = 10.0  # seconds after the deadline
Task = tuple[Job, JobShard]


class OutOfTime(Exception):
    """The next chunk would not be finished in time."""


class Watch:
    """Stops before a chunk that would take too long: longer than any so far is not expected."""

    def __init__(self, deadline: float) -> None:
        self.deadline, self.longest, self.last = deadline, 0.0, time.monotonic()

    def __call__(self, done: int, forwards: int) -> None:
        """Look at the clock between two chunks."""
        now = time.monotonic()
        if forwards:
            self.longest = max(self.longest, now - self.last)
        self.last = now
        if now + self.longest > self.deadline:
            raise OutOfTime


def run_jobs(
    jobs: Sequence[Job], model: str, out: Path, *, parallel: int, deadline: float
) -> list[str]:
    """Work files of records; return the names of those that are not finished."""
    wanted = [job for job in jobs if not _is_there(job, out)]
    tasks = [(job, JobShard(k + 1, job.shards)) for job in wanted for k in range(job.shards)]
    failed = _spread(tasks, model, out, min(parallel, len(tasks)), deadline)
    unfinished = [job.name for job in wanted if not _join(job, out)]
    if failed and unfinished:
        raise RecordError(
            f"{failed} of the processes failed, and {', '.join(unfinished)} are not finished; the "
            "same command again goes on."
        )
    return unfinished


def record_path(out: Path, name: str) -> Path:
    """Return the file of records of a name."""
    return out / "records" / f"{name}.jsonl"


def shard_path(out: Path, job: Job, shard: JobShard) -> Path:
    """Return the file of one shard."""
    return out / "shards" / f"{job.name}-{job.problems}-{shard.number}of{shard.of}.jsonl"


def load_model(model: str) -> NativeDenoiser:
    """Return the model under the name that all records have."""
    loaded = load(model)
    if not isinstance(loaded, NativeDenoiser):
        raise InputError(f"model {model} is no single checkpoint folder; name one.")
    return replace(loaded, name=NAME)


def work(tasks: Sequence[Task], model: str, out: Path, deadline: float) -> None:
    """Load the model, and do one shard after another while there is time."""
    denoiser, watch = load_model(model), Watch(deadline)
    for job, shard in tasks:
        started = time.monotonic()
        path = shard_path(out, job, shard)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            collect(denoiser, job.settings(denoiser), path, watch, shard=shard)
        except OutOfTime:
            print(f"{job.name} {shard}: stopped for time", flush=True)
            return
        print(f"{job.name} {shard}: {time.monotonic() - started:.1f} s", flush=True)


def _spread(tasks: Sequence[Task], model: str, out: Path, parallel: int, deadline: float) -> int:
    """Do the tasks in so many processes, in this one where one is enough; return how many failed.

    Each takes every so-manieth task, so that all of them are at the same file at about a time.
    """
    if not tasks:
        return 0
    if parallel <= 1:
        work(tasks, model, out, deadline)
        return 0
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(target=_work, args=(tasks[k::parallel], model, out, deadline))
        for k in range(parallel)
    ]
    for child in children:
        child.start()
    late = 0
    for child in children:
        child.join(max(0.0, deadline + GRACE - time.monotonic()))
        if child.is_alive():
            child.terminate()
            child.join()
            late += 1
    if late:
        print(f"{late} processes were ended: their last chunks are lost", flush=True)
    return sum(child.exitcode == 1 for child in children)


def _work(tasks: Sequence[Task], model: str, out: Path, deadline: float) -> None:
    """Be a process: an error is a sentence, not a traceback."""
    torch.set_num_threads(1)  # threads of many processes wait for each other
    try:
        work(tasks, model, out, deadline)
    except RemaskError as error:
        sys.exit(f"studies.language: {error}")


def _is_there(job: Job, out: Path) -> bool:
    """Say whether a file was made before, of as many problems: a trial may have had fewer.

    Raises where it was made of other data or with other settings: what is known would be mixed.
    """
    path = record_path(out, job.name)
    if not path.exists() or len(read_manifest(path).problems) != job.problems:
        return False
    there = noted(read_manifest(path))
    for name, wanted in job.asked().items():
        if there.get(name) != wanted:
            raise InputError(
                f"{path} was collected with {name} {there.get(name)}, and {wanted} is asked for; "
                "remove it and its manifest to collect it again, or name another OUT."
            )
    return True


def _join(job: Job, out: Path) -> bool:
    """Make one file of a job's shards where all of them are finished, and say whether they are."""
    shards = [shard_path(out, job, JobShard(k + 1, job.shards)) for k in range(job.shards)]
    if not all(path.exists() for path in shards):
        return False
    try:
        for path in shards:
            ShardFile.read(path)
    except RecordError:  # one of them is not finished
        return False
    join_shards(shards, record_path(out, job.name), force=True)
    for path in shards:
        path.unlink()
        manifest_path(path).unlink()
    return True
