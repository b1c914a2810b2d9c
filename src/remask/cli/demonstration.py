"""The story for a stranger: a small model solves problems and catches its own errors.

    write a pool of answers per problem -> verify them by round trips, as rejection sampling does
    -> which score tells right from wrong? what do further samples gain? -> tables, pictures

Sized for five minutes on two CPU cores: answers are written several tokens per step, and a further
sample is verified only where no earlier one was trusted. The full-size study, whose figures stand
beside these, hurries neither.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from torch import Tensor

from remask import api
from remask.analysis.correction import Correction, correction
from remask.analysis.diagnosis import Diagnosis, diagnosis
from remask.analysis.methods import columns, methods
from remask.analysis.pool import pools
from remask.cli import terminal
from remask.collect.answers import (
    draw_pools,
    grade_pools,
    make_record,
    prompt_for,
    scorer_for,
)
from remask.collect.settings import CollectSettings
from remask.consistency.roundtrips import round_trips
from remask.consistency.semantic import sentence_encoder
from remask.consistency.settings import ConsistencySettings
from remask.decide.rejection import Round, decide
from remask.denoisers.base import Denoiser
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.load import EMBEDDED, load
from remask.denoisers.wrap import Counted
from remask.errors import SettingsError
from remask.records import jsonl
from remask.records.record import Record
from remask.report import render
from remask.report.terminal import show_correction, show_diagnosis
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.tasks import task as find_task
from remask.tasks.base import Problem
from remask.values import Canvas, RoundTrips, Sample, Score

MODEL = "tiny"
TASK = "wordmath"
HARD_SHARE = 0.625  # the others are of the level below: right and wrong answers must both be there
METRIC_SET: Literal["paper", "core"] = "paper"
CONSISTENCY = ConsistencySettings()
TOKENS_PER_STEP = 2
SHOWN_IN_ROC = ("roundtrips", "confidence", "vote", "agreement")

Document = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the demo does, chosen before it starts."""

    levels: Mapping[str, int]  # problems of each level
    samplers: Mapping[str, SamplerSettings]
    samples: int
    threshold: float
    seed: int

    @property
    def problems(self) -> int:
        """Problems in all."""
        return sum(self.levels.values())


class Attempt(NamedTuple):
    """One verified answer, with what its round trips brought back."""

    trips: RoundTrips
    score: Score


Attempts = dict[tuple[str, int], Attempt]  # by problem and sample number
Pools = list[tuple[Problem, list[Sample]]]  # the answers to each problem


@dataclass(frozen=True, eq=False)
class Watched(Counted):
    """Advances a progress bar with every forward pass."""

    tick: Callable[[int], None] = lambda forwards: None

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        """Pass on, then advance."""
        states = super().hidden(canvas, cache)
        self.tick(self.by_call[-1])
        return states


def run(
    *,
    out: Path,
    problems: int = 32,
    samples: int = 3,
    seed: int = 0,
    device: str = "auto",
    split: str = "replicas",
    as_json: bool = False,
) -> int:
    """Work the demo, show it, write its folder, and return the exit code."""
    started = time.perf_counter()
    console = Console(quiet=as_json, highlight=False)
    with terminal.waiting("loading the embedded model and the sentence encoder"):
        model = load(MODEL, device=device, split=split)
        if METRIC_SET == "paper":
            sentence_encoder(model.device.type)  # here, so that no progress bar has to wait for it
    plan = make_plan(model, problems, samples, seed)
    introduce(console, plan)
    written = [pool for level in plan.levels for pool in write(model, plan, level)]
    attempts = verify(model, plan, written)
    rows = grade(written, attempts)
    diagnoses, corrections = diagnosis(rows), correction(rows, plan.threshold, plan.samples)
    examples = pick(rows)
    files = draw_pictures(model, out, rows, examples, attempts)
    summary = summarise(plan, rows, diagnoses, corrections, time.perf_counter() - started)
    files += save(out, rows, summary)
    if as_json:
        print(json.dumps({**summary, "files": [str(path) for path in files]}, indent=2))
        return 0
    right = [row.right for row in rows if row.number == 0]
    show_diagnosis(console, diagnoses, right, full_size(), f"{TASK}-hard")
    show_correction(console, corrections, full_size(), f"{TASK}-hard")
    for kind, row in examples.items():
        show_answer(console, model, kind, row, attempts[row.id, 0])
    show_end(console, files, summary["seconds"])
    return 0


