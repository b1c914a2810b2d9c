"""The records of the study `frontier`, collected where the GPU is, and what validation chooses.

    python benchmarks/frontier.py collect MODEL OUT --split validation      every set, in parallel
    python benchmarks/frontier.py collect MODEL OUT --only choice           one set, in this process
    python benchmarks/frontier.py variants MODEL OUT        other critical text, on validation
    python benchmarks/frontier.py choose OUT                label-free probes, from validation

`collect` writes one file of records per set and continues where it was stopped. `variants` reads
the first answers of the validation problems once more for each kind of critical text that a task
might have. `choose` ranks sets of probes by the mean AUROC of their plain mean, with each family
left out in turn, and compares the kinds of critical text. What the records of the test split say is
the study's to tell: `remask study frontier OUT`.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from remask import api
from remask.analysis.pool import agreement, pools
from remask.collect.answers import draw_pools, grade_pools, prompt_for
from remask.collect.collect import collect
from remask.collect.settings import OPTIONAL_BASELINES, CollectSettings
from remask.decide.auroc import auroc
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.errors import RemaskError
from remask.probes.readings import Critical, read
from remask.probes.settings import Probe
from remask.records import jsonl
from remask.records.record import Record, answers_in, read_records
from remask.sampling.settings import sampler_settings
from remask.tasks import TASKS
from remask.tasks.base import Problem, Split
from remask.verifier.columns import lookup
from remask.verifier.features import probe_features

SEED = 11
POOL = 10
RIVALS = OPTIONAL_BASELINES[2:]  # all that neither ask the model in words nor need an editor
VALIDATION = 500  # problems of each set
PROBES = ("critical", "halves8", "stratified80x8", "forced8")
# Tried on validation beside those.
TRIED = ("stratified50x8", "random15x8", "forced4", "forced16", "visible", "suffix")


class Set(NamedTuple):
    """Problems of one task and level."""

    task: str
    level: str
    problems: int  # of the test split: about 150 answers of the rarer kind, 1,000 to 5,000
    scored: int  # samples of each that are verified
    kinds: tuple[str, ...]  # of critical text that are compared, the task's own first

    @property
    def family(self) -> str:
        """What is left out in turn."""
        return self.task


_NUMBER = ("number", "expression")
_CHOICE = ("choice", "choice_letter", "choice_options", "choice_prompt")
_CODE = ("code", "code_constants", "code_conditions", "number")
SETS = {
    "wordmath": Set("wordmath", "medium", 4000, 1, _NUMBER),
    "wordmath-hard": Set("wordmath", "hard", 1000, POOL, _NUMBER),
    "choice": Set("choice", "medium", 1200, 1, _CHOICE),
    "choice-hard": Set("choice", "hard", 2200, 1, _CHOICE),
    "pycode": Set("pycode", "medium", 5000, 1, _CODE),
    "pycode-hard": Set("pycode", "hard", 1700, 1, _CODE),
    "countdown-easy": Set("countdown", "easy", 1000, 1, _NUMBER),
}


def collect_set(model: Denoiser, name: str, split: Split, out: Path, scale: float) -> None:
    """Collect one file, and say how long it took."""
    own, started = SETS[name], time.perf_counter()
    is_test = split == "test"
    settings = CollectSettings(
        task=own.task,
        level=own.level,
        split=split,
        problems=max(4, int((own.problems if is_test else VALIDATION) * scale)),
        samples=POOL,
        scored=own.scored if is_test else 1,
        baselines=RIVALS,
        probes=PROBES if is_test else (*PROBES, *TRIED),
        metrics="core",
        seed=SEED,
        chunk=250,
    )
    collect(model, settings, out / f"{prefix(split)}{name}.jsonl")
    print(f"{split} {name}: {time.perf_counter() - started:.1f} s", flush=True)


def prefix(split: str) -> str:
    """Return how the files of a split begin."""
    return "" if split == "test" else f"{split}-"


def read_variants(model: Denoiser, name: str, out: Path, scale: float) -> None:
    """Write what probes read of the first answers under each kind of critical text."""
    own, started = SETS[name], time.perf_counter()
    task = TASKS[own.task]
    sampler = sampler_settings(model, kind=own.task, canvas=task.canvas_length(own.level))
    problems = [
        task.problem(i, split="validation", level=own.level, seed=SEED)
        for i in range(max(4, int(VALIDATION * scale)))
    ]
    prompted = [prompt_for(model, problem, sampler.length) for problem in problems]
    pools = draw_pools(model, prompted, sampler.for_pool(POOL, "samples"), range(1), SEED)
    samples = [pool[0] for pool in pools]
    rows: list[dict[str, Any]] = [
        {"id": problem.id, "right": graded[0].grade.right}
        for problem, graded in zip(problems, grade_pools(task, problems, pools), strict=True)
    ]
    probes = [Probe.named(probe) for probe in PROBES]
    for kind in own.kinds:
        critical = critical_of(model, problems, own.task, kind)
        readings = read(model, samples, probes, critical=critical, seed=SEED)
        for row, sample, by_name in zip(rows, samples, readings, strict=True):
            row[kind] = {**probe_features(by_name), "critical_count": sum(critical(sample))}
    jsonl.write_text(out / f"variants-{name}.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    print(f"variants {name}: {time.perf_counter() - started:.1f} s", flush=True)


def critical_of(model: Denoiser, problems: Sequence[Problem], task: str, kind: str) -> Critical:
    """Return what says which tokens are critical, by another kind than the task's own."""
    other = copy(TASKS[task])
    other.critical = kind
    questions = {problem.id: problem.prompt for problem in problems}
    return api.critical_tokens(model, questions, kind=other)


