"""The full-size study of the embedded model: collect where the GPU is, make figures anywhere.

    python benchmarks/core.py collect MODEL OUT                 all tasks, in parallel, on one GPU
    python benchmarks/core.py collect MODEL OUT --only choice   one task, in this process
    python benchmarks/core.py preset OUT                        temperature, threshold of each task
    python benchmarks/core.py figures OUT --commit SHA --hardware "one H200"

`collect` writes one file of records per job and continues where it was stopped. It needs no more
packages than torch, numpy, tokenizers, safetensors, rapidfuzz and sentence-transformers; an
uninstalled checkout runs with PYTHONPATH=src. `preset` writes what validation chose into the
embedded generation_config.json. `figures` merges what the records say into docs/figures.json and
into the copy the demo shows, and prints the tables. What one verified answer
costs in seconds is measured by verify.py.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from remask.consistency.cycle import ConsistencySettings
from remask.decide.threshold import best_f1
from remask.denoisers.base import Denoiser
from remask.denoisers.load import EMBEDDED, load
from remask.denoisers.save import write_text
from remask.errors import RemaskError
from remask.sampling.sampler import SamplerSettings
from remask.studies.collect import CollectSettings, collect, sampler_settings
from remask.studies.diagnosis import better_consistency
from remask.studies.figures import CURVES, TRIPS, figures, read
from remask.studies.pool import pools
from remask.studies.report import markdown
from remask.tasks import TASKS
from remask.tasks.base import Split

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "figures.json"
TEMPERATURES = (0.4, 0.7, 1.0, 1.3, 1.6)  # tried on validation; self-consistency chooses
POOL = 10
HURRIED = (12, 24)  # steps for 6 blocks of 16 tokens
DEMO = ("accuracy/wordmath", "diagnosis/wordmath-hard/", "correction/wordmath-hard/")


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
    """Return the jobs of a task: pools and greedy answers; for word problems the curves as well."""
    greedy = Job(
        name=f"greedy-{task}-easy", task=task, level="easy", problems=count(500, scale),
        scored=0, temperature=0.0,
    )  # fmt: skip
    threshold = Job(
        name=f"threshold-{task}", task=task, split="validation", problems=count(300, scale)
    )
    jobs = [threshold, greedy]
    for level in ("medium", "hard"):
        num = count(1000 if (task, level) == ("wordmath", "hard") else 250, scale)
        pool = Job(
            name=f"pool-{task}-{level}", task=task, level=level, problems=num, samples=POOL,
            scored=POOL, chunk=250,
        )  # fmt: skip
        jobs += [
            pool,
            replace(
                greedy,
                name=f"greedy-{task}-{level}",
                level=level,
                problems=max(num, greedy.problems),
            ),
        ]
    return jobs + (curve_jobs(scale) if task == "wordmath" else [])


def curve_jobs(scale: float) -> list[Job]:
    """Return the jobs on word problems alone: other settings, hurried answers, other batches."""
    hard = Job(name="", task="wordmath", problems=count(600, scale))
    changed = {name: setting_of(path) for name, path in CURVES.items()}
    changed[f"trips-{max(TRIPS)}"] = ConsistencySettings(trips=max(TRIPS))
    jobs = [replace(hard, name=name, consistency=c) for name, c in changed.items()]
    num = count(2000, scale)
    jobs += [
        replace(hard, name=f"hurried-{steps}", level="medium", problems=num, steps=steps)
        for steps in HURRIED
    ]
    return [*jobs, replace(hard, name="rebatched", problems=count(300, scale), chunk=7)]


def setting_of(path: str) -> ConsistencySettings:
    """Return the defaults with the one change that a curve's name says: "rebuild_steps/4"."""
    name, value = path.split("/")
    kinds: dict[str, type] = {"mask_design": str, "rebuild_steps": int}
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
        chunk=job.chunk,
    )
    collect(model, settings, out / f"{job.name}.jsonl")
    print(f"{job.name}: {time.perf_counter() - started:.1f} s", flush=True)


def sampler_of(model: Denoiser, job: Job, temperature: float) -> SamplerSettings:
    """Return the task's preset with what the job changes."""
    usual = sampler_settings(model, TASKS[job.task], job.level)
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


def collect_task(name: str, task: str, out: Path, scale: float) -> None:
    """Work every job of one task in this process."""
    model = load(name)
    temperature = choose_temperature(model, task, scale, out)
    for job in task_jobs(task, scale):
        run_job(model, job, temperature, out)


