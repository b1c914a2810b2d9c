"""Model x task -> records: one JSON line per sample, with its grade, scores and cost.

    collect(model, CollectSettings(task="wordmath", problems=100), Path("records.jsonl"))

Collect on the machine with the GPU, analyse on any. Problems are computed in chunks of about a
minute (`chunks`), by one process or by a cluster (`engine`). A run that was killed can be resumed
(`runner`) and ends with the same bytes. The manifest beside the records says what was collected and
what it cost.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from remask import api
from remask.collect import runner
from remask.collect.answers import (
    AnswerWork,
    PromptedProblem,
    edits,
    prompt_for,
)
from remask.collect.chunks import Chunk, RowSize, cut, work_budget
from remask.collect.engine import ChunkedWork, Engine, Local
from remask.collect.job_shard import JobShard
from remask.collect.manifest import identify, new_entry
from remask.collect.settings import FREE_BASELINES, CollectSettings
from remask.consistency.roundtrips import steps_at_once
from remask.denoisers.base import Denoiser
from remask.errors import InputError, RecordError, TaskError
from remask.probes.settings import Probe
from remask.records import outputs
from remask.records.jsonl import Row
from remask.records.manifest import Manifest, ShardRange, manifest_path, part_path, read_manifest
from remask.sampling.settings import sampler_settings
from remask.scoring.registry import baseline_forwards
from remask.tasks import task as find_task
from remask.tasks.base import Problem, Task, check_level, compared_by
from remask.tasks.public.benchmark import Benchmark
from remask.tasks.public.source import split_named
from remask.values import ROUNDTRIPS
from remask.verifier.columns import MEANS

Progress = Callable[[int, int], None]  # answers that are there, forward passes of this run


def collect(
    denoiser: Denoiser,
    settings: CollectSettings,
    out: Path,
    progress: Progress = lambda done, forwards: None,
    engine: Engine | None = None,
    *,
    shard: JobShard | None = None,
    retry_errors: bool = False,
    force: bool = False,
) -> Path:
    """Write the records of `settings` to `out`, continuing where an earlier run stopped.

    Args:
        denoiser: the model.
        settings: which problems, and how to score the answers.
        out: the file of records; its manifest is beside it.
        progress: called with the number of finished answers and the forward passes of this run.
        engine: computes the answers, this process by default; it changes no record.
        shard: the part of the problems to collect; `join` makes one file of all shards.
        retry_errors: ask the problems again that could not be asked.
        force: replace records that this run cannot continue.
    """
    collection = prepare(settings, out, force, shard=shard)
    run = collection.with_model(denoiser, out, engine)
    run.complete(progress, retry_errors=retry_errors, force=force)
    return out


@dataclass(frozen=True, kw_only=True)
class CollectSummary:
    """What a file of records holds after a run, earlier ones included."""

    problems: int
    rows: int
    errors: tuple[str, ...]  # of problems that could not be asked


@dataclass(frozen=True, kw_only=True, eq=False)
class Collection:
    """What is to be collected, checked before a model is loaded; each problem is built once."""

    settings: CollectSettings
    task: Task
    level: str
    shard: JobShard | None = None  # None: all problems are done here
    built: dict[int, Problem] = field(default_factory=dict)

    def problem(self, number: int) -> Problem:
        """Return a problem by its number."""
        if number not in self.built:
            split, seed = self.settings.split, self.settings.seed
            problem = self.task.problem(number, split=split, level=self.level, seed=seed)
            self.built[number] = problem
        return self.built[number]

    def with_model(
        self, denoiser: Denoiser, out: Path, engine: Engine | None = None
    ) -> "CollectionRun":
        """Return the work on a file by a model, whose preset decides where no sampler is set."""
        canvas = self.task.canvas_length(self.level)
        sampler = self.settings.sampler or sampler_settings(
            denoiser, kind=self.task.name, canvas=canvas
        )
        sampler = sampler.for_pool(self.settings.samples, "samples")
        answering = AnswerWork(task=self.task, settings=self.settings, sampler=sampler)
        engine = engine or Local(denoiser)
        return CollectionRun(
            collection=self, answering=answering, denoiser=denoiser, engine=engine, out=out
        )


def prepare(
    settings: CollectSettings,
    out: Path | None = None,
    force: bool = False,
    *,
    shard: JobShard | None = None,
) -> Collection:
    """Return the collection, with everything checked that can be before a model is loaded.

    That is whether the records may be written there; of a public benchmark also leave to grade, the
    number of problems and every row asked for.
    """
    if out is not None:
        _claim(out, settings.data, force)
    task = find_task(
        settings.task,
        path=settings.data,
        allow_execution=settings.allow_execution,
        wording=settings.wording,
        shots=settings.shots,
    )
    level = check_level(task, settings.level, settings.split)
    if settings.sampler is not None:
        settings.sampler.for_pool(settings.samples, "samples")
    collection = Collection(settings=settings, task=task, level=level, shard=shard)
    if isinstance(task, Benchmark):
        task.check()
        size = task.size(settings.split, level)
        if settings.problems > size:
            raise TaskError(
                f"{task.name} has {size} problems of split {settings.split!r}, level {level!r}, "
                f"and {settings.problems} are asked for; ask for {size} at most."
            )
        for number in range(settings.problems):
            collection.problem(number)
    return collection


def _claim(out: Path, data: Path | None, force: bool) -> None:
    """Raise if the output is an input, a folder, or exists without a manifest."""
    rows = [] if data is None else [data]
    if data is not None and data.is_dir():
        rows = [path for path in data.iterdir() if split_named(path)]
    for path in (out, part_path(out), manifest_path(out)):
        outputs.refuse_inputs(path, rows)
    if out.is_dir():
        raise RecordError(f"{out} is a folder; name a file.")
    if out.exists() and not force:
        read_manifest(out)


@dataclass(kw_only=True, eq=False)
class CollectionRun:
    """One call of `collect`. Its rows are problems."""

    collection: Collection
    answering: AnswerWork
    denoiser: Denoiser
    engine: Engine
    out: Path
    prompted: dict[int, PromptedProblem] = field(default_factory=dict)

    def complete(
        self,
        progress: Progress = lambda done, forwards: None,
        *,
        retry_errors: bool = False,
        force: bool = False,
    ) -> CollectSummary:
        """Compute what is missing, as `collect` says, and return what the file holds."""
        new = self.manifest()
        with runner.open_results(self.out, new, force=force, group=self.grouped) as results:
            errors = self.checked_errors(results)
            missing = results.missing
            if missing and all(self._prompt(row).error for row in results.rows):
                raise InputError(self._prompt(results.rows.start).error)
            self.compute(results, self.chunks(missing), progress)
            if retry_errors and errors:
                results.reopen()
                alone = [Chunk(row, row + 1) for row in errors]
                self.compute(results, alone, progress, retried=len(errors))
            results.finish()
            return self.summary(results)

    def compute(
        self,
        results: runner.Results,
        chunks: Sequence[Chunk],
        progress: Progress,
        retried: int | None = None,
    ) -> None:
        """Compute chunks of problems."""
        settings, missing = self.collection.settings, results.missing
        answers = settings.samples * (len(results.rows) - len(missing))
        # An earlier run may have collected more problems than this one wants.
        progress(min(answers, self.num_answers), 0)
        if not chunks:
            return
        entry = new_entry(
            self.denoiser, self.engine.name, missing, results.rows.stop, most=settings.chunk,
            tokens=settings.tokens, budget=work_budget(self.denoiser), retried=retried,
        )  # fmt: skip
        work = ChunkedWork(chunks, self.load, self.answering)
        for _ in results.run(self.engine, work, entry):
            answers = settings.samples * (len(results.rows) - len(results.missing))
            progress(answers, entry.forwards)

    @cached_property
    def shard_range(self) -> ShardRange | None:
        """The problems of this shard; None: all problems are collected here."""
        shard = self.collection.shard
        if shard is None:
            return None
        chunks = self.chunks(range(self.collection.settings.problems))
        return shard.range_in([0, *(chunk.stop for chunk in chunks)])

    @property
    def num_answers(self) -> int:
        """The number of answers in a new file."""
        shard, settings = self.shard_range, self.collection.settings
        problems = settings.problems if shard is None else shard.stop - shard.start
        return problems * settings.samples

    def manifest(self) -> Manifest:
        """Return the manifest of a new run."""
        task, settings = self.collection.task, self.collection.settings
        notes: dict[str, Any] = {"compared_by": compared_by(task)}
        if "editor" in settings.baselines:
            notes["edits"] = edits(self.denoiser)
        decided = {"level": self.collection.level, "sampler": asdict(self.answering.sampler)}
        full = {"model": self.denoiser.name, **asdict(settings), **decided}
        # And the scores that follow from features.
        names = (ROUNDTRIPS, *settings.baselines, *(MEANS if settings.probes else ()))
        return Manifest(
            settings=json.loads(json.dumps(full, default=str)),
            notes=notes,
            dataset=task.provenance(settings.split) if isinstance(task, Benchmark) else None,
            model=identify(self.denoiser),
            scorers={name: api.scorer_version(name) for name in names},
            thresholds=dict(self.denoiser.preset.thresholds(task.name)),
            shard=self.shard_range,
        )

    def grouped(self, lines: Iterator[Row]) -> Iterator[list[Row]]:
        """Yield the lines of each problem: one for each sample, or one with an error."""
        for line in lines:
            more = 0 if "error" in line else self.collection.settings.samples - 1
            yield [line, *(line for _, line in zip(range(more), lines, strict=False))]

    def checked_errors(self, results: runner.Results) -> list[int]:
        """Return the problems with errors; raise if a row is not what would be asked now."""
        errors = []
        for row, lines in results.lines():
            problem = self.collection.problem(row)
            numbers = [0] if "error" in lines[0] else [*range(self.collection.settings.samples)]
            for line, number in zip(lines, numbers, strict=False):
                for name, wanted in (
                    ("id", problem.id),
                    ("prompt", problem.prompt),
                    ("number", number),
                ):
                    if line.get(name) != wanted:
                        raise RecordError(
                            f"Cannot resume {self.out}: the {name} of problem {row} was "
                            f"{line.get(name)!r:.80}, got {wanted!r:.80}. Choose another file, or "
                            "pass --force to overwrite it."
                        )
            if "error" in lines[0]:
                errors.append(row)
        return errors

    @staticmethod
    def summary(results: runner.Results) -> CollectSummary:
        """Return what a finished file holds."""
        rows = [lines for _, lines in results.lines()]
        errors = (runner.error_of(lines[0]) for lines in rows)
        return CollectSummary(
            problems=len(rows), rows=sum(map(len, rows)), errors=tuple(filter(None, errors))
        )

    def load(self, chunk: Chunk) -> list[PromptedProblem]:
        """Return the problems of a chunk."""
        return [self._prompt(row) for row in range(*chunk)]

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Return problems in chunks of about a minute."""
        settings = self.collection.settings
        return cut(
            ((row, self._size(row)) for row in rows), settings.chunk, tokens=settings.tokens,
            budget=work_budget(self.denoiser),
        )  # fmt: skip

    @cached_property
    def _passes(self) -> int:
        """The forward passes of all answers to a problem."""
        settings, sampler, denoiser = (
            self.collection.settings,
            self.answering.sampler,
            self.denoiser,
        )
        trips = settings.consistency
        blocks = sampler.length // sampler.block if denoiser.block_size else 1
        verify = blocks * trips.trips * steps_at_once(trips, denoiser.block_size)
        verify += sum(Probe.named(name).passes for name in settings.probes)
        if settings.baselines != FREE_BASELINES:
            verify += baseline_forwards(settings.baselines, denoiser, sampler)
        return settings.samples * sampler.steps + settings.scored * verify

    def _prompt(self, number: int) -> PromptedProblem:
        if number not in self.prompted:
            problem, length = self.collection.problem(number), self.answering.sampler.length
            self.prompted[number] = prompt_for(self.denoiser, problem, length)
        return self.prompted[number]

    def _size(self, number: int) -> RowSize:
        """Return the size of a problem with its canvas; 0 if it cannot be asked."""
        problem = self._prompt(number)
        if problem.error:
            return RowSize(0)
        tokens = len(problem.prompt) + self.answering.sampler.length
        # With a cache, a pass computes one block.
        return RowSize(tokens, min(tokens, self.denoiser.block_size or tokens) * self._passes)