def make_plan(model: Denoiser, problems: int, samples: int, seed: int) -> Plan:
    """Return how many problems of which level, and how their answers are written."""
    for name, value in (("problems", problems), ("samples", samples)):
        if value < 1:
            raise SettingsError(f"{name} is {value}; it must be at least 1.")
    task = find_task(TASK)
    easier, hard = task.levels[-2:]
    num_hard = math.ceil(problems * HARD_SHARE)
    levels = {hard: num_hard} | ({easier: problems - num_hard} if problems > num_hard else {})
    samplers = {}
    for level in levels:
        usual = sampler_settings(model, kind=TASK, canvas=task.canvas_length(level))
        samplers[level] = replace(usual, steps=max(1, usual.length // TOKENS_PER_STEP))
    scorer = api.consistency(model, kind=TASK, settings=CONSISTENCY, metrics=METRIC_SET)
    threshold = api.threshold_for(model, scorer, kind=TASK, source="model").value
    assert threshold is not None
    return Plan(levels=levels, samplers=samplers, samples=samples, threshold=threshold, seed=seed)


def write(model: Denoiser, plan: Plan, level: str) -> Pools:
    """Return the problems of a level and a pool of answers to each."""
    task, sampler, number = find_task(TASK), plan.samplers[level], plan.levels[level]
    problems = [task.problem(i, split="test", level=level, seed=plan.seed) for i in range(number)]
    pool = sampler.for_pool(plan.samples, "samples")
    prompted = [prompt_for(model, problem, pool.length) for problem in problems]
    answers, numbers = number * plan.samples, range(plan.samples)
    forwards = answers * sampler.steps * model.forwards_per_call
    with watched(model, f"writing {answers} answers to {level} problems", forwards) as watching:
        drawn = draw_pools(watching, prompted, pool, numbers, plan.seed)
    return list(zip(problems, drawn, strict=True))


def verify(model: Denoiser, plan: Plan, written: Pools) -> Attempts:
    """Return the round trips of every answer that rejection sampling looks at."""
    each = CONSISTENCY.trips * CONSISTENCY.rebuild_steps * model.forwards_per_call
    by_item = {problem.id: pool for problem, pool in written}
    verified: Attempts = {}

    def verify_round(needed: Round) -> list[tuple[Sample, Score]]:
        which = f"{len(needed.items)} {'further' if needed.number else 'first'} answers"
        samples = [by_item[item][needed.number] for item in needed.items]
        with watched(model, f"round trips of {which}", each * len(samples)) as watching:
            attempts = attempt(watching, samples, plan.seed)
        verified.update({(a.trips.sample.item, needed.number): a for a in attempts})
        return [(a.trips.sample, a.score) for a in attempts]

    decide(verify_round, list(by_item), threshold=plan.threshold, budget=plan.samples)
    return verified


def attempt(model: Denoiser, samples: Sequence[Sample], seed: int) -> list[Attempt]:
    """Return the samples, verified."""
    settings = CollectSettings(task=TASK, consistency=CONSISTENCY, metrics=METRIC_SET, seed=seed)
    scorer = scorer_for(model, find_task(TASK), settings)
    trips = round_trips(model, samples, CONSISTENCY, seed=seed)
    return [Attempt(*pair) for pair in zip(trips, scorer.measure(trips), strict=True)]


def grade(written: Pools, attempts: Attempts) -> list[Record]:
    """Return every answer as a record."""
    task, rows = find_task(TASK), []
    grades = grade_pools(task, *zip(*written, strict=True))
    for (problem, pool), graded in zip(written, grades, strict=True):
        for answer, truth in zip(pool, graded, strict=True):
            made = attempts.get((problem.id, answer.number))
            score = None if made is None else made.score
            rows.append(make_record(task, problem, answer, truth, score))
    return rows


def pick(rows: Sequence[Record]) -> dict[str, Record]:
    """Return the typical right and the typical wrong first answer: the middle ones by score."""
    examples = {}
    for name, right in (("right", True), ("wrong", False)):
        kind = [row for row in rows if row.number == 0 and row.right == right]
        kind.sort(key=lambda row: Score(value=row.scores["roundtrips"]).rank)
        if kind:
            examples[name] = kind[len(kind) // 2]
    return examples


def draw_pictures(
    model: Denoiser,
    out: Path,
    rows: Sequence[Record],
    examples: Mapping[str, Record],
    attempts: Attempts,
) -> list[Path]:
    """Write the pictures and return their paths."""
    pooled = pools(rows)
    curves = {m.name: columns(m, pooled) for m in methods(pooled) if m.name in SHOWN_IN_ROC}
    with terminal.waiting("drawing pictures"):
        return [
            render.separation(*curves["roundtrips"], out / "separation.png", of="round-trip"),
            render.roc(curves, out / "roc.png"),
            *(
                render.drift(
                    drift_map(model, name, row, attempts[row.id, 0]), out / f"drift-{name}.png"
                )
                for name, row in examples.items()
            ),
        ]


def drift_map(model: Denoiser, kind: str, row: Record, made: Attempt) -> render.DriftMap:
    """Return what a picture of one answer's round trips needs."""
    stop = made.trips.sample.num_response
    read = model.tokenizer.pieces
    truth = "" if row.right else f", where {row.gold} is right"
    return render.DriftMap(
        pieces=read(made.trips.sample.canvas[:stop]),
        rebuilt=[read(tokens[:stop]) for tokens in made.trips.rebuilt.tolist()],
        masked=[masked[:stop] for masked in made.trips.masked.tolist()],
        drift=made.score.drift,
        title=(
            f"A {kind} answer: {row.answer}{truth}. "
            f"Score {terminal.score_text(made.score)} "
            f"over {len(made.trips.texts)} round trips"
        ),
    )


def summarise(
    plan: Plan,
    rows: Sequence[Record],
    diagnoses: Sequence[Diagnosis],
    corrections: Sequence[Correction],
    seconds: float,
) -> Document:
    """Return all results, ready for JSON."""
    first = [row for row in rows if row.number == 0]
    right = sum(row.right for row in first)
    return {
        "model": MODEL,
        "task": TASK,
        **asdict(plan),
        "right": right,
        "wrong": len(first) - right,
        "diagnosis": [asdict(row) for row in diagnoses],
        "correction": [asdict(row) for row in corrections],
        "full_size": {name: figure["value"] for name, figure in full_size().items()},
        "seconds": round(seconds, 1),
    }


def save(out: Path, rows: Sequence[Record], summary: Document) -> list[Path]:
    """Write records and summary over those of an earlier run; return their paths."""
    records, overview = out / "records.jsonl", out / "summary.json"
    out.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row.to_json(), ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    jsonl.write_text(records, "".join(lines))
    jsonl.write_text(overview, json.dumps(summary, indent=2) + "\n")
    return [records, overview]


def full_size() -> dict[str, Document]:
    """Return the figures of the full-size study, where the package carries them."""
    path = EMBEDDED / "figures.json"
    if not path.exists():
        return {}
    return dict(json.loads(path.read_text(encoding="utf-8"))["figures"])


@contextmanager
def watched(model: Denoiser, what: str, forwards: int) -> Iterator[Denoiser]:
    """Yield the model, its forward passes shown as a bar on standard error."""
    columns = (
        TextColumn("{task.description:<44}"), BarColumn(), TaskProgressColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=forwards)
        yield Watched(model, tick=lambda done: progress.advance(task, done))
        progress.update(task, completed=forwards)  # answers that end early leave a rest


def introduce(console: Console, plan: Plan) -> None:
    """Say what is about to happen."""
    counts = ", ".join(f"{number} {level}" for level, number in plan.levels.items())
    sampler = next(iter(plan.samplers.values()))
    terminal.show(
        console,
        "A small diffusion language model solves problems, and round trips tell\n"
        "when it is wrong: mask the answer again, rebuild it, see what survives.\n\n"
        f"{plan.problems} {TASK} problems ({counts}; hard is longer than anything it was trained "
        f"on), {plan.samples} samples each,\n{TOKENS_PER_STEP} tokens per step (hurried, to be "
        f"quick), temperature {sampler.temperature:g}, seed {plan.seed}\n",
    )


def show_answer(console: Console, model: Denoiser, kind: str, row: Record, made: Attempt) -> None:
    """Print one answer painted by drift."""
    sample = made.trips.sample
    head = f"A typical {kind} answer, score {terminal.score_text(made.score)}; asked:"
    terminal.show(console, f"{head}\n{terminal.paragraph(row.prompt)}")
    ids = sample.canvas[: sample.num_response]
    terminal.show_drift(console, terminal.spans(model.tokenizer, ids, made.score.drift))
    terminal.show(console, f"it says {row.answer}; right is {row.gold}\n")


def show_end(console: Console, files: Sequence[Path], seconds: float) -> None:
    """Print where everything is."""
    names = ", ".join(path.name for path in files)
    terminal.show(console, f"written to {files[-1].parent}: {names}\n{seconds:.0f} seconds")
