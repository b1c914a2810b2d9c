"""Model x task -> records: one JSON line per sample, with its grade, scores and cost.

Collecting is apart from analysing: collect where the GPU is, analyse anywhere. Problems are worked
in portions, by one process or by a cluster (`engine`), and appended in order as they finish; the
same command again continues after the last whole portion, and ends with the same bytes. Another
size of portion makes other batches, which may change the last digit of a number. What was asked and
what it cost stands in the manifest (`manifest.py`).
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from remask import records
from remask.baselines.confidence import ModelConfidence
from remask.consistency.cycle import ConsistencySettings
from remask.consistency.estimator import Consistency
from remask.denoisers.base import Denoiser
from remask.engine.portions import Engine, Local, Portion, cut, cut_by_tokens
from remask.engine.shards import Shards
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
    shots: int = 0  # worked examples of its train split that they show
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
    chunk: int = 256  # most problems of a portion
    tokens: int | None = None  # most tokens of one, prompts and canvases padded; None: no limit


def sampler_settings(denoiser: Denoiser, task: Task, level: str) -> SamplerSettings:
    """Return the preset for a task, with the canvas its level needs and a token a step."""
    preset = denoiser.preset.for_task(task.name)
    length = task.canvas_length(level)
    whole = preset.block == preset.length or length % preset.block != 0
    block = length if whole else preset.block
    return replace(SamplerSettings.of(preset), length=length, steps=length, block=block)


def pool_sampler(denoiser: Denoiser, task: Task, settings: CollectSettings) -> SamplerSettings:
    """Return how the pool of each problem is drawn, or refuse to draw copies."""
    sampler = settings.sampler or sampler_settings(denoiser, task, settings.level)
    return sampler.for_pool(settings.samples, "samples")


def collect(
    denoiser: Denoiser,
    settings: CollectSettings,
    out: Path,
    progress: Callable[[int], None] = lambda done: None,
    engine: Engine | None = None,
) -> Path:
    """Append the records of `settings` to `out`, continuing where an earlier run stopped.

    The engine that does the work, this process by default, changes no record.
    """
    engine = engine or Local(denoiser)
    task = prepare(settings)
    level = check_level(task, settings.level, settings.split)
    settings = replace(
        settings,
        level=level,
        sampler=pool_sampler(denoiser, task, replace(settings, level=level)),
    )
    dataset = task.provenance(settings.split) if isinstance(task, Benchmark) else None
    with records.alone(out):
        document = manifest.begin(denoiser, asdict(settings), dataset, out)
        shards = Shards.of(out, manifest.kind_of(document))
        known = partial(portions_of, denoiser, task, settings)
        done = manifest.resume_at(document, records.recover(out, settings.samples), known)
        progress(done)
        if done < settings.problems:
            records.keep(out, done * settings.samples)
            run = manifest.start(denoiser, document, done, out, engine.name)
            portions = known(run.entry)
            load = partial(_load, task, settings)
            found = engine.results(portions, load, partial(_work, task, settings), shards)
            for portion, rows in zip(portions, found, strict=True):
                records.append(out, rows)
                run.note(portion.stop, rows, finished=portion.stop == settings.problems)
                progress(portion.stop)
        shards.clear()
    return out


def portions_of(
    denoiser: Denoiser, task: Task, settings: CollectSettings, run: Mapping[str, Any]
) -> list[Portion]:
    """Return the portions of a run, as its entry in the manifest says."""
    start, stop, most, tokens = run["from"], run["problems"], run["chunk"], run.get("tokens")
    if tokens is None:
        return cut(start, stop, most)
    sampler = pool_sampler(denoiser, task, settings)
    render = denoiser.tokenizer.render
    rows = [render(p.prompt, p.examples) for p in draw(task, settings, start, stop)]
    lengths = [len(row) + sampler.length for row in rows]
    return cut_by_tokens(start, lengths, tokens, most)


def _load(task: Task, settings: CollectSettings, portion: Portion) -> list[Problem]:
    return draw(task, settings, portion.start, portion.stop)


def _work(
    task: Task, settings: CollectSettings, denoiser: Denoiser, problems: list[Problem]
) -> list[dict[str, Any]]:
    return list(collect_problems(denoiser, task, problems, settings))


def prepare(settings: CollectSettings) -> Task:
    """Return the task, with everything checked that can be before a model is loaded.

    Of a public benchmark that is leave to grade, the number of problems and every row asked for.
    """
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
    sampler = pool_sampler(denoiser, task, settings)
    prompts = [denoiser.tokenizer.render(p.prompt, p.examples) for p in problems]
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
