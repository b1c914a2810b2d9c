"""Model x task -> records: one JSON line per sample, with its grade, scores and cost.

Collecting is apart from analysing: collect where the GPU is, analyse anywhere. Answers are worked
in portions of about a minute (`pace`), by one process or by a cluster (`engine`), and appended as
they finish (`collection`). A problem that cannot be asked (`asking`) is one row with `error` in
place of its answers. What was asked and what it cost stands in the manifest (`manifest.py`).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from remask.baselines.confidence import ModelConfidence
from remask.collect import manifest, rivals
from remask.collect.asking import Asked, ask, error_record
from remask.collect.chunks import Engine, Local, Portion
from remask.collect.collection import Collection, Progress
from remask.collect.pace import Pace
from remask.collect.settings import CollectSettings, choose_baselines
from remask.collect.shards import Shards
from remask.consistency.estimator import Consistency
from remask.denoisers.base import Denoiser
from remask.errors import RecordError, SettingsError, TaskError
from remask.records import jsonl
from remask.sampling.sampler import sample_rows
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.tasks import steps_ok
from remask.tasks import task as find_task
from remask.tasks.base import (
    SPELLING,
    Grade,
    Problem,
    Task,
    answer_key,
    check_level,
    compared_by,
)
from remask.tasks.public.benchmark import Benchmark
from remask.values import Sample, Score

EXTRA_METRICS = ("cross_entropy", "critical_divergence", "embedding_distance")


def pool_sampler(denoiser: Denoiser, task: Task, settings: CollectSettings) -> SamplerSettings:
    """Return how the pool of each problem is drawn, or refuse to draw copies."""
    canvas = task.canvas_length(settings.level)
    sampler = settings.sampler or sampler_settings(denoiser, kind=task.name, canvas=canvas)
    return sampler.for_pool(settings.samples, "samples")


class Wanted(NamedTuple):
    """The answers of one portion: these samples of these problems."""

    problems: list[Problem]
    numbers: range


def collect(
    denoiser: Denoiser,
    settings: CollectSettings,
    out: Path,
    progress: Progress = lambda done, forwards: None,
    engine: Engine | None = None,
    *,
    retry_errors: bool = False,
    force: bool = False,
) -> Path:
    """Append the records of `settings` to `out`, continuing where an earlier run stopped.

    Args:
        denoiser: the model.
        settings: what to ask, and how to score it.
        out: the file of records; its manifest stands beside it.
        progress: told how many answers are there, and what this run has spent on them so far.
        engine: who does the work, this process by default; it changes no record.
        retry_errors: ask again what could not be asked before.
        force: replace records of another kind, which are refused otherwise.
    """
    task = prepare(settings, out, force)
    level = check_level(task, settings.level, settings.split)
    settings = replace(
        settings,
        level=level,
        sampler=pool_sampler(denoiser, task, replace(settings, level=level)),
        baselines=choose_baselines(settings.baselines),
    )
    collection = collection_of(denoiser, task, settings, out, engine or Local(denoiser))
    with jsonl.alone(out):
        document = _begin(denoiser, task, settings, out, force)
        shards = Shards.of(out, {**manifest.kind_of(document), "portions": "answers"})
        document = collection.go_on(document, shards, progress)
        if retry_errors:
            collection.retry(document, shards, progress)
        shards.clear()
    return out


def collection_of(
    denoiser: Denoiser, task: Task, settings: CollectSettings, out: Path, engine: Engine
) -> Collection:
    """Return what is to be in a file, and who works it."""
    return Collection(
        out=out,
        denoiser=denoiser,
        engine=engine,
        problems=settings.problems,
        samples=settings.samples,
        canvas=pool_sampler(denoiser, task, settings).length,
        pace=_pace(denoiser, task, settings),
        ask=partial(_ask, denoiser, task, settings),
        load=partial(_load, task, settings),
        work=partial(_work, task, settings),
    )


def _begin(
    denoiser: Denoiser, task: Task, settings: CollectSettings, out: Path, force: bool
) -> manifest.Document:
    """Return the manifest, new or that of the run to go on with."""
    dataset = task.provenance(settings.split) if isinstance(task, Benchmark) else None
    about: dict[str, Any] = {"compared_by": compared_by(task)}
    if "editor" in settings.baselines:
        about["edits"] = rivals.edits(denoiser)
    begin = partial(manifest.begin, denoiser, asdict(settings), dataset, out, about=about)
    try:
        return begin()
    except RecordError:
        if not force:
            raise
    manifest.discard(out)
    return begin()


def _pace(denoiser: Denoiser, task: Task, settings: CollectSettings) -> Pace:
    """Return what the answers cost, without the limits of a run."""
    sampler, trips = pool_sampler(denoiser, task, settings), settings.consistency
    blocks = sampler.length // sampler.block if denoiser.block_size else 1
    verify = blocks * trips.trips * trips.steps_at_once(denoiser.block_size)
    return Pace(
        samples=settings.samples,
        scored=settings.scored,
        write=sampler.steps,
        verify=verify + rivals.forwards(settings.baselines, denoiser, sampler),
        most=settings.chunk,
        columns=denoiser.block_size,  # the blocks before it are kept
    )


def _ask(denoiser: Denoiser, task: Task, settings: CollectSettings, number: int) -> Asked:
    (problem,) = draw(task, settings, number, number + 1)
    return ask(denoiser, problem, pool_sampler(denoiser, task, settings).length)


def _load(task: Task, settings: CollectSettings, portion: Portion) -> Wanted:
    first, begun = divmod(portion.start, settings.samples)
    last = -(-portion.stop // settings.samples)
    stop = portion.stop - (last - 1) * settings.samples
    return Wanted(draw(task, settings, first, last), range(begun, stop))


def _work(
    task: Task, settings: CollectSettings, denoiser: Denoiser, wanted: Wanted
) -> list[dict[str, Any]]:
    return list(collect_answers(denoiser, task, wanted, settings))


def prepare(settings: CollectSettings, out: Path | None = None, force: bool = False) -> Task:
    """Return the task, with everything checked that can be before a model is loaded.

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
    choose_baselines(settings.baselines)
    if settings.scored > settings.samples:
        raise SettingsError(
            f"scored is {settings.scored} and samples is {settings.samples}; draw as many samples "
            "as are to be scored, or score fewer."
        )
    if isinstance(task, Benchmark):
        task.check()
        size = task.size(settings.split, level)
        if settings.problems > size:
            raise TaskError(
                f"{task.name} has {size} problems of split {settings.split!r}, level {level!r}, "
                f"and {settings.problems} are asked for; ask for {size} at most."
            )
        draw(task, settings, 0, settings.problems)
    return task


