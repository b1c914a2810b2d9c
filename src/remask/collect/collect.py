"""Model x task -> records: one JSON line per sample, with its grade, scores and cost.

    collect(model, CollectSettings(task="wordmath", problems=100), Path("records.jsonl"))

Collecting is apart from analysing: collect where the GPU is, analyse anywhere. Answers are worked
in chunks of about a minute (`chunks`), by one process or by a cluster (`engine`), and appended in
order as they finish; what was collected, and what it cost, stands in the manifest beside them. A
run that was killed goes on after the last whole chunk, and ends with the same bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from remask import api
from remask.baselines.makers import baseline_forwards
from remask.collect import manifest
from remask.collect.answers import (
    AnswerWork,
    PromptedProblem,
    WantedAnswers,
    edits,
    prompt_for,
)
from remask.collect.chunks import Chunk, ChunkLimits, work_budget
from remask.collect.engine import ChunkedWork, Engine, Local, Shards, append_results
from remask.collect.job_shard import JobShard
from remask.collect.settings import FREE_BASELINES, CollectSettings
from remask.consistency.roundtrips import steps_at_once
from remask.denoisers.base import Denoiser
from remask.errors import InputError, RecordError, TaskError
from remask.probes.settings import Probe
from remask.records import jsonl
from remask.records.jsonl import Row
from remask.records.manifest import Manifest, RunEntry, ShardRange
from remask.sampling.settings import sampler_settings
from remask.tasks import task as find_task
from remask.tasks.base import Problem, Task, check_level, compared_by
from remask.tasks.public.benchmark import Benchmark
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
    """Append the records of `settings` to `out`, continuing where an earlier run stopped.

    Args:
        denoiser: the model.
        settings: which problems, and how to score the answers.
        out: the file of records; its manifest stands beside it.
        progress: called with how many answers are there, and what this run has spent on them.
        engine: who does the work, this process by default; it changes no record.
        shard: the part of the problems that is done here; `join` makes one file of all shards.
        retry_errors: ask again what could not be asked before.
        force: replace records of another kind, which are refused otherwise.
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
        manifest.claim(out, settings.data, force=force)
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


