"""Alignment, measured: the study of the embedded model, and one step of LLaDA-8B's shape.

    python benchmarks/align.py study MODEL OUT                  train and ask, all methods and seeds
    python benchmarks/align.py one MODEL OUT --method sft --seed 0      one of them, in this process
    python benchmarks/align.py figures OUT --commit SHA         what the answers say, anywhere
    python benchmarks/align.py step8b OUT                       seconds and memory of one update

`study` starts a process per training, some at once, and goes on where it was stopped. Every method
starts from the same checkpoint and has the same updates and rollouts; the best model by validation
(of the ungated reward the last one) answers unseen problems, greedily, on three canvases. What
comes out is OUT/answers.jsonl and OUT/log.jsonl; the models stay in OUT/METHOD-SEED. It needs
torch, numpy, tokenizers, safetensors, rapidfuzz and accelerate, and `step8b` peft; an uninstalled
checkout runs with PYTHONPATH=src.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lib.figures import FIGURES, figure_of, merge

from remask.consistency.settings import ConsistencySettings
from remask.records.jsonl import write_text

METHODS: dict[str, dict[str, Any]] = {
    "start": {},
    "sft": {"method": "sft"},
    "outcome": {"reward": "outcome"},
    "geometric": {"reward": "consistency"},
    "ungated": {"reward": "ungated"},
}
ONCE = ("start", "ungated")  # one seed: nothing is trained, or only its risk is shown
PAIRS = (("outcome", "start"), ("outcome", "sft"), ("geometric", "outcome"), ("ungated", "start"))
CANVASES = {"short": 1.0, "medium": 1.5, "long": 2.0}  # times the canvas of the level
BLOCK = 16
ANSWERS, LOG = "answers.jsonl", "log.jsonl"
PHASES = ("rollout", "score", "update")
ASKING = ("problems", "which", "tokens_per_step")  # no settings of a training
SHARED = (
    "task", "level", "updates", "prompts_per_update", "num_generations", "inner_updates",
    "copies", "prompt_mask_ratio", "micro_batch", "learning_rate", "max_grad_norm", "temperature",
    "metrics", "eval_every", "eval_problems", "device", *ASKING,
)  # fmt: skip
Row = dict[str, Any]


def settings_of(arguments: argparse.Namespace) -> Any:
    """Return the settings of one training of the study."""
    from remask.align.settings import check_settings
    from remask.tasks import task

    told = {name: getattr(arguments, name) for name in SHARED if name not in ASKING}
    length = task(arguments.task).canvas_length(arguments.level)
    return check_settings({
        **told, **METHODS[arguments.method], "model": arguments.model, "seed": arguments.seed,
        "out": folder_of(arguments) / "run", "tuning": "full", "weight_decay": 0.0,
        "steps": steps_of(length, arguments.tokens_per_step),
        "checkpoint_every": max(1, arguments.updates // 4), "show_every": 0,
        "collapse_window": 0,  # all have the same updates: what collapses is to be seen
    })  # fmt: skip


def steps_of(length: int, tokens_per_step: int) -> int:
    """Return the steps of a canvas, the same number for each block."""
    return length // BLOCK * max(1, BLOCK // tokens_per_step)


def folder_of(arguments: argparse.Namespace) -> Path:
    """Return where one training of the study lies."""
    return Path(arguments.out) / f"{arguments.method}-{arguments.seed}"


def one(arguments: argparse.Namespace) -> int:
    """Train with one method and seed, then ask; what is there already is kept."""
    folder = folder_of(arguments)
    if (folder / ANSWERS).exists():
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    model, started = arguments.model, time.perf_counter()
    settings = settings_of(arguments)
    if arguments.method != "start":
        from remask.align.trainer import align

        best = align(settings, progress(folder.name), resume=True)
        model = str(best.parent / which(arguments))
    trained = time.perf_counter() - started
    rows = list(asked(model, settings, arguments))
    seconds = {"train_seconds": trained, "ask_seconds": time.perf_counter() - started - trained}
    write_text(folder / "cost.json", json.dumps(seconds) + "\n")
    write_text(folder / ANSWERS, "".join(json.dumps(row) + "\n" for row in rows))
    return 0


def which(arguments: argparse.Namespace) -> str:
    """Return the model that answers; what hacks a reward is the last one, not the best."""
    return "final" if arguments.method == "ungated" else str(arguments.which)


def progress(name: str) -> Any:
    """Return a function that says validations and every twentieth update."""

    def say(row: Row) -> None:
        told = {k: row[k] for k in ("eval/accuracy", "reward", "bmc/score", "eta_s") if k in row}
        if "eval/accuracy" in row or row.get("step", 1) % 20 == 0:
            shown = " ".join(f"{k} {v:.3f}" for k, v in told.items())
            print(f"{name} {row.get('step', 0)}: {shown}", file=sys.stderr, flush=True)

    return say


def asked(model: str, settings: Any, arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield the answers of a model to unseen problems, on each canvas, graded and scored."""
    from remask.align.rollout import draw_groups
    from remask.consistency.roundtrips import Consistency
    from remask.denoisers.load import load
    from remask.tasks import steps_ok, task

    family, denoiser = task(settings.task), load(model, device=settings.device)
    level = settings.level or family.levels[0]
    problems = [family.problem(i, split="test", level=level) for i in range(arguments.problems)]
    scorer = Consistency(
        denoiser=denoiser, extract=family.extract, settings=settings.part(ConsistencySettings),
        metric_set=settings.metrics, task_metrics=family.metrics,
    )  # fmt: skip
    usual = settings.sampler(denoiser, family.canvas_length(level))
    for name, times in CANVASES.items():
        length = -(-round(usual.length * times) // BLOCK) * BLOCK
        block = length if usual.block == usual.length else usual.block
        steps = steps_of(length, arguments.tokens_per_step)
        sampler = replace(usual, length=length, steps=steps, block=block, temperature=0.0)
        drawn = draw_groups(denoiser, problems, 1, sampler, seed=0)
        scores = scorer.score(drawn)
        for problem, found, score in zip(problems, drawn, scores, strict=True):
            right = family.grade(problem, found.text)
            yield {
                "method": arguments.method, "seed": arguments.seed, "canvas": name,
                "length": length, "item": problem.id, "right": right,
                "process_ok": steps_ok(family, problem, found.text, right),
                "score": score.value, "tokens": found.num_response,
                "forwards": found.forwards, "score_forwards": score.forwards,
            }  # fmt: skip


def study(arguments: argparse.Namespace) -> int:
    """Work all methods and seeds, some at once, then gather what they left."""
    jobs = [
        (m, s)
        for s in arguments.seeds
        for m in arguments.methods
        if m not in ONCE or s == arguments.seeds[0]
    ]
    done = [(m, s) for m, s in jobs if (Path(arguments.out) / f"{m}-{s}" / ANSWERS).exists()]
    waiting, failed = [job for job in jobs if job not in done], []
    running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
    while waiting or running:
        while waiting and len(running) < arguments.parallel:
            job = waiting.pop(0)
            running[job] = subprocess.Popen(child(arguments, *job))
        time.sleep(0.2)
        for job in [job for job, process in running.items() if process.poll() is not None]:
            if running.pop(job).returncode:
                failed.append(f"{job[0]}-{job[1]}")
    gather(arguments, jobs)
    print(f"failed: {', '.join(failed)}" if failed else "all done", flush=True)
    return 1 if failed else 0


def child(arguments: argparse.Namespace, method: str, seed: int) -> list[str]:
    """Return the command of one job."""
    words = ["one", arguments.model, str(arguments.out), "--method", method, "--seed", str(seed)]
    for name in SHARED:
        words += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    return [sys.executable, str(Path(__file__).resolve()), *words]


def gather(arguments: argparse.Namespace, jobs: Sequence[tuple[str, int]]) -> None:
    """Write the answers and the logs of all jobs that are done into one file each."""
    out = Path(arguments.out)
    answers, logs = [], []
    for method, seed in jobs:
        folder = out / f"{method}-{seed}"
        if not (folder / ANSWERS).exists():
            continue
        answers += (folder / ANSWERS).read_text("utf-8").splitlines()
        cost = json.loads((folder / "cost.json").read_text("utf-8"))
        logs.append(json.dumps({"method": method, "seed": seed, **cost}))
        if (folder / "run" / LOG).exists():
            for line in (folder / "run" / LOG).read_text("utf-8").splitlines():
                logs.append(json.dumps({"method": method, "seed": seed, **json.loads(line)}))
    for name, lines in ((ANSWERS, answers), (LOG, logs)):
        write_text(out / name, "".join(f"{line}\n" for line in lines))
    kept = {name: getattr(arguments, name) for name in ("model", *SHARED, "methods", "seeds")}
    write_text(out / "study.json", json.dumps(kept) + "\n")


def write_figures(arguments: argparse.Namespace) -> int:
    """Merge what the answers say into docs/figures.json, and print it as a table."""
    path = arguments.out / ANSWERS
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    if not rows:
        print(f"{path} holds no answers; run the study first.", file=sys.stderr)
        return 1
    about = {"command": "align", "hardware": arguments.hardware, "commit": arguments.commit}
    found = {
        name: {**asdict(value), "unit": unit, **about}
        for name, (value, unit) in figures_of(rows).items()
    }
    cost = {
        name: {**figure_of(value, unit), **about}
        for name, value, unit in costs(arguments.out / LOG)
    }
    merge(arguments.figures, found | cost, {"align": command_of(arguments.out)}, owned=("align/",))
    print_table(found)
    for name, figure in cost.items():
        print(f"{name}: {figure['value']:.2f} {figure['unit']}")
    for name, gap in found.items():
        if "_minus_" in name:
            print(f"{name}: {span(gap)}")
    return 0


def command_of(out: Path) -> str:
    """Return the command of a study: the flags that it was told, where they are not the usual."""
    given: Row = json.loads((out / "study.json").read_text("utf-8"))
    usual = vars(read_arguments(["study", given["model"], "OUT"]))
    words = ["python benchmarks/align.py study", given["model"], "OUT"]
    for name in (*SHARED, "methods", "seeds"):
        if given[name] != usual[name]:
            value = given[name]
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            words += [f"--{name.replace('_', '-')}", str(shown)]
    return " ".join(words)


def figures_of(rows: Sequence[Row]) -> dict[str, tuple[Any, str]]:
    """Return every figure with its unit, by name; what does not exist is left out."""
    from remask.analysis.seeds import over_seeds

    out: dict[str, Any] = {}
    for method in METHODS:
        for canvas in CANVASES:
            runs = runs_of(rows, method, canvas)
            for name, (statistic, columns, unit) in MEASURES.items():
                picked = [[run["item"], *(run[c] for c in columns)] for run in runs]
                out[f"align/{method}/{name}/{canvas}"] = (
                    over_seeds(statistic, picked) if picked else None, unit
                )  # fmt: skip
    for ours, theirs in PAIRS:
        above, pairs = f"share above, {ours} against {theirs}", paired(rows, ours, theirs)
        for name, statistic, of in (
            ("accuracy", share_gap, "same problems, canvases and seeds"),
            ("process_ok", process_gap, "each of its own right answers, same canvases and seeds"),
        ):
            value = over_seeds(statistic, pairs) if pairs else None
            out[f"align/{ours}_minus_{theirs}/{name}"] = (value, f"{above}, {of}")
        for k, pair in enumerate(pairs if len(pairs) > 1 else []):
            one = f"{above}, run {k + 1} of {len(pairs)}"
            out[f"align/{ours}_minus_{theirs}/accuracy/{k}"] = (over_seeds(share_gap, [pair]), one)
    return {name: found for name, found in out.items() if found[0] is not None}


def runs_of(rows: Sequence[Row], method: str, canvas: str) -> list[dict[str, list[Any]]]:
    """Return the answers of a method on a canvas, column by column, seed by seed."""
    mine = [row for row in rows if row["method"] == method and row["canvas"] == canvas]
    seeds = sorted({row["seed"] for row in mine})
    names = ("item", "right", "process_ok", "score")
    return [
        {name: [row[name] for row in mine if row["seed"] == seed] for name in names}
        for seed in seeds
    ]


def paired(rows: Sequence[Row], ours: str, theirs: str) -> list[list[list[Any]]]:
    """Return item, right and process_ok of both, seed by seed; the start has one for all."""
    by = {(r["method"], r["seed"], r["canvas"], r["item"]): r for r in rows}
    out, starts = [], {m: s for m, s, *_ in by if m == "start"}
    for seed in sorted({s for m, s, *_ in by if m == ours}):
        other = (theirs, starts.get(theirs, seed))
        keys = [k[2:] for k in by if k[:2] == (ours, seed) and (*other, *k[2:]) in by]
        if keys:
            mine, others = ([by[*who, *k] for k in keys] for who in ((ours, seed), other))
            out.append([
                [item for _, item in keys],
                [r["right"] for r in mine], [r["process_ok"] for r in mine],
                [r["right"] for r in others], [r["process_ok"] for r in others],
            ])  # fmt: skip
    return out


def share(right: Any) -> float | None:
    """Return the share of right answers."""
    return float(right.mean()) if len(right) else None


def process(right: Any, ok: Any) -> float | None:
    """Return the share of right answers with right steps; None where steps are not told."""
    if None in ok.tolist():
        return None
    among = ok.astype(bool)[right.astype(bool)]
    return float(among.mean()) if len(among) else None


def mean_score(score: Any) -> float | None:
    """Return the mean score."""
    known = [float(value) for value in score if value is not None]
    return sum(known) / len(known) if known else None


def detection(score: Any, right: Any) -> float | None:
    """Return the AUROC of the score, of answers that have one."""
    from remask.decide.auroc import auroc

    known = [i for i, value in enumerate(score) if value is not None]
    return auroc([float(score[i]) for i in known], [bool(right[i]) for i in known])


def share_gap(ours: Any, ours_ok: Any, theirs: Any, theirs_ok: Any) -> float | None:
    """Return the difference of accuracies."""
    return float(ours.mean() - theirs.mean()) if len(ours) else None


def process_gap(ours: Any, ours_ok: Any, theirs: Any, theirs_ok: Any) -> float | None:
    """Return the difference of the shares of right answers with right steps."""
    one, other = process(ours, ours_ok), process(theirs, theirs_ok)
    return None if one is None or other is None else one - other


MEASURES: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "accuracy": (share, ("right",), "share of right answers, greedy"),
    "process_ok": (process, ("right", "process_ok"), "share of right answers with right steps"),
    "score": (mean_score, ("score",), "score, mean"),
    "auroc": (detection, ("score", "right"), "AUROC of the score"),
}


