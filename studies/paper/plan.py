"""The full-size study of the embedded model: its records, collected where the GPU is.

    python -m studies.paper.plan collect MODEL OUT  all parts, in parallel, on one GPU
    python -m studies.paper.plan collect MODEL OUT --only choice   one part, in this process
    python -m studies.paper.plan contraction MODEL OUT  what needs the model again, after it
    python -m studies.paper.plan preset OUT  temperature, threshold of each task

`collect` writes one file of records per job and continues where it was stopped; further seeds of
the curves lie in folders of their own, OUT/seed-1 and so on. It needs no more packages than torch,
numpy, pydantic, tokenizers, safetensors, rapidfuzz and sentence-transformers; an uninstalled
checkout runs with PYTHONPATH=src. `preset` writes what validation chose into the embedded
generation_config.json. What the records say is results.py's to tell; what one verified answer costs
in seconds is measured by verify.py.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from remask.analysis.folder import CURVES, MANY_TRIPS, TRIPS, read
from remask.analysis.load_records import read_source
from remask.analysis.methods import THRESHOLD, better_consistency
from remask.analysis.pool import pools
from remask.collect.collect import collect
from remask.collect.injection import collect_injected, reference_pairs
from remask.collect.settings import CollectSettings, InjectionSettings
from remask.consistency.settings import ConsistencySettings
from remask.decide.threshold import accepts_all, best_f1
from remask.denoisers.base import Denoiser
from remask.denoisers.load import EMBEDDED, load
from remask.errors import RecordError, RemaskError
from remask.records.jsonl import write_text
from remask.records.record import Record
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.tasks import TASKS
from remask.tasks.base import Split
from studies.paper.contraction import contraction_figures

TEMPERATURES = (0.4, 0.7, 1.0, 1.3, 1.6)  # tried on validation; self-consistency chooses
POOL = 10
HURRIED = (12, 24)  # steps for 6 blocks of 16 tokens
SEEDS = (0, 1, 2)  # of the curves; everything else has the first
PATIENCE = 600  # seconds that a part waits for the temperature another one chooses
COMMAND = [sys.executable, "-m", "studies.paper.plan"]  # of one part, in a process of its own


@dataclass(frozen=True, kw_only=True)
class Job:
    """One file of records."""

    name: str
    task: str
    level: str = "hard"
    split: Split = "test"
    problems: int
    samples: int = 1
    scored: int = 1
    temperature: float | None = None  # None: the one chosen on validation
    steps: int | None = None  # None: as many as canvas tokens
    consistency: ConsistencySettings = field(default_factory=ConsistencySettings)
    seed: int = 0
    chunk: int = 1000


def validation_jobs(task: str, scale: float) -> list[Job]:
    """Return one small unscored pool per temperature."""
    return [
        Job(
            name=f"validation-{task}-hard-t{temperature}", task=task, split="validation",
            problems=count(100, scale), samples=6, scored=0, temperature=temperature,
        )
        for temperature in TEMPERATURES
    ]  # fmt: skip


def task_jobs(task: str, scale: float) -> list[Job]:
    """Return the jobs of a task but for the pool of its hard level: threshold, greedy, a pool."""
    greedy = Job(
        name=f"greedy-{task}-easy", task=task, level="easy", problems=count(500, scale),
        scored=0, temperature=0.0,
    )  # fmt: skip
    levels = {"easy": 500, "medium": 500, "hard": 1000 if task == "wordmath" else 500}
    return [
        Job(name=f"threshold-{task}", task=task, split="validation", problems=count(300, scale)),
        *(
            replace(greedy, name=f"greedy-{task}-{level}", level=level, problems=count(num, scale))
            for level, num in levels.items()
        ),
        pool_job(task, "medium", 250 if task == "wordmath" else 500, scale),
    ]


def pool_job(task: str, level: str, problems: int, scale: float) -> Job:
    """Return the job of ten samples per problem, every one of them scored."""
    return Job(
        name=f"pool-{task}-{level}", task=task, level=level, problems=count(problems, scale),
        samples=POOL, scored=POOL, chunk=250,
    )  # fmt: skip


def hard_jobs(task: str, scale: float) -> list[Job]:
    """Return the pool of the hard level, which takes longer than the rest of the task."""
    return [pool_job(task, "hard", 1000 if task == "wordmath" else 500, scale)]


def curve_jobs(seed: int, scale: float) -> list[Job]:
    """Return the jobs on hard word problems under other settings, of one seed.

    Seeds after the first have no pool, so the answers under the default settings are among them.
    """
    hard = Job(name="", task="wordmath", problems=count(200, scale), seed=seed)
    changed = {file: setting_of(*setting) for file, setting in CURVES.items()}
    changed[MANY_TRIPS] = ConsistencySettings(trips=max(TRIPS))
    if seed != SEEDS[0]:
        changed["pool-wordmath-hard"] = ConsistencySettings()
    return [replace(hard, name=name, consistency=c) for name, c in changed.items()]


def hurried_jobs(scale: float) -> list[Job]:
    """Return word problems answered in a hurry, and hard ones in other batches."""
    hurried = Job(name="", task="wordmath", level="medium", problems=count(600, scale))
    return [
        *(replace(hurried, name=f"hurried-{steps}", steps=steps) for steps in HURRIED),
        Job(name="rebatched", task="wordmath", problems=count(200, scale), chunk=7),
    ]


def setting_of(name: str, value: str) -> ConsistencySettings:
    """Return the defaults with one change, as a curve names it: "rebuild_steps", "4"."""
    kinds: dict[str, type] = {"mask_design": str, "tail": str, "rebuild_steps": int}
    return replace(ConsistencySettings(), **{name: kinds.get(name, float)(value)})


def count(problems: int, scale: float) -> int:
    """Return how many problems a scaled-down study has."""
    return max(4, int(problems * scale))


def run_job(model: Denoiser, job: Job, temperature: float, out: Path) -> None:
    """Collect one file, and say how long it took."""
    started = time.perf_counter()
    settings = CollectSettings(
        task=job.task,
        level=job.level,
        split=job.split,
        problems=job.problems,
        samples=job.samples,
        scored=job.scored,
        sampler=sampler_of(model, job, temperature),
        consistency=job.consistency,
        seed=job.seed,
        chunk=job.chunk,
    )
    folder = out if job.seed == SEEDS[0] else out / f"seed-{job.seed}"
    folder.mkdir(exist_ok=True)
    collect(model, settings, folder / f"{job.name}.jsonl")
    print(f"{job.name}: {time.perf_counter() - started:.1f} s", flush=True)


def sampler_of(model: Denoiser, job: Job, temperature: float) -> SamplerSettings:
    """Return the task's preset with what the job changes."""
    usual = sampler_settings(model, kind=job.task, canvas=TASKS[job.task].canvas_length(job.level))
    return replace(
        usual,
        steps=usual.steps if job.steps is None else job.steps,
        temperature=temperature if job.temperature is None else job.temperature,
    )


