"""One optimisation step of LoRA on a published shape with random weights: seconds and memory.

    python benchmarks/step.py measure OUT                   where the GPU is
    python benchmarks/step.py measure OUT --method stable   the stable objective instead of SPG
    python benchmarks/step.py figures OUT --commit SHA      into docs/figures.json

It needs torch, numpy, pydantic, pyyaml, tokenizers, safetensors, rapidfuzz, accelerate and peft; an
uninstalled checkout runs with PYTHONPATH=src.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lib.figures import FIGURES, figure_of, merge
from lib.meter import peak_memory_gb
from lib.report import surroundings
from lib.step import Step

from remask.records.jsonl import write_text

PHASES = ("rollout", "score", "update")
Row = dict[str, Any]


def measure(arguments: argparse.Namespace) -> None:
    """Measure one optimisation step."""
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
    write_text(arguments.out / f"{key_of(arguments)}.json", json.dumps(found, indent=2) + "\n")


def key_of(arguments: argparse.Namespace) -> str:
    """Return the name of a measured step; SPG has none of its own."""
    method = "" if arguments.method == "spg" else f"-{arguments.method}"
    return f"step-{arguments.shape}{method}"


def write_figures(arguments: argparse.Namespace) -> None:
    """Merge the seconds and memory of a measured step into docs/figures.json."""
    key, method = key_of(arguments), arguments.method
    found = json.loads((arguments.out / f"{key}.json").read_text("utf-8"))
    command = f"python benchmarks/step.py measure OUT --shape {arguments.shape}"
    command += "" if method == "spg" else f" --method {method}"
    origin = {"run": key, "command": command}
    origin |= {"hardware": found["hardware"], "commit": arguments.commit}
    what = f"one optimisation step of {method} with LoRA, group of 8, random weights"
    under = f"h200/{arguments.shape}" + ("" if method == "spg" else f"/{method}")
    new = {
        f"{under}/step_seconds/{name}": figure_of(value, f"s, {what}", 8) | origin
        for name, value in found["step_seconds"].items()
    }
    peak = figure_of(found["step_memory_gb"], f"GB allocated at the peak, {what}", 8)
    new[f"{under}/step_memory_gb"] = peak | origin
    merge(arguments.figures, new)
    for name, figure in new.items():
        print(f"{name}: {figure['value']:.4g}")


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Measure one optimisation step.")
    commands = parser.add_subparsers(required=True)
    step = commands.add_parser("measure", help="one optimisation step, where the GPU is")
    stored = commands.add_parser("figures", help="store a measured step in docs/figures.json")
    for command, run in ((step, measure), (stored, write_figures)):
        command.add_argument("out", type=Path)
        command.add_argument("--shape", default="llada8b", help="llada8b, dream7b, ..., or toy")
        command.add_argument("--method", choices=("spg", "stable"), default="spg")
        command.set_defaults(run=run)
    step.add_argument("--device", default="auto")
    step.add_argument("--micro-batch", type=int, default=8)
    step.add_argument("--gradient-checkpointing", action="store_true")
    stored.add_argument("--commit", required=True, help="commit that was measured")
    stored.add_argument("--figures", type=Path, default=FIGURES)
    return parser.parse_args(words)


if __name__ == "__main__":
    parsed = read_arguments(sys.argv[1:])
    parsed.run(parsed)
