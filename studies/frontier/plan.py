"""The records of the study `frontier`, collected where the GPU is, and what validation chooses.

    python -m studies.frontier.plan collect MODEL OUT --part tried        every set, in parallel
    python -m studies.frontier.plan choose OUT                            label-free values
    python -m studies.frontier.plan collect MODEL OUT --part validation   labels, and pools of ten
    python -m studies.frontier.plan thresholds OUT                        of scores without labels
    python -m studies.frontier.plan collect MODEL OUT                     the test split
    python -m studies.frontier.plan collect MODEL OUT --part longer       on another canvas
    python -m studies.frontier.plan collect MODEL OUT --only choice       one set, in this process

`collect` writes one file of records per set and continues where it was stopped; large sets are cut
into shards, which are joined when all of them are there. `tried` are single
answers to validation problems, read by many probes; `choose` ranks sets of what these read by the
mean AUROC of their plain mean, with each family left out in turn. `thresholds` are those of the
embedded model's preset: the best F1, as the paper has it, over all levels of a task. `longer` are
test problems answered once, on a canvas half as long again: fits and thresholds of the usual canvas
are carried there. `studies.frontier.study` reads the other records.
"""

import argparse
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from remask.collect.collect import collect
from remask.collect.job_shard import JobShard
from remask.collect.join import join_shards
from remask.collect.settings import FREE_BASELINES, OPTIONAL_BASELINES, CollectSettings
from remask.decide.auroc import auroc
from remask.decide.columns import Flags, Floats
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.errors import RemaskError
from remask.probes.settings import Probe
from remask.records.record import Record, answers_in, read_records
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.tasks import task as find_task
from remask.verifier.columns import (
    GENERATION,
    LABEL_FREE,
    LABEL_FREE_PROBES,
    MEANS,
    label_free,
    readings_of,
)
from studies.shared.replay import best_f1_threshold

SEED = 11
POOL = 10
CHUNK = 250  # problems between two writes to disk
RIVALS = OPTIONAL_BASELINES[2:]  # all that neither ask the model in words nor need an editor
# Tried on validation beside those of the verifier.
TRIED = ("halves16", "stratified50x8", "stratified80x8", "stratified95x8", "visible")
BUDGET = 25  # forward passes of the label-free verifier
MOST = 4  # values in its mean
PROBLEMS = {"tried": 1000, "validation": 600, "longer": 1000}  # of each set
SHARD = 1_000_000  # forward passes of a process, about
LONGER = ("wordmath-hard", "choice")  # sets that are answered on another canvas too


class Set(NamedTuple):
    """Problems of one task and level."""

    task: str
    level: str
    problems: int  # of the test split: about 150 answers of the rarer kind, 1,000 to 5,000
    scored: int  # samples of each that are verified


SETS = {
    "wordmath": Set("wordmath", "medium", 4000, 1),
    "wordmath-hard": Set("wordmath", "hard", 1000, POOL),
    "choice": Set("choice", "medium", 1200, 1),
    "choice-hard": Set("choice", "hard", 2200, 1),
    "pycode": Set("pycode", "medium", 5000, 1),
    "pycode-hard": Set("pycode", "hard", 1700, 1),
    "countdown-easy": Set("countdown", "easy", 1000, 1),
}


def collect_set(
    model: Denoiser, name: str, part: str, out: Path, scale: float, shard: JobShard | None = None
) -> None:
    """Collect one file, and say how long it took."""
    started = time.perf_counter()
    collect(model, settings_of(model, name, part, scale), out, shard=shard)
    print(f"{out.stem}: {time.perf_counter() - started:.1f} s", flush=True)


def settings_of(model: Denoiser, name: str, part: str, scale: float) -> CollectSettings:
    """Return what is collected of a set."""
    own, is_single = SETS[name], part in ("tried", "longer")  # answers
    return CollectSettings(
        task=own.task,
        level=own.level,
        split="test" if part in ("test", "longer") else "validation",
        problems=num_problems(name, part, scale),
        samples=1 if is_single else POOL,
        scored=1 if is_single else own.scored,
        baselines=FREE_BASELINES if is_single else RIVALS,
        probes=(*LABEL_FREE_PROBES, *(TRIED if part == "tried" else ())),
        sampler=longer_canvas(model, own) if part == "longer" else None,
        metrics="core",
        seed=SEED,
        chunk=CHUNK,
    )