def choose_temperature(model: Denoiser, task: str, scale: float, out: Path) -> float:
    """Return the temperature at which self-consistency tells best on validation."""
    told: dict[float, float] = {}
    for job in validation_jobs(task, scale):
        run_job(model, job, 0.0, out)
        best = better_consistency(pools(read(out, job.name)))
        told[job.temperature or 0.0] = 0.5 if best is None else best[1]
    print(f"{task}: AUROC of self-consistency by temperature {told}", flush=True)
    return max(told, key=lambda temperature: told[temperature])


def collect_task(model: Denoiser, task: str, out: Path, scale: float) -> None:
    """Choose the temperature of a task, say it to the other parts, and work the task's own jobs."""
    temperature = choose_temperature(model, task, scale, out)
    write_text(temperature_file(out, task), f"{temperature}\n")
    for job in task_jobs(task, scale):
        run_job(model, job, temperature, out)
    for level in ("medium", "hard"):
        pairs = reference_pairs(task, level=level, problems=count(150, scale))
        collect_injected(model, pairs, InjectionSettings(), out / f"injected-{task}-{level}.jsonl")


def collect_jobs(model: Denoiser, task: str, jobs: Sequence[Job], out: Path) -> None:
    """Work jobs of a task at the temperature that another part chooses."""
    temperature = wait_for(temperature_file(out, task))
    for job in jobs:
        run_job(model, job, temperature, out)


def temperature_file(out: Path, task: str) -> Path:
    """Return where the part of a task writes the temperature it chose."""
    return out / f"{task}.temperature"


def wait_for(path: Path) -> float:
    """Return the number in a file, which another part writes."""
    for _ in range(PATIENCE):
        if path.exists():
            return float(path.read_text(encoding="utf-8"))
        time.sleep(1)
    raise RecordError(f"{path} does not come; collect with --only {path.stem} first.")