def draw(task: Task, settings: CollectSettings, start: int, stop: int) -> list[Problem]:
    """Return the problems from number `start` to before `stop`."""
    level, seed = settings.level, settings.seed
    return [
        task.problem(number, split=settings.split, level=level, seed=seed)
        for number in range(start, stop)
    ]


def collect_answers(
    denoiser: Denoiser, task: Task, wanted: Wanted, settings: CollectSettings
) -> Iterator[dict[str, Any]]:
    """Yield the records of a portion, a problem's answers together, in order."""
    sampler = pool_sampler(denoiser, task, settings)
    questions = [ask(denoiser, problem, sampler.length) for problem in wanted.problems]
    problems = [question.problem for question in questions if not question.error]
    pools = draw_pools(denoiser, task, problems, settings, wanted.numbers)
    trips, others = _scores(denoiser, task, problems, pools, settings)
    judged = iter(zip(pools, judge_pools(task, problems, pools, settings.samples), strict=True))
    for question in questions:
        if question.error:
            yield error_record(question)
            continue
        for answer, verdict in zip(*next(judged), strict=True):
            place = answer.item, answer.number
            row = record(
                task, question.problem, answer, verdict.grade.right, verdict.process_ok,
                trips.get(place),
            )  # fmt: skip
            row |= {"tier": verdict.grade.tier, "method": verdict.grade.method}
            row["reason"] = verdict.grade.reason
            if place in trips:  # what the drift is of
                row["pieces"] = denoiser.tokenizer.pieces(answer.canvas[: answer.num_response])
            if verdict.has_key:
                row["key"] = verdict.key
            yield with_baselines(row, others.get(place, {}))


Place = tuple[str, int]  # item and number of a sample


def _scores(
    denoiser: Denoiser,
    task: Task,
    problems: Sequence[Problem],
    pools: Sequence[Sequence[Sample]],
    settings: CollectSettings,
) -> tuple[dict[Place, Score], dict[Place, dict[str, Score]]]:
    """Return the round trips of the answers that get some, and the baselines that cost passes."""
    scorer = Consistency(
        denoiser=denoiser,
        extract=task.extract,
        settings=settings.consistency,
        metric_set="core" if settings.metrics == "core" else "paper",
        task_metrics=task.metrics,
        extra_metrics=EXTRA_METRICS,
        seed=settings.seed,
    )
    verified = [s for pool in pools for s in pool if s.number < settings.scored]
    trips = {_place(s): score for s, score in zip(verified, scorer.score(verified), strict=True)}
    compared = [s for pool in pools for s in pool if s.number < max(settings.scored, 1)]
    sampler = pool_sampler(denoiser, task, settings)
    columns = rivals.score(
        settings.baselines, denoiser, compared, {p.id: p.prompt for p in problems}, sampler,
        settings.seed,
    )  # fmt: skip
    others = {
        _place(s): {name: column[i] for name, column in columns.items()}
        for i, s in enumerate(compared)
        if columns
    }
    return trips, others