def collect_all(arguments: argparse.Namespace) -> int:
    """Work the sets in processes of their own, which share the GPU; return the exit code."""
    words = [arguments.command, arguments.model, str(arguments.out), "--scale"]
    words += [str(arguments.scale)]
    if arguments.command == "collect":
        words += ["--split", arguments.split]
    running = {
        name: subprocess.Popen([sys.executable, __file__, *words, "--only", name]) for name in SETS
    }
    failed = [name for name, child in running.items() if child.wait() != 0]
    if failed:
        print(f"{', '.join(failed)} failed; the same command again continues.", file=sys.stderr)
    return 1 if failed else 0


def choose(out: Path) -> None:
    """Print how sets of probes do, with each family left out, and other critical text."""
    records = {name: first_answers(out / f"validation-{name}.jsonl") for name in SETS}
    some = next(iter(records.values()))[0].features
    made = [probe for probe in (*PROBES, *TRIED) if lookup(probe, some) is not None]
    sets = [c for size in range(1, 5) for c in combinations(made, size)]
    sets = [c for c in sets if sum(Probe.named(probe).passes for probe in c) <= 25]
    table = {c: {n: auroc_of(rows, c) for n, rows in records.items()} for c in sets}
    print("mean AUROC of the plain mean, best first:")
    for chosen in sorted(table, key=lambda c: -mean_of(table[c]))[:25]:
        print(f"{mean_of(table[chosen]):.4f}  {' '.join(chosen)}  {rounded(table[chosen])}")
    print(f"{mean_of(table[PROBES]):.4f}  {' '.join(PROBES)}  {rounded(table[PROBES])}")
    for family in dict.fromkeys(own.family for own in SETS.values()):
        best = max(sets, key=lambda c, f=family: mean_of(without(table[c], f)))
        left = {n: v for n, v in table[best].items() if SETS[n].family == family}
        print(f"without {family}: {' '.join(best)}; on it {rounded(left)}")
    print("roundtrips:", rounded({n: baseline(rows, "roundtrips") for n, rows in records.items()}))
    for size in (2, 3, 5, POOL):
        values = {name: of_pools(out, name, size) for name in SETS}
        print(f"agreement of {size}: {mean_of(values):.4f} {rounded(values)}")
    for rival in ("confidence", *RIVALS):
        values = {n: baseline(rows, rival) for n, rows in records.items()}
        print(f"{rival}: {mean_of(values):.4f} {rounded(values)}")
    for name, rows in variants(out):
        right = [row["right"] for row in rows]
        for kind in SETS[name].kinds:
            columns = {
                "critical": [lookup("critical", row[kind]) for row in rows],
                "label-free": [plain_mean(row[kind], PROBES) for row in rows],
            }
            told = {key: round(auroc(column, right) or 0.5, 4) for key, column in columns.items()}
            print(name, kind, told, round(fmean(row[kind]["critical_count"] for row in rows), 1))