def num_problems(name: str, part: str, scale: float) -> int:
    """Return how many problems of a set a part has."""
    return max(4, int(PROBLEMS.get(part, SETS[name].problems) * scale))


def num_shards(name: str, part: str, scale: float) -> int:
    """Return into how many processes a set is cut; pools alone take long."""
    if part in ("tried", "longer"):
        return 1
    problems = num_problems(name, part, scale)
    passes = problems * (64 * POOL + 120 * SETS[name].scored)  # written, and looked at again
    return min(-(-passes // SHARD), -(-problems // CHUNK))


def longer_canvas(model: Denoiser, own: Set) -> SamplerSettings:
    """Return how to write on a canvas of half as many tokens again, in whole blocks."""
    usual = sampler_settings(
        model, kind=own.task, canvas=find_task(own.task).canvas_length(own.level)
    )
    blocks = -(-3 * usual.length // (2 * usual.block))
    return sampler_settings(model, kind=own.task, length=blocks * usual.block)


def file_name(part: str, name: str) -> str:
    """Return the file of a set; of the test split it is the set's own name."""
    if part == "longer":
        return f"{name}-{part}.jsonl"
    return f"{name}.jsonl" if part == "test" else f"{part}-{name}.jsonl"


def collect_all(arguments: argparse.Namespace) -> int:
    """Work the sets in processes of their own, which share the GPU; return the exit code."""
    part, out, scale = arguments.part, arguments.out, arguments.scale
    words = ["collect", arguments.model, str(out), "--scale", str(scale), "--part", part]
    names = LONGER if part == "longer" else tuple(SETS)
    shards = {
        name: [JobShard(k + 1, n) for k in range(n)]
        for name in names
        if (n := num_shards(name, part, scale))
    }
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads of many processes wait for each other
    running = {
        (name, shard): subprocess.Popen(
            [
                sys.executable,
                "-m",
                "studies.frontier.plan",
                *words,
                "--only",
                name,
                "--shard",
                str(shard),
            ],
            env=alone,
        )
        for name, own in shards.items()
        for shard in own
    }
    failed = [f"{name} {shard}" for (name, shard), child in running.items() if child.wait() != 0]
    if failed:
        print(f"{', '.join(failed)} failed; the same command again continues.", file=sys.stderr)
        return 1
    for name, own in shards.items():
        files = [shard_file(out, part, name, shard) for shard in own]
        join_shards(files, out / file_name(part, name), force=True)
    return 0


def shard_file(out: Path, part: str, name: str, shard: JobShard) -> Path:
    """Return the file of one shard of a set."""
    stem = Path(file_name(part, name)).stem
    return out / "shards" / f"{stem}-{shard.number}of{shard.of}.jsonl"


class TriedSet(NamedTuple):
    """What was read of the answers of one set."""

    names: list[str]
    values: Floats  # (J, n) in 0..1: exp of what was read; NaN where there was nothing to read
    right: Flags  # (n,)
    rows: list[Record]

    @staticmethod
    def of(name: str, path: Path) -> "TriedSet":
        """Read a file of records."""
        rows = answers_in(read_records(path))
        names = [n for n in rows[0].features if n.endswith(("_mean", "_min"))]
        values = np.exp([[_number(row.features[n]) for row in rows] for n in names])
        print(f"{name}: {len(rows)} answers, {sum(row.right for row in rows)} right")
        return TriedSet(names, values, np.array([row.right for row in rows]), rows)

    def auroc(self, chosen: Sequence[int]) -> float:
        """Return the AUROC of a plain mean of some values; ties are rare among such sums."""
        mean = np.nanmean(self.values[list(chosen)], 0)  # (n,) over what there is
        if np.isnan(mean).all():
            return 0.5
        rank = mean.argsort().argsort() + 1
        num_right = int(self.right.sum())
        wins = rank[self.right].sum() - num_right * (num_right + 1) / 2
        return float(wins / (num_right * (len(rank) - num_right)))

    def roundtrips(self) -> float:
        """Return the AUROC of the paper's score."""
        return auroc([row.scores["roundtrips"] for row in self.rows], self.right) or 0.5


def choose(out: Path) -> None:
    """Print which plain means do best, with each family left out in turn too."""
    warnings.filterwarnings("ignore", "Mean of empty slice")  # halves alone, of a choice
    sets = [TriedSet.of(name, out / file_name("tried", name)) for name in SETS]
    names = sets[0].names
    table = {c: np.array([own.auroc(c) for own in sets]) for c in affordable(names)}
    print(f"{len(table)} plain means of at most {MOST} values; the best of each size:")
    for size in range(1, MOST + 1):
        own = [chosen for chosen in table if len(chosen) == size]
        for chosen in sorted(own, key=lambda c: -table[c].mean())[:10]:
            print(line(table[chosen], chosen, names))
    families = np.array([own.task for own in SETS.values()])
    left = np.zeros(len(sets))
    for family in dict.fromkeys(families):
        here = families == family
        best = max(table, key=lambda c, others=~here: table[c][others].mean())
        left[here] = table[best][here]
        print(f"without {family}: {line(table[best], best, names)}")
    print(f"each set by what is best without its family: {left.mean():.4f} {left.round(3)}")
    ours = tuple(sorted(names.index(f"{n}.{readings_of(n)[0]}") for n in LABEL_FREE))
    print(f"the verifier: {line(table[ours], ours, names)}")
    trips = np.array([own.roundtrips() for own in sets])
    print(f"round trips: {trips.mean():.4f} {trips.round(3)}")


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def affordable(names: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the sets of values, by number, that the budget has room for."""
    sets = (c for size in range(1, MOST + 1) for c in combinations(range(len(names)), size))
    return [c for c in sets if passes(names[i].partition(".")[0] for i in c) <= BUDGET]


def passes(sources: Iterable[str]) -> int:
    """Return what probes cost together; the generation costs nothing."""
    return sum(Probe.named(name).passes for name in set(sources) - {GENERATION})


def line(row: Floats, chosen: Sequence[int], names: Sequence[str]) -> str:
    """Return a row of the table."""
    return f"{row.mean():.4f} {row.round(3)} {' '.join(names[i] for i in chosen)}"


def thresholds(out: Path) -> None:
    """Print the threshold of each label-free scorer, by task."""
    for task in dict.fromkeys(own.task for own in SETS.values()):
        names = [name for name, own in SETS.items() if own.task == task]
        files = [answers_in(read_records(out / file_name("validation", name))) for name in names]
        rows = [row for file in files for row in file if row.number == 0]
        right = np.array([row.right for row in rows])
        for scorer in MEANS:
            scores = np.array([_number(label_free(scorer, row.features)) for row in rows])
            print(f"{task} {scorer}: {best_f1_threshold(scores, right):.2f} of {len(rows)} answers")


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="The records of the study frontier.")
    commands = parser.add_subparsers(dest="command", required=True)
    gather = commands.add_parser("collect", help="records of every set")
    gather.add_argument("model", help="'tiny' or a checkpoint folder")
    gather.add_argument("out", type=Path, help="folder for the records")
    gather.add_argument("--part", choices=(*PROBLEMS, "test"), default="test")
    gather.add_argument("--scale", type=float, default=1.0, help="share of the problems")
    gather.add_argument("--only", choices=SETS, help="one set, in this process")
    gather.add_argument("--shard", type=JobShard.parse, help="of this set, such as 2/4")
    for name, line in (("choose", "label-free values"), ("thresholds", "of label-free scorers")):
        pick = commands.add_parser(name, help=f"{line}, from validation")
        pick.add_argument("out", type=Path, help="folder with the records")
    return parser.parse_args(arguments)


def main(command: Sequence[str]) -> int:
    """Run one of the commands and return the exit code."""
    arguments = read_arguments(command)
    if arguments.command != "collect":
        {"choose": choose, "thresholds": thresholds}[arguments.command](arguments.out)
        return 0
    name, part, out, shard = arguments.only, arguments.part, arguments.out, arguments.shard
    out.mkdir(parents=True, exist_ok=True)
    if name is None:
        return collect_all(arguments)
    path = out / file_name(part, name) if shard is None else shard_file(out, part, name, shard)
    path.parent.mkdir(exist_ok=True)
    collect_set(load(arguments.model), name, part, path, arguments.scale, shard)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"frontier.py: {error}")