@dataclass(kw_only=True, eq=False)
class CollectionRun:
    """One call of `collect`: the file as it is, and what is still to be worked."""

    collection: Collection
    answering: AnswerWork
    denoiser: Denoiser
    engine: Engine
    out: Path
    prompted: dict[int, PromptedProblem] = field(default_factory=dict)
    lines: list[tuple[str, str]] = field(default_factory=list)  # id and error of each row

    def complete(
        self,
        progress: Progress = lambda done, forwards: None,
        *,
        retry_errors: bool = False,
        force: bool = False,
    ) -> CollectSummary:
        """Work what is missing in the file, as `collect` says, and return what it holds then."""
        with jsonl.alone(self.out):
            document = self.begin(force)
            common = manifest.common_settings(document)
            shards = Shards.of(self.out, {**common, "portions": "answers"})
            document = self.go_on(document, shards, progress)
            if retry_errors:
                self.retry(document, shards, progress)
            shards.clear()
        return self.summary

    @cached_property
    def shard_range(self) -> ShardRange | None:
        """The problems of this shard, as a new file would have them; None: all are done here."""
        shard, settings = self.collection.shard, self.collection.settings
        if shard is None:
            return None
        whole = RunEntry(
            problems=settings.problems, chunk=settings.chunk, tokens=settings.tokens,
            budget=work_budget(self.denoiser),
        )  # fmt: skip
        ends = (divmod(chunk.stop, settings.samples) for chunk in self.chunks(whole))
        return shard.range_in([0, *(problem for problem, begun in ends if not begun)])

    @property
    def num_answers(self) -> int:
        """How many answers a new file is to hold."""
        shard, settings = self.shard_range, self.collection.settings
        problems = settings.problems if shard is None else shard.stop - shard.start
        return problems * settings.samples

    @property
    def summary(self) -> CollectSummary:
        """What the file holds."""
        return CollectSummary(
            problems=len({problem for problem, _ in self.lines}),
            rows=len(self.lines),
            errors=tuple(error for _, error in self.lines if error),
        )

    def begin(self, force: bool) -> Manifest:
        """Return the manifest, new or that of the run to go on with."""
        task, settings = self.collection.task, self.collection.settings
        dataset = task.provenance(settings.split) if isinstance(task, Benchmark) else None
        notes: dict[str, Any] = {"compared_by": compared_by(task)}
        if "editor" in settings.baselines:
            notes["edits"] = edits(self.denoiser)
        decided = {"level": self.collection.level, "sampler": asdict(self.answering.sampler)}
        full = {**asdict(settings), **decided}
        # And the scores that follow from features.
        names = (ROUNDTRIPS, *settings.baselines, *(MEANS if settings.probes else ()))
        scorers = {name: api.scorer_version(name) for name in names}
        begin = partial(
            manifest.begin, self.denoiser, full, dataset, self.out, notes=notes, scorers=scorers,
            task=task.name,
            shard=self.shard_range,
        )  # fmt: skip
        try:
            return begin()
        except RecordError:
            if not force:
                raise
        manifest.discard(self.out)
        return begin()

    def go_on(self, document: Manifest, shards: Shards, progress: Progress) -> Manifest:
        """Work what is missing; return the manifest with this run in it."""
        settings = self.collection.settings
        samples = settings.samples
        begin, total = (n * samples for n in (document.problems.start, document.problems.stop))
        jsonl.recover(self.out)
        self.lines = [_line(row) for row in jsonl.read(self.out)]
        places = self._places(document)
        there = places[-1] if places else begin
        done = manifest.resume_at(document, there, self.chunks, per=samples)
        progress(min(done, total) - begin, 0)  # more may be there than is wanted
        if done >= total:
            return document
        if all(self._prompt(number).error for number in range(settings.problems)):
            raise InputError(self._prompt(0).error)  # that is no matter of single rows
        del self.lines[sum(place <= done for place in places) :]
        jsonl.keep(self.out, len(self.lines))
        first, number = divmod(done, samples)
        run = manifest.start(
            self.denoiser, document, first, self.out, self.engine.name, from_sample=number,
            budget=work_budget(self.denoiser),
        )  # fmt: skip
        job = ChunkedWork(self.chunks(run.entry), self.load, self.answering, shards)
        for chunk, rows in append_results(self.out, self.engine, job):
            self.lines += map(_line, rows)
            run.note(chunk.stop // samples, rows, finished=chunk.stop == total)
            progress(chunk.stop - begin, run.entry.forwards)
        return run.manifest

    def retry(self, document: Manifest, shards: Shards, progress: Progress) -> None:
        """Ask again what could not be asked; answers take the place of their error."""
        problems, samples = document.problems, self.collection.settings.samples
        numbers = [place // samples - 1 for place in self._places(document)]
        failed = [n for (_, error), n in zip(self.lines, numbers, strict=True) if error]
        if not failed:
            return
        run = manifest.start(
            self.denoiser, document, problems.stop, self.out, self.engine.name,
            retried=len(failed),
        )  # fmt: skip
        whole = [Chunk(number * samples, (number + 1) * samples) for number in failed]
        results = self.engine.results(ChunkedWork(whole, self.load, self.answering, shards))
        answers = dict(zip(failed, results, strict=True))
        rows = list(_merged(jsonl.read(self.out), numbers, answers))
        jsonl.replace_rows(self.out, rows)
        self.lines = list(map(_line, rows))
        run.note(problems.stop, [row for some in answers.values() for row in some], finished=True)
        progress(len(problems) * samples, run.entry.forwards)

    def load(self, chunk: Chunk) -> WantedAnswers:
        """Return what a chunk is made of."""
        samples = self.collection.settings.samples
        first, begun = divmod(chunk.start, samples)
        last = -(-chunk.stop // samples)
        stop = chunk.stop - (last - 1) * samples
        return WantedAnswers([self._prompt(k) for k in range(first, last)], range(begun, stop))

    def chunks(self, run: RunEntry) -> list[Chunk]:
        """Return the chunks of a run, as its entry in the manifest says."""
        limits = replace(self._limits, most=run.chunk, tokens=run.tokens, budget=run.budget)
        lengths = [self._length(number) for number in range(run.start, run.problems)]
        return limits.chunks(run.start * limits.samples + (run.from_sample or 0), lengths)

    @cached_property
    def _limits(self) -> ChunkLimits:
        """What the answers cost, without the limits of a run."""
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
        return ChunkLimits(
            samples=settings.samples,
            scored=settings.scored,
            write=sampler.steps,
            verify=verify,
            most=settings.chunk,
            columns=denoiser.block_size,  # the blocks before it are cached
        )

    def _prompt(self, number: int) -> PromptedProblem:
        if number not in self.prompted:
            problem, length = self.collection.problem(number), self.answering.sampler.length
            self.prompted[number] = prompt_for(self.denoiser, problem, length)
        return self.prompted[number]

    def _length(self, number: int) -> int:
        """Return the tokens of a problem and its canvas; 0 for one that cannot be asked."""
        problem = self._prompt(number)
        return 0 if problem.error else len(problem.prompt) + self.answering.sampler.length

    def _places(self, document: Manifest) -> list[int]:
        """Return the place after each row: an error stands for all answers to its problem."""
        samples = self.collection.settings.samples
        begin = document.problems.start * samples
        answers = (samples if error else 1 for _, error in self.lines)
        return list(accumulate(answers, initial=begin))[1:]


def _line(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row.get("id")), str(row.get("error", ""))


def _merged(
    rows: Iterable[Row], numbers: Iterable[int], answers: Mapping[int, list[Row]]
) -> Iterator[Row]:
    """Yield the rows in order, each error replaced by what came of asking again."""
    for row, number in zip(rows, numbers, strict=True):
        yield from answers[number] if "error" in row else [row]