def variants(out: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the sets that were read again, with their rows."""
    for name in SETS:
        path = out / f"variants-{name}.jsonl"
        if path.exists():
            yield name, list(jsonl.read(path))


def first_answers(path: Path) -> list[Record]:
    """Return the standard answers of a file."""
    return [row for row in answers_in(read_records(path)) if row.number == 0]


def of_pools(out: Path, name: str, size: int) -> float:
    """Return the AUROC of the agreement of so many samples."""
    pooled = pools(answers_in(read_records(out / f"validation-{name}.jsonl")))
    scores = [agreement(pool[:size]) for pool in pooled]
    return auroc(scores, [pool[0].right for pool in pooled]) or 0.5


def plain_mean(features: Mapping[str, float | None], probes: Sequence[str]) -> float:
    """Return the label-free value of an answer."""
    values = [lookup(probe, features) for probe in probes]
    return fmean(value for value in values if value is not None)


def auroc_of(rows: Sequence[Record], probes: Sequence[str]) -> float:
    """Return the AUROC of a plain mean of probes; 0.5 where all answers are of one kind."""
    scores = [plain_mean(row.features, probes) for row in rows]
    return auroc(scores, [row.right for row in rows]) or 0.5


def baseline(rows: Sequence[Record], name: str) -> float:
    """Return the AUROC of a score as it is recorded."""
    pairs = [(row.scores[name], row.right) for row in rows if row.scores.get(name) is not None]
    return auroc([score for score, _ in pairs], [right for _, right in pairs]) or 0.5


def mean_of(values: Mapping[str, float]) -> float:
    """Return the mean over sets."""
    return fmean(values.values())


def without(values: Mapping[str, float], family: str) -> dict[str, float]:
    """Return the sets of other families."""
    return {name: value for name, value in values.items() if SETS[name].family != family}


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Return values fit to be read."""
    return {name: round(value, 3) for name, value in values.items()}


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="The records of the study frontier.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, line in (("collect", "records of every set"), ("variants", "other critical text")):
        gather = commands.add_parser(name, help=line)
        gather.add_argument("model", help="'tiny' or a checkpoint folder")
        gather.add_argument("out", type=Path, help="folder for the records")
        gather.add_argument("--scale", type=float, default=1.0, help="share of the problems")
        gather.add_argument("--only", choices=SETS, help="one set, in this process")
        if name == "collect":
            gather.add_argument("--split", choices=("validation", "test"), default="test")
    pick = commands.add_parser("choose", help="label-free probes, from validation")
    pick.add_argument("out", type=Path, help="folder with the records")
    return parser.parse_args(arguments)


def main(command: Sequence[str]) -> int:
    """Run one of the commands and return the exit code."""
    arguments = read_arguments(command)
    if arguments.command == "choose":
        choose(arguments.out)
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.only is None:
        return collect_all(arguments)
    model = load(arguments.model)
    if arguments.command == "collect":
        collect_set(model, arguments.only, arguments.split, arguments.out, arguments.scale)
    else:
        read_variants(model, arguments.only, arguments.out, arguments.scale)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"frontier.py: {error}")
