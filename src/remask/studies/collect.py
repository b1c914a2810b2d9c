"""Model x task -> records: one JSON line per sample, with its grade, scores and cost.

Collecting is apart from analysing: collect where the GPU is, analyse anywhere. Problems are worked
in chunks and appended as they finish; the same command again continues after the last whole chunk,
and ends with the same bytes. Another size of chunk makes other batches, which may change the last
digit of a number. What was asked and what it cost stands in the manifest (`manifest.py`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from remask import records
from remask.baselines.confidence import ModelConfidence
from remask.consistency.cycle import ConsistencySettings
from remask.consistency.estimator import Consistency
from remask.denoisers.base import Denoiser
from remask.errors import TaskError
from remask.sampling.sampler import SamplerSettings, sample
from remask.studies import manifest
from remask.tasks import steps_ok
from remask.tasks import task as find_task
from remask.tasks.base import Grade, Problem, Split, Task, check_level
from remask.tasks.public.benchmark import Benchmark
from remask.values import Sample, Score

EXTRA_METRICS = ("cross_entropy", "critical_divergence", "embedding_distance")


@dataclass(frozen=True, kw_only=True)
class CollectSettings:
    """Which problems, how many samples of each, and how to score them."""

    task: str
    data: Path | None = None  # rows of a public benchmark; None: the hub
    wording: str = "llada"  # whose prompts ask a public benchmark
    allow_execution: bool = False  # let grading run the model's code
    level: str = ""
    split: Split = "test"
    problems: int = 32
    samples: int = 1  # size of the pool per problem
    scored: int = 1  # how many of the pool get round trips
    sampler: SamplerSettings | None = None  # None: the model's preset for the task
    consistency: ConsistencySettings = field(default_factory=ConsistencySettings)
    metrics: str = "paper"
    seed: int = 0
    chunk: int = 256


def sampler_settings(denoiser: Denoiser, task: Task, level: str) -> SamplerSettings:
    """Return the preset for a task, with the canvas its level needs and a token a step."""
    preset = denoiser.preset.for_task(task.name)
    length = task.canvas_length(level)
    whole = preset.block == preset.length or length % preset.block != 0
    block = length if whole else preset.block
    return replace(SamplerSettings.of(preset), length=length, steps=length, block=block)


def collect(
    denoiser: Denoiser,
    settings: CollectSettings,
    out: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> Path:
    """Append the records of `settings` to `out`, continuing where an earlier run stopped."""
    task = prepare(settings)
    level = check_level(task, settings.level, settings.split)
    settings = replace(
        settings,
        level=level,
        sampler=settings.sampler or sampler_settings(denoiser, task, level),
    )
    dataset = task.provenance(settings.split) if isinstance(task, Benchmark) else None
    document = manifest.begin(denoiser, asdict(settings), dataset, out)
    done = manifest.resume_at(document, records.recover(out, settings.samples))
    progress(done)
    if done >= settings.problems:
        return out
    if out.exists():
        records.keep(out, done * settings.samples)
    run = manifest.start(denoiser, document, done, out)
    for start in range(done, settings.problems, settings.chunk):
        stop = min(start + settings.chunk, settings.problems)
        rows = list(collect_problems(denoiser, task, draw(task, settings, start, stop), settings))
        records.append(out, rows)
        run.note(stop, rows, finished=stop == settings.problems)
        progress(stop)
    return out


def prepare(settings: CollectSettings) -> Task:
    """Return the task, with everything checked that can be before a model is loaded.

    Of a public benchmark that is leave to grade, the number of problems and every row asked for.
    """
    task = find_task(
        settings.task,
        path=settings.data,
        allow_execution=settings.allow_execution,
        wording=settings.wording,
    )
    level = check_level(task, settings.level, settings.split)
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


def collect_problems(
    denoiser: Denoiser, task: Task, problems: Sequence[Problem], settings: CollectSettings
) -> Iterator[dict[str, Any]]:
    """Yield the records of some problems, a problem's samples together, in order."""
    pools = draw_pools(denoiser, task, problems, settings)
    scorer = Consistency(
        denoiser=denoiser,
        extract=task.extract,
        settings=settings.consistency,
        metric_set="core" if settings.metrics == "core" else "paper",
        task_metrics=task.metrics,
        extra_metrics=EXTRA_METRICS,
        seed=settings.seed,
    )
    chosen = [s for pool in pools for s in pool[: settings.scored]]
    scores = dict(zip(((s.item, s.number) for s in chosen), scorer.score(chosen), strict=True))
    judged = judge_pools(task, problems, pools)
    for problem, pool, found in zip(problems, pools, judged, strict=True):
        for answer, (grade, process) in zip(pool, found, strict=True):
            score = scores.get((answer.item, answer.number))
            row = record(task, problem, answer, grade.right, process, score)
            row |= {"tier": grade.tier, "method": grade.method, "reason": grade.reason}
            if score is not None:  # what the drift is of
                row["pieces"] = denoiser.tokenizer.pieces(answer.canvas[: answer.num_response])
            yield row


def draw_pools(
    denoiser: Denoiser, task: Task, problems: Sequence[Problem], settings: CollectSettings
) -> list[list[Sample]]:
    """Return a pool of samples per problem."""
    sampler = settings.sampler or sampler_settings(denoiser, task, settings.level)
    prompts = [denoiser.tokenizer.render(p.prompt) for p in problems]
    items = [p.id for p in problems]
    rounds = [
        sample(denoiser, prompts, sampler, items=items, number=n, seed=settings.seed)
        for n in range(settings.samples)
    ]
    return [list(pool) for pool in zip(*rounds, strict=True)]


class Judged(NamedTuple):
    """What is known of an answer's truth."""

    grade: Grade
    process_ok: bool | None  # every step is right as well; None: steps have no labels


def judge_pools(
    task: Task, problems: Sequence[Problem], pools: Sequence[Sequence[Sample]]
) -> list[list[Judged]]:
    """Return what is known of every sample; equal texts of a problem are judged once."""

    def judge(job: tuple[Problem, str]) -> Judged:
        grade = task.judge(*job)
        return Judged(grade, steps_ok(task, *job, grade.right))

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


def _rounded(values: Any) -> dict[str, float | None]:
    return {name: _round(value) for name, value in values.items()}


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 7)
