"""The records of the study `frontier`, collected where the GPU is, and what validation chooses.

    python benchmarks/frontier.py collect MODEL OUT --split validation      every set, in parallel
    python benchmarks/frontier.py collect MODEL OUT --only choice           one set, in this process
    python benchmarks/frontier.py choose OUT                label-free probes, from validation

`collect` writes one file of records per set and continues where it was stopped. `choose` ranks sets
of probes by the mean AUROC of their plain mean, with each family left out in turn. What the records
of the test split say is the study's to tell: `remask study frontier OUT`.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from remask.analysis.pool import agreement, pools
from remask.collect.collect import collect
from remask.collect.settings import OPTIONAL_BASELINES, CollectSettings
from remask.decide.auroc import auroc
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.errors import RemaskError
from remask.probes.settings import Probe
from remask.records.record import Record, answers_in, read_records
from remask.tasks.base import Split
from remask.verifier.columns import lookup

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

    @property
    def family(self) -> str:
        """What is left out in turn."""
        return self.task


SETS = {
    "wordmath": Set("wordmath", "medium", 4000, 1),
    "wordmath-hard": Set("wordmath", "hard", 1000, POOL),
    "choice": Set("choice", "medium", 1200, 1),
    "choice-hard": Set("choice", "hard", 2200, 1),
    "pycode": Set("pycode", "medium", 5000, 1),
    "pycode-hard": Set("pycode", "hard", 1700, 1),
    "countdown-easy": Set("countdown", "easy", 1000, 1),
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


def collect_all(arguments: argparse.Namespace) -> int:
    """Work the sets in processes of their own, which share the GPU; return the exit code."""
    words = ["collect", arguments.model, str(arguments.out), "--scale", str(arguments.scale)]
    words += ["--split", arguments.split]
    running = {
        name: subprocess.Popen([sys.executable, __file__, *words, "--only", name]) for name in SETS
    }
    failed = [name for name, child in running.items() if child.wait() != 0]
    if failed:
        print(f"{', '.join(failed)} failed; the same command again continues.", file=sys.stderr)
    return 1 if failed else 0


def choose(out: Path) -> None:
    """Print how sets of probes do, with each family left out, and what there is beside them."""
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
    gather = commands.add_parser("collect", help="records of every set")
    gather.add_argument("model", help="'tiny' or a checkpoint folder")
    gather.add_argument("out", type=Path, help="folder for the records")
    gather.add_argument("--split", choices=("validation", "test"), default="test")
    gather.add_argument("--scale", type=float, default=1.0, help="share of the problems")
    gather.add_argument("--only", choices=SETS, help="one set, in this process")
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
    collect_set(model, arguments.only, arguments.split, arguments.out, arguments.scale)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"frontier.py: {error}")
