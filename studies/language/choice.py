"""Which canvas, pace and block: chosen on validation, and written down with the tries.

The rule: the highest accuracy, and of equals the fewest forward passes. What is cheaper and within
the error of the best is not taken: where one in twenty is right, that error is a fifth of it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from remask.errors import InputError
from remask.records.jsonl import write_text
from remask.records.record import Record, answers_in, read_records
from remask.records.text_file import read_object
from studies.language.jobs import Plan, Shape, tried_name
from studies.language.problems import BENCHMARKS, SOURCES
from studies.language.workers import record_path, run_jobs

CHOICE = "choice.json"
RULE = "the highest accuracy on validation, and of equals the fewest forward passes"
Tried = dict[str, Any]


def choose(
    plan: Plan,
    model: str,
    shapes: Mapping[str, tuple[Shape, ...]],
    *,
    parallel: int,
    deadline: float,
) -> list[str]:
    """Try every shape and write the choice; return what is not finished, where time is over."""
    unfinished = run_jobs(plan.tried(shapes), model, plan.out, parallel=parallel, deadline=deadline)
    if unfinished:
        return unfinished
    chosen = {}
    for name in BENCHMARKS:
        tried = [_tried(plan.out, name, shape) for shape in shapes[name]]
        best = chosen_of(tried)
        kept = {key: best[key] for key in ("canvas", "rate", "steps", "block")}
        chosen[name] = {"validated_with": list(SOURCES[name]), **kept, "tried": tried}
    document = {"rule": RULE, "sets": chosen}
    write_text(plan.out / CHOICE, json.dumps(document, indent=1) + "\n")
    return []


def read_choice(out: Path) -> dict[str, Any]:
    """Return what was chosen, or raise where nothing was."""
    path = out / CHOICE
    if not path.exists():
        raise InputError(f"{out} has no {CHOICE}; choose first: studies.language choose.")
    document = read_object(path, "choose again")
    if not set(BENCHMARKS) <= document.get("sets", {}).keys():
        raise InputError(f"{path} lacks one of {', '.join(BENCHMARKS)}; choose again.")
    return document


def chosen_shapes(out: Path) -> dict[str, Shape]:
    """Return the shape of each benchmark."""
    sets = read_choice(out)["sets"]
    return {
        name: Shape(*(sets[name][part] for part in ("canvas", "rate", "block")))
        for name in BENCHMARKS
    }


def chosen_of(tried: Sequence[Tried]) -> Tried:
    """Return the try that the rule chooses; of those that are alike the first."""
    return max(tried, key=lambda one: (one["accuracy"], -one["forwards"]))


def _tried(out: Path, name: str, shape: Shape) -> Tried:
    rows: list[Record] = answers_in(read_records(record_path(out, tried_name(name, shape))))
    return {
        "canvas": shape.canvas, "rate": shape.rate, "steps": shape.steps, "block": shape.block,
        "problems": len(rows), "accuracy": fmean(row.right for row in rows),
        "forwards": fmean(row.forwards for row in rows),
    }  # fmt: skip
