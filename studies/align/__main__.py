"""Alignment, measured: the study of the embedded model.

    python -m studies.align study MODEL OUT                  train and ask, all that is planned
    python -m studies.align study MODEL OUT --only stable:3  one arm and seed of it
    python -m studies.align show OUT/results.jsonl           what the runs say, anywhere
    python -m studies.align figures RESULTS --commit SHA     all of them into docs/figures.json

`study` starts a process per training, some at once, on one GPU. Settings, arms and seeds are those
of `arms.py`; `--setting`, `--arms`, `--seeds` and `--only` choose among them. The last weights
answer unseen problems, greedily, on three canvases and at other paces, where they were trained:
what comes out is a line per run in OUT/results.jsonl, with its curves, and no weights.

A run that has its line is not made again; one that was stopped goes on from its checkpoint in
OUT/NAME. `--stop-after` ends the call in time: running trainings make a checkpoint, and exit.
`--try learning_rate=1e-5,beta=2` trains a variation, `--split validation` asks no test problem: so
settings are chosen. Whatever was asked is kept in the line of a run, and where it differs from what
is asked now, as after `--set` or `--problems`, the run is not taken for the other.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from remask.errors import RemaskError
from remask.records.jsonl import write_text
from studies.align.arms import ARMS, PLAN, SETTINGS, Job, planned
from studies.align.asked import (
    PROBLEMS,
    RUN,
    asked_of,
    folder_of,
    job_of,
    missing,
    settings_of,
    unlike,
)
from studies.align.run_figures import figures_of, read_results, statements, table
from studies.shared.figures import FIGURES, merge, read, select

RESULTS, RESULT = "results.jsonl", "result.json"
PHASES = ("rollout", "score", "update")
CURVES = {  # of a row of the log, by what a result calls them
    "step": "step", "reward": "reward", "loss": "loss", "elbo_pos": "elbo_pos",
    "moved_pos": "moved_pos", "moved_neg": "moved_neg", "entropy": "entropy",
    "grad_norm": "grad_norm", "length": "completions/mean_length", "score": "bmc/score",
}  # fmt: skip
ASKING = 40  # seconds before the end under which no training is begun
Row = dict[str, Any]


def one(arguments: argparse.Namespace) -> int:
    """Train with one arm and seed, then ask; stop in between where time is over."""
    job = Job(**json.loads(arguments.job))
    folder = folder_of(job, arguments)
    run, started = folder / RUN, time.time()
    folder.mkdir(parents=True, exist_ok=True)
    settings, model = settings_of(job, arguments), arguments.model
    if job.arm != "start":
        from remask.align.trainer import align

        is_over = (lambda: time.time() > arguments.until) if arguments.until else (lambda: False)
        align(settings, progress(job.name), is_over=is_over)
        if not (run / "final").exists() or is_over():
            print(f"{job.name}: stopped, to go on later", file=sys.stderr, flush=True)
            return 0
        model = str(run / "final")
    from studies.shared.run import hardware

    trained = time.time()
    measured = ask(model, settings, job, arguments)
    seconds = {"train": trained - started, "ask": time.time() - trained}
    result = {
        "setting": job.setting, "arm": job.arm, "seed": job.seed, "variation": job.variation,
        "split": job.split, "model": arguments.model, "hardware": hardware(),
        "asked": asked_of(job, arguments), **measured, "seconds": seconds,
        **curves_of(run / "log.jsonl"),
    }  # fmt: skip
    write_text(folder / RESULT, json.dumps(result) + "\n")
    shutil.rmtree(run, ignore_errors=True)
    return 0


def ask(model: str, settings: Any, job: Job, arguments: argparse.Namespace) -> Row:
    """Return what a model came to on unseen problems."""
    import torch

    from remask.denoisers.load import load
    from studies.align.asking import Asking, paces_of

    denoiser = load(model, device=settings.device, dtype=settings.dtype)
    split: Any = job.split
    asking = Asking(denoiser, settings, num_problems=arguments.problems, split=split)
    with torch.no_grad():
        return {
            "canvases": asking.on_canvases(SETTINGS[job.setting]["steps_per_block"]),
            "paces": asking.at_paces(paces_of(job.setting)),
        }


def curves_of(log: Path) -> Row:
    """Return the curves of a training: a list per column, and its validations."""
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    rows = [json.loads(line) for line in lines]
    updates = [{name.removeprefix("spg/").removeprefix("regression/"): value
                for name, value in row.items()} for row in rows if "loss" in row]  # fmt: skip
    curves = {
        ours: [short(row.get(theirs)) for row in updates]
        for ours, theirs in CURVES.items()
        if any(theirs in row for row in updates)
    }
    validations = [
        [row["step"], row["eval/accuracy"], short(row["eval/mean_length"])]
        for row in rows
        if "eval/accuracy" in row
    ]
    spent = {p: sum(row.get(f"time/{p}", 0.0) for row in updates) for p in PHASES}
    return {"curves": curves, "validations": validations, "phases": spent}


def short(value: float | None) -> float | None:
    """Return a number as a curve needs it: five digits."""
    return None if value is None else float(f"{value:.5g}")


def progress(name: str) -> Any:
    """Return a function that says validations and every twentieth update."""

    def say(row: Row) -> None:
        told = {k: row[k] for k in ("eval/accuracy", "reward", "bmc/score", "eta_s") if k in row}
        if "eval/accuracy" in row or row.get("step", 1) % 20 == 0:
            shown = " ".join(f"{k} {v:.3f}" for k, v in told.items())
            print(f"{name} {row.get('step', 0)}: {shown}", file=sys.stderr, flush=True)

    return say


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """Return what the command line chooses of what is planned; named seeds need not be planned."""
    chosen: list[Job] = []
    for setting in arguments.setting:
        if arguments.only:
            pairs = [word.rpartition(":") for word in arguments.only]
            plan = [Job(setting=setting, arm=arm, seed=int(seed)) for arm, _, seed in pairs]
        elif arguments.seeds is not None:
            arms = arguments.arms or PLAN[setting]
            plan = [Job(setting=setting, arm=a, seed=s) for s in arguments.seeds for a in arms]
        else:
            plan = [j for j in planned(setting) if not arguments.arms or j.arm in arguments.arms]
        chosen += plan
    variations = getattr(arguments, "try") or [""]
    return [
        replace(job, variation=variation, split=arguments.split)
        for variation in variations
        for job in chosen
    ]


def study(arguments: argparse.Namespace) -> int:
    """Work all jobs, some at once, until they are done or time is over; then gather."""
    out, started = Path(arguments.out), time.time()
    out.mkdir(parents=True, exist_ok=True)
    until = started + arguments.stop_after if arguments.stop_after else 0.0
    gather(out)
    known = {job_of(result).name: result for result in read_results([out / RESULTS])}
    jobs = jobs_of(arguments)
    if sentence := unlike([known[job.name] for job in jobs if job.name in known], arguments):
        return refuse(sentence)
    waiting = [job for job in jobs if job.name not in known]
    running: dict[str, subprocess.Popen[bytes]] = {}
    failed: list[str] = []
    while waiting or running:
        late = bool(until) and time.time() > until - ASKING
        if late:
            waiting.clear()
        while waiting and len(running) < arguments.parallel:
            job = waiting.pop(0)
            running[job.name] = subprocess.Popen(
                child(arguments, job, until), env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
        time.sleep(0.2)
        for name in [name for name, process in running.items() if process.poll() is not None]:
            if running.pop(name).returncode:
                failed.append(name)
            gather(out)
    done = {job_of(result).name for result in read_results([out / RESULTS])}
    left = [job.name for job in jobs if job.name not in done]
    for word, names in (("failed", failed), ("left", left)):
        if names:
            print(f"{word}: {', '.join(names)}", flush=True)
    print(f"{len(done)} done in {time.time() - started:.0f} s", flush=True)
    return 1 if failed else 0


def child(arguments: argparse.Namespace, job: Job, until: float) -> list[str]:
    """Return the command of one job."""
    words = [
        "one", arguments.model, str(arguments.out), "--job", json.dumps(vars(job)),
        "--until", str(until), "--problems", str(arguments.problems), "--device", arguments.device,
    ]  # fmt: skip
    for name, value in arguments.set.items():
        words += ["--set", f"{name}={value}"]
    return [sys.executable, "-m", "studies.align", *words]


def gather(out: Path) -> None:
    """Add the results of runs that have ended since to the one file of all."""
    known = read_results([out / RESULTS])
    names = {job_of(result).name for result in known}
    ended = read_results(sorted(out.glob(f"*/{RESULT}")))
    known += [result for result in ended if job_of(result).name not in names]
    write_text(out / RESULTS, "".join(json.dumps(result) + "\n" for result in known))


def write_figures(arguments: argparse.Namespace) -> int:
    """Merge what the runs say into docs/figures.json, and print tables and verdicts.

    All older figures of the study go, so the runs have to be all that are planned.
    """
    results = [
        result
        for result in read_results(arguments.results)
        if result["split"] == "test" and not result["variation"]
    ]
    if not results:
        return refuse("no results of the study; run it first.")
    lacking = missing(results)
    if lacking and not arguments.partial:
        return refuse(
            f"{len(lacking)} planned runs have no result, {lacking[0]} first; finish the "
            "study, or add --partial to replace all older figures all the same."
        )
    planned_for = argparse.Namespace(
        model=results[0]["model"], set={}, problems=PROBLEMS, out=Path(), device="auto"
    )
    if sentence := unlike(results, planned_for):
        return refuse(sentence)
    hardware = arguments.hardware or ", ".join(sorted({r.get("hardware", "") for r in results}))
    if not hardware:
        return refuse("results do not say what they were measured on; give --hardware.")
    about = {"run": "align", "command": COMMAND, "hardware": hardware, "commit": arguments.commit}
    found = {name: {**figure, **about} for name, figure in figures_of(results).items()}
    found = select(found, arguments.figures)
    before = [name for name in read(arguments.figures) if name.startswith("align/")]
    owned = tuple(name for name in before if not name.startswith("align/fsdp"))
    merge(arguments.figures, found, owned)
    print(table(results))
    for line in statements(results):
        print(line)
    gone = [name for name in owned if name not in found]
    print(f"{len(found)} figures written, {len(gone)} older ones removed", flush=True)
    return 0


def refuse(sentence: str) -> int:
    """Say what is wrong, and return the exit code of it."""
    print(sentence, file=sys.stderr)
    return 1


COMMAND = "python -m studies.align study tiny OUT"


def show_results(arguments: argparse.Namespace) -> int:
    """Print what runs say, variations too, and write nothing."""
    results = read_results(arguments.results)
    print(table(results, by_run=arguments.runs))
    for line in statements(results):
        print(line)
    return 0


def pair(word: str) -> tuple[str, Any]:
    """Return the name and the value of `name=value`."""
    import yaml

    name, equals, value = word.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{word} has no value; write name=value")
    return name, yaml.safe_load(value)


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Declare what all trainings of a study share."""
    parser.add_argument("model", help="the checkpoint that all of them start from")
    parser.add_argument("out", type=Path, help="folder of the study")
    parser.add_argument("--set", type=pair, action="append", default=[], metavar="NAME=VALUE",
                        help="of every training, to try the script itself")  # fmt: skip
    parser.add_argument("--problems", type=int, default=PROBLEMS, help="unseen ones, per canvas")
    parser.add_argument("--device", default="auto")


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Measure alignment.")
    commands = parser.add_subparsers(dest="do", required=True)
    whole = commands.add_parser("study", help="train and ask, what is planned or chosen")
    single = commands.add_parser("one", help="one training, in this process")
    add_shared(whole)
    add_shared(single)
    whole.add_argument("--split", choices=("test", "validation"), default="test")
    whole.add_argument("--setting", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    whole.add_argument("--arms", nargs="+", choices=ARMS, help="all by default")
    whole.add_argument("--seeds", nargs="+", type=int, help="those that are planned by default")
    whole.add_argument("--only", nargs="+", metavar="ARM:SEED")
    whole.add_argument("--try", nargs="+", metavar="NAME=VALUE,...", help="variations")
    whole.add_argument("--parallel", type=int, default=6, help="trainings at once")
    whole.add_argument("--stop-after", type=float, default=0.0, metavar="SECONDS")
    single.add_argument("--job", required=True)
    single.add_argument("--until", type=float, default=0.0, help="seconds since 1970")
    show = commands.add_parser("show", help="what results say, variations too")
    show.add_argument("--runs", action="store_true", help="each run, where means are the default")
    tell = commands.add_parser("figures", help="into docs/figures.json, from results")
    for parsed in (show, tell):
        parsed.add_argument("results", type=Path, nargs="+", help="files of results")
    tell.add_argument("--commit", required=True, help="commit that was measured")
    tell.add_argument("--figures", type=Path, default=FIGURES)
    tell.add_argument("--hardware", help="what was measured on; results say so by default")
    tell.add_argument("--partial", action="store_true", help="replace all by fewer than planned")
    arguments = parser.parse_args(words)
    arguments.set = dict(getattr(arguments, "set", []))
    return arguments


def main(words: Sequence[str]) -> int:
    """Run one of the commands and return the exit code."""
    arguments = read_arguments(words)
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "study": study, "one": one, "figures": write_figures, "show": show_results,
    }  # fmt: skip
    try:
        return commands[arguments.do](arguments)
    except RemaskError as error:
        return refuse(str(error))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