def parts(scale: float) -> dict[str, tuple[str, list[Job]]]:
    """Return what other processes than those of the tasks do: a task's name and its jobs."""
    return {
        **{f"{task}-hard": (task, hard_jobs(task, scale)) for task in TASKS},
        **{f"curves-{seed}": ("wordmath", curve_jobs(seed, scale)) for seed in SEEDS},
        "hurried": ("wordmath", hurried_jobs(scale)),
    }


def collect_part(name: str, part: str, out: Path, scale: float) -> None:
    """Work one part in this process."""
    model = load(name)
    if part in TASKS:
        collect_task(model, part, out, scale)
    else:
        collect_jobs(model, *parts(scale)[part], out)


def collect_all(arguments: argparse.Namespace) -> int:
    """Work the parts in processes of their own, which share the GPU; return the exit code."""
    words = ["collect", arguments.model, str(arguments.out), "--scale", str(arguments.scale)]
    running = {
        part: subprocess.Popen([*COMMAND, *words, "--only", part])
        for part in (*TASKS, *parts(arguments.scale))
    }
    failed = [part for part, child in running.items() if child.wait() != 0]
    if failed:
        print(f"{', '.join(failed)} failed; the same command again continues.", file=sys.stderr)
    return 1 if failed else 0


def write_preset(arguments: argparse.Namespace) -> int:
    """Write the temperature and threshold that validation chose for each task; print them."""
    config = json.loads(arguments.preset.read_text(encoding="utf-8"))
    chosen = {}
    for task in TASKS:
        rows = read(arguments.out, f"threshold-{task}")
        manifest = arguments.out / f"threshold-{task}.jsonl.manifest.json"
        asked = json.loads(manifest.read_text(encoding="utf-8"))["asked"]
        chosen[task] = {
            **config.get("tasks", {}).get(task, {}),
            "temperature": asked["sampler"]["temperature"],
            "threshold": choose_threshold(task, rows),
        }
    shared = {key: chosen["wordmath"][key] for key in ("temperature", "threshold")}
    write_text(arguments.preset, json.dumps({**config, **shared, "tasks": chosen}, indent=2) + "\n")
    print(json.dumps(chosen, indent=2))
    return 0


def choose_threshold(task: str, rows: Sequence[Record]) -> float:
    """Return the threshold of the best F1, or the paper's, and say so, where that rejects nothing.

    Rejection sampling never draws again below a threshold that accepts every answer.
    """
    scores = [row.scores["roundtrips"] for row in rows]
    best = best_f1(scores, [row.right for row in rows])
    if not accepts_all(scores, best):
        return best
    told = f"accepting every answer has the best F1; the threshold is the usual {THRESHOLD:g}"
    print(f"{task}: {told}", file=sys.stderr)
    return THRESHOLD


def write_contraction(arguments: argparse.Namespace) -> int:
    """Write the figures of the contraction beside the records, where results.py finds them."""
    figures = contraction_figures(read_source(arguments.out), load(arguments.model))
    told = {name: {**f.entry(), "command": "contraction"} for name, f in figures.items()}
    write_text(arguments.out / "extra.json", json.dumps({"figures": told}, indent=2) + "\n")
    print(json.dumps(told, indent=2))
    return 0


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="The full-size study of the embedded model.")
    commands = parser.add_subparsers(dest="command", required=True)
    gather = commands.add_parser("collect", help="records, where the GPU is")
    gather.add_argument("model", help="'tiny' or a checkpoint folder")
    gather.add_argument("out", type=Path, help="folder for the records")
    gather.add_argument("--scale", type=float, default=1.0, help="share of the problems")
    gather.add_argument("--only", choices=[*TASKS, *parts(1.0)], help="one part, in this process")
    again = commands.add_parser("contraction", help="how the one-step operator contracts")
    again.add_argument("model", help="the model that wrote the records")
    again.add_argument("out", type=Path, help="folder with the records")
    choose = commands.add_parser("preset", help="temperature and threshold, from validation")
    choose.add_argument("out", type=Path, help="folder with the records")
    choose.add_argument("--preset", type=Path, default=EMBEDDED / "generation_config.json")
    return parser.parse_args(arguments)


def main(command: Sequence[str]) -> int:
    """Run one of the commands and return the exit code."""
    arguments = read_arguments(command)
    if arguments.command != "collect":
        return (write_preset if arguments.command == "preset" else write_contraction)(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.only is None:
        return collect_all(arguments)
    collect_part(arguments.model, arguments.only, arguments.out, arguments.scale)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"studies.paper.plan: {error}")