def collect_all(arguments: argparse.Namespace) -> int:
    """Work the tasks in processes of their own, which share the GPU; return the exit code."""
    words = ["collect", arguments.model, str(arguments.out), "--scale", str(arguments.scale)]
    running = {
        task: subprocess.Popen([sys.executable, __file__, *words, "--only", task]) for task in TASKS
    }
    failed = [task for task, child in running.items() if child.wait() != 0]
    if failed:
        print(f"{', '.join(failed)} failed; the same command again continues.", file=sys.stderr)
    return 1 if failed else 0


def write_figures(arguments: argparse.Namespace) -> int:
    """Merge the figures into docs/figures.json and the demo's copy; print the tables."""
    found = figures(arguments.out, thresholds(arguments.preset))
    if not found:
        print(f"{arguments.out} holds no records; collect them first.", file=sys.stderr)
        return 1
    about = {
        "command": "python benchmarks/core.py collect MODEL OUT",
        "hardware": arguments.hardware,
        "commit": arguments.commit,
    }
    documented = {name: asdict(figure) | about for name, figure in found.items()}
    merge(arguments.figures, documented)
    merge(arguments.demo, {n: f for n, f in documented.items() if n.startswith(DEMO)})
    print(markdown(found), end="")
    return 0


def write_preset(arguments: argparse.Namespace) -> int:
    """Write the temperature and threshold that validation chose for each task; print them."""
    config = json.loads(arguments.preset.read_text(encoding="utf-8"))
    chosen = {}
    for task in TASKS:
        rows = read(arguments.out, f"threshold-{task}")
        manifest = arguments.out / f"threshold-{task}.jsonl.manifest.json"
        asked = json.loads(manifest.read_text(encoding="utf-8"))["asked"]
        scores = [row["scores"]["roundtrips"] for row in rows]
        chosen[task] = {
            **config.get("tasks", {}).get(task, {}),
            "temperature": asked["sampler"]["temperature"],
            "threshold": best_f1(scores, [row["right"] for row in rows]),
        }
    shared = {key: chosen["wordmath"][key] for key in ("temperature", "threshold")}
    write_text(arguments.preset, json.dumps({**config, **shared, "tasks": chosen}, indent=2) + "\n")
    print(json.dumps(chosen, indent=2))
    return 0


def thresholds(preset: Path) -> dict[str, float]:
    """Return the threshold of each task in a generation_config.json."""
    config: Mapping[str, Any] = json.loads(preset.read_text(encoding="utf-8"))
    usual = config.get("threshold", 0.75)
    return {task: config.get("tasks", {}).get(task, {}).get("threshold", usual) for task in TASKS}


def merge(path: Path, new: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the figures over those of the same names, and leave the others."""
    known = json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else {}
    both = dict(sorted({**known, **new}.items()))
    write_text(path, json.dumps({"figures": both}, indent=2) + "\n")


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="The full-size study of the embedded model.")
    commands = parser.add_subparsers(dest="command", required=True)
    gather = commands.add_parser("collect", help="records, where the GPU is")
    gather.add_argument("model", help="'tiny' or a checkpoint folder")
    gather.add_argument("out", type=Path, help="folder for the records")
    gather.add_argument("--scale", type=float, default=1.0, help="share of the problems")
    gather.add_argument("--only", choices=list(TASKS), help="one task, in this process")
    choose = commands.add_parser("preset", help="temperature and threshold, from validation")
    choose.add_argument("out", type=Path, help="folder with the records")
    choose.add_argument("--preset", type=Path, default=EMBEDDED / "generation_config.json")
    tell = commands.add_parser("figures", help="figures and tables, from records")
    tell.add_argument("out", type=Path, help="folder with the records")
    tell.add_argument("--commit", required=True, help="commit that collected them")
    tell.add_argument("--hardware", required=True, help="what they were collected on")
    tell.add_argument("--preset", type=Path, default=EMBEDDED / "generation_config.json")
    tell.add_argument("--figures", type=Path, default=FIGURES)
    tell.add_argument("--demo", type=Path, default=EMBEDDED / "figures.json")
    return parser.parse_args(arguments)


def main(command: Sequence[str]) -> int:
    """Run one of the two commands and return the exit code."""
    arguments = read_arguments(command)
    if arguments.command != "collect":
        return (write_figures if arguments.command == "figures" else write_preset)(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.only is None:
        return collect_all(arguments)
    collect_task(arguments.model, arguments.only, arguments.out, arguments.scale)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"core.py: {error}")
