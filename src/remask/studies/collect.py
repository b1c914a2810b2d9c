"""Model x task -> records: one JSON line per sample, with its grade, scores and cost.

Collecting is apart from analysing: collect where the GPU is, analyse anywhere. Problems are worked
in chunks and appended as they finish; the same command again continues after the last whole chunk.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from remask import records
from remask.baselines.confidence import ModelConfidence
from remask.consistency.cycle import ConsistencySettings
from remask.consistency.estimator import Consistency
from remask.denoisers.base import Denoiser
from remask.errors import RecordError
from remask.sampling.sampler import SamplerSettings, sample
from remask.tasks import task as find_task
from remask.tasks.base import Problem, Split, Task, check_level
from remask.values import Sample, Score

EXTRA_METRICS = ("cross_entropy", "critical_divergence", "embedding_distance")


@dataclass(frozen=True, kw_only=True)
class CollectSettings:
    """Which problems, how many samples of each, and how to score them."""

    task: str
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
    task = find_task(settings.task)
    level = check_level(task, settings.level, settings.split)
    settings = replace(
        settings,
        level=level,
        sampler=settings.sampler or sampler_settings(denoiser, task, level),
    )
    _manifest(denoiser, settings, out)
    done = records.recover(out, settings.samples)
    progress(done)
    for start in range(done, settings.problems, settings.chunk):
        stop = min(start + settings.chunk, settings.problems)
        numbers = range(start, stop)
        problems = [
            task.problem(i, split=settings.split, level=level, seed=settings.seed) for i in numbers
        ]
        records.append(out, collect_problems(denoiser, task, problems, settings))
        progress(stop)
    return out


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
    right = grade_pools(task, problems, pools)
    for problem, pool, grades in zip(problems, pools, right, strict=True):
        for answer, (graded, process) in zip(pool, grades, strict=True):
            score = scores.get((answer.item, answer.number))
            yield record(task, problem, answer, graded, process, score)


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


def grade_pools(
    task: Task, problems: Sequence[Problem], pools: Sequence[Sequence[Sample]]
) -> list[list[tuple[bool, bool]]]:
    """Return (right, every step right) per sample; equal texts of a problem are graded once."""

    def judge(job: tuple[Problem, str]) -> tuple[bool, bool]:
        right = task.grade(*job)
        return right, right and task.process_ok(*job)

    pairs = list(zip(problems, pools, strict=True))
    jobs = {(p.id, answer.text): (p, answer.text) for p, pool in pairs for answer in pool}
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # graders that run code wait for processes
        known = dict(zip(jobs, threads.map(judge, jobs.values()), strict=True))
    return [[known[p.id, answer.text] for answer in pool] for p, pool in pairs]


def record(
    task: Task, problem: Problem, answer: Sample, right: bool, process: bool, score: Score | None
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


def _manifest(denoiser: Denoiser, settings: CollectSettings, out: Path) -> None:
    """Write what was asked beside the records, or refuse to mix two different runs."""
    path = out.with_suffix(out.suffix + ".manifest.json")
    asked = {"model": denoiser.name, **json.loads(json.dumps(asdict(settings)))}
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))["asked"]
        fixed = {k: v for k, v in asked.items() if k not in ("problems", "chunk")}
        if any(found.get(k) != v for k, v in fixed.items()):
            raise RecordError(f"{out} was collected with other settings; choose another file.")
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    import torch

    row = {
        "asked": asked,
        "device": str(denoiser.device),
        "torch": torch.__version__,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    path.write_text(json.dumps(row, indent=2) + "\n", encoding="utf-8")