def _place(answer: Sample) -> Place:
    return answer.item, answer.number


def draw_pools(
    denoiser: Denoiser,
    task: Task,
    problems: Sequence[Problem],
    settings: CollectSettings,
    numbers: range | None = None,
) -> list[list[Sample]]:
    """Return the samples of each problem, those of a whole pool or of some numbers."""
    sampler = pool_sampler(denoiser, task, settings)
    prompts = [denoiser.tokenizer.render(p.prompt, p.examples) for p in problems]
    wanted = range(settings.samples) if numbers is None else numbers
    answers = sample_rows(
        denoiser,
        [prompt for prompt in prompts for _ in wanted],
        sampler,
        items=[problem.id for problem in problems for _ in wanted],
        numbers=[number for _ in problems for number in wanted],
        seed=settings.seed,
    )
    return [answers[k : k + len(wanted)] for k in range(0, len(answers), len(wanted))]


class Judged(NamedTuple):
    """What is known of an answer's truth."""

    grade: Grade
    process_ok: bool | None  # every step is right as well; None: steps have no labels
    key: str | None = None  # what votes compare it by
    has_key: bool = False  # that is another thing than the answer as it was read


def judge_pools(
    task: Task, problems: Sequence[Problem], pools: Sequence[Sequence[Sample]], samples: int = 1
) -> list[list[Judged]]:
    """Return what is known of every sample; equal texts of a problem are judged once.

    Where a problem has several samples, and the task compares them by more than spelling, that is
    known too.
    """
    with_key = samples > 1 and compared_by(task) != SPELLING

    def judge(job: tuple[Problem, str]) -> Judged:
        grade = task.judge(*job)
        key = answer_key(task, *job) if with_key else None
        return Judged(grade, steps_ok(task, *job, grade.right), key, with_key)

    pairs = list(zip(problems, pools, strict=True))
    jobs = {(p.id, answer.text): (p, answer.text) for p, pool in pairs for answer in pool}
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # graders that run code wait for processes
        known = dict(zip(jobs, threads.map(judge, jobs.values()), strict=True))
    return [[known[p.id, answer.text] for answer in pool] for p, pool in pairs]


def grade_pools(
    task: Task, problems: Sequence[Problem], pools: Sequence[Sequence[Sample]]
) -> list[list[tuple[bool, bool | None]]]:
    """Return (right, every step right) per sample."""
    judged = judge_pools(task, problems, pools)
    return [[(found.grade.right, found.process_ok) for found in pool] for pool in judged]


def record(
    task: Task,
    problem: Problem,
    answer: Sample,
    right: bool,
    process: bool | None,
    score: Score | None,
) -> dict[str, Any]:
    """Return one sample as a JSON-ready row; numbers are rounded to what a float32 holds."""
    confidence, canvas = (
        ModelConfidence(scope=scope).score([answer])[0].value for scope in ("response", "canvas")
    )
    row: dict[str, Any] = {
        "id": problem.id,
        "task": problem.task,
        "level": problem.level,
        "number": answer.number,
        "prompt": problem.prompt,
        "gold": problem.gold,
        "text": answer.text,
        "answer": task.extract(answer.text),
        "right": right,
        "process_ok": process,
        "forwards": answer.forwards,
        "scores": _rounded({"confidence": confidence, "confidence_canvas": canvas}),
    }
    if score is not None:
        row["scores"]["roundtrips"] = _round(score.value)
        row["stderr"] = _round(score.stderr)
        row["metrics"] = _rounded(score.by_metric)
        row["by_trip"] = {k: [_round(v) for v in vs] for k, vs in score.by_trip.items()}
        row["drift"] = [_round(d) for d in score.drift]
        row["verify_forwards"] = score.forwards
    return row


def with_baselines(row: dict[str, Any], scores: Mapping[str, Score]) -> dict[str, Any]:
    """Return a row with baselines that cost passes: their scores, and beside them what they cost.

    One that gave no number is there all the same, as null, with the reason.
    """
    if not scores:
        return row
    values = {name: _round(score.value) for name, score in scores.items()}
    costs = {
        name: {"forwards": score.forwards} | ({"reason": score.reason} if score.reason else {})
        for name, score in scores.items()
    }
    return {**row, "scores": {**row["scores"], **values}, "baselines": costs}


def _rounded(values: Any) -> dict[str, float | None]:
    return {name: _round(value) for name, value in values.items()}


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 7)