def print_table(found: Mapping[str, Row]) -> None:
    """Print one line per method and canvas, in Markdown."""
    print("| method | canvas | " + " | ".join(MEASURES) + " |")
    print("|---|---|" + "---|" * len(MEASURES))
    for method in METHODS:
        for canvas in CANVASES:
            cells = [found.get(f"align/{method}/{name}/{canvas}") for name in MEASURES]
            if any(cells):
                shown = " | ".join(span(cell) if cell else "–" for cell in cells)
                print(f"| {method} | {canvas} | {shown} |")


def costs(path: Path) -> Iterator[tuple[str, float, str]]:
    """Yield what the trainings took: seconds of all of it, and of an update by phase."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for method in METHODS:
        mine = [row for row in rows if row["method"] == method]
        whole = [row["train_seconds"] for row in mine if "train_seconds" in row]
        updates = sum("time/update" in row for row in mine)
        if not updates:
            continue
        shared = "trainings sharing one GPU"
        yield f"align/{method}/cost/training", sum(whole) / len(whole), f"s, {shared}"
        for phase in PHASES:
            spent = sum(row.get(f"time/{phase}", 0.0) for row in mine)
            yield f"align/{method}/cost/{phase}", spent / updates, f"s per update, {shared}"


def span(figure: Mapping[str, Any]) -> str:
    """Return a figure with its interval."""
    return f"{figure['value']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]"


def step8b(arguments: argparse.Namespace) -> int:
    """Measure one optimisation step of a shape with random weights and LoRA."""
    from lib.meter import peak_memory_gb
    from lib.report import surroundings
    from lib.step import Step

    step = Step(arguments)
    phases: dict[str, Row] = {}
    step.warm_up()
    for name in PHASES:
        step.reset()
        seconds = step.timed(name)
        phases[name] = {"seconds": seconds, "memory_gb": peak_memory_gb(step.device)}
        print(f"{name}: {seconds:.2f} s, {phases[name]['memory_gb']:.1f} GB", flush=True)
    found = {
        "shape": arguments.shape, **surroundings(), "settings": step.described(),
        "step_seconds": {name: phase["seconds"] for name, phase in phases.items()},
        "step_memory_gb": max(phase["memory_gb"] for phase in phases.values()),
        "memory_gb": {name: phase["memory_gb"] for name, phase in phases.items()},
        "score_over_rollout": phases["score"]["seconds"] / phases["rollout"]["seconds"],
        "trained_parameters": step.num_trained, "loss": step.loss, "grad_norm": step.norm,
    }  # fmt: skip
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_text(arguments.out / f"step-{arguments.shape}.json", json.dumps(found, indent=2) + "\n")
    return 0


def step_figures(arguments: argparse.Namespace) -> int:
    """Merge the seconds and memory of a measured step into docs/figures.json."""
    found = json.loads((arguments.out / f"step-{arguments.shape}.json").read_text("utf-8"))
    key = f"step-{arguments.shape}"
    about = {"command": key, "hardware": found["hardware"], "commit": arguments.commit}
    what = "one optimisation step with LoRA, group of 8, random weights"
    under = f"h200/{arguments.shape}"
    new = {
        f"{under}/step_seconds/{name}": {**figure_of(value, f"s, {what}", 8), **about}
        for name, value in found["step_seconds"].items()
    }
    peak = figure_of(found["step_memory_gb"], f"GB allocated at the peak, {what}", 8)
    new[f"{under}/step_memory_gb"] = {**peak, **about}
    command = f"python benchmarks/align.py step8b OUT --shape {arguments.shape}"
    merge(arguments.figures, new, {key: command})
    for name, figure in new.items():
        print(f"{name}: {figure['value']:.4g}")
    return 0


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Declare what all trainings of a study share."""
    parser.add_argument("model", help="the checkpoint that all of them start from")
    parser.add_argument("out", type=Path, help="folder of the study")
    parser.add_argument("--task", default="wordmath")
    parser.add_argument("--level", default="hard", help="where the start is right 40 to 70 %%")
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--prompts-per-update", type=int, default=32)
    parser.add_argument("--num-generations", type=int, default=8)
    parser.add_argument("--inner-updates", type=int, default=2)
    parser.add_argument("--copies", type=int, default=2)
    parser.add_argument("--prompt-mask-ratio", type=float, default=0.0, help="SPG's own is 0.15")
    parser.add_argument("--micro-batch", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--max-grad-norm", type=float, default=1.0)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--metrics", default="core", help="paper needs a sentence encoder")
    parser.add_argument("--eval-every", type=int, default=25)
    parser.add_argument("--eval-problems", type=int, default=256)
    parser.add_argument("--problems", type=int, default=1000, help="unseen ones, per canvas")
    parser.add_argument("--tokens-per-step", type=int, default=1, help="more: hurried, less right")
    parser.add_argument("--which", choices=("best", "final"), default="best", help="model asked")
    parser.add_argument("--device", default="auto")


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Measure alignment.")
    commands = parser.add_subparsers(dest="do", required=True)
    whole = commands.add_parser("study", help="train and ask, all methods and seeds")
    single = commands.add_parser("one", help="one method and seed, in this process")
    add_shared(whole)
    add_shared(single)
    whole.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    whole.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    whole.add_argument("--parallel", type=int, default=4, help="trainings at once")
    single.add_argument("--method", choices=METHODS, required=True)
    single.add_argument("--seed", type=int, default=0)
    step = commands.add_parser("step8b", help="one optimisation step, where the GPU is")
    step.add_argument("out", type=Path)
    step.add_argument("--device", default="auto")
    step.add_argument("--micro-batch", type=int, default=8)
    step.add_argument("--gradient-checkpointing", action="store_true")
    tell = commands.add_parser("figures", help="into docs/figures.json, from answers")
    told = commands.add_parser("step-figures", help="into docs/figures.json, from step8b")
    for parsed in (step, told):
        parsed.add_argument("--shape", default="llada8b", help="llada8b, dream7b, ..., or toy")
    for parsed in (tell, told):
        parsed.add_argument("out", type=Path)
        parsed.add_argument("--commit", required=True, help="commit that was measured")
        parsed.add_argument("--figures", type=Path, default=FIGURES)
    tell.add_argument("--hardware", default="NVIDIA H200")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Run one of the commands and return the exit code."""
    arguments = read_arguments(words)
    commands = {"study": study, "one": one, "figures": write_figures, "step8b": step8b,
                "step-figures": step_figures}  # fmt: skip
    return commands[arguments.do](arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
