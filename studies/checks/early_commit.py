"""Early commit, measured: self-consistency and rejection sampling with samples that cost less.

    python -m studies.checks.early_commit collect MODEL EARLY  pools of ten, written with the gap
    python -m studies.checks.early_commit measure USUAL EARLY  against the same problems without it

USUAL is the folder of `python -m studies.frontier.plan collect`, with its validation pools: the
threshold of rejection sampling is chosen there, once, by the rule of the frontier, and used for
both. The gap is the one that Prophet's authors published; nothing is chosen here.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from remask.analysis.bootstrap import Draws, Estimate
from remask.analysis.pool import Pool, agreement, pools, vote_counts
from remask.collect.collect import collect
from remask.collect.settings import CollectSettings
from remask.decide.auroc import auroc
from remask.denoisers.load import load
from remask.errors import RemaskError
from remask.records.record import answers_in, read_records
from remask.sampling.settings import sampler_settings
from remask.tasks import task as find_task
from remask.verifier.columns import LABEL_FREE_PROBES
from studies.shared.figures import figure_of, merge
from studies.shared.methods import plain_mean, score_pools
from studies.shared.rejection import PoolScores
from studies.shared.replay import cheapest_threshold, replay
from studies.shared.sets import RESAMPLES, every_sample

TASK, LEVEL, SEED, POOL = "wordmath", "hard", 11, 10  # the frontier's rejection sampling
FILE, SCORER, GAP = "wordmath-hard.jsonl", "verifier", 5.0
COMMAND = (
    "python -m studies.checks.early_commit collect tiny EARLY; "
    "python -m studies.checks.early_commit measure USUAL EARLY"
)
WHAT = {
    "sample_forwards": "forwards that write a sample",
    "accuracy": "share of first samples that are right",
    "vote_accuracy": "share of majorities of ten that are right",
    "mgrs_accuracy": "share right after rejection sampling by the label-free verifier",
    "mgrs_forwards": "forwards of rejection sampling per problem",
}


def gather(arguments: argparse.Namespace) -> None:
    """Write pools with early commit, each sample read by the verifier's probes."""
    model = load(arguments.model, device=arguments.device)
    canvas = find_task(TASK).canvas_length(LEVEL)
    settings = CollectSettings(
        task=TASK, level=LEVEL, split="test", problems=arguments.problems, samples=POOL,
        scored=POOL, probes=LABEL_FREE_PROBES, metrics="core", seed=SEED, chunk=250,
        sampler=sampler_settings(model, kind=TASK, canvas=canvas, commit_gap=GAP),
    )  # fmt: skip
    arguments.early.mkdir(parents=True, exist_ok=True)
    collect(model, settings, arguments.early / FILE)


def read_pools(path: Path) -> list[Pool]:
    """Return the pools of a file."""
    return pools(answers_in(read_records(path)))


def scored(pooled: Sequence[Pool]) -> PoolScores:
    """Return what the label-free verifier says of every sample."""
    method = score_pools(plain_mean(SCORER), every_sample(pooled))
    return PoolScores(pooled=pooled, methods={SCORER: method})


def measures(pooled: Sequence[Pool], threshold: float) -> dict[str, list[float]]:
    """Return what is measured of each problem, by the names of `WHAT`."""
    [own] = scored(pooled).of(SCORER)
    made = replay(own, threshold)
    return {
        "sample_forwards": [float(np.mean([row.forwards for row in pool])) for pool in pooled],
        "accuracy": [float(pool[0].right) for pool in pooled],
        "vote_accuracy": [float(is_majority_right(pool)) for pool in pooled],
        "mgrs_accuracy": made.right.astype(np.float64).tolist(),
        "mgrs_forwards": made.forwards.tolist(),
    }


def is_majority_right(pool: Pool) -> bool:
    """Say whether the most frequent answer is right; the first drawn of equals."""
    counts = vote_counts(pool)
    if not counts:
        return False
    [(winner, _)] = counts.most_common(1)
    return next(row.right for row in pool if row.vote_key == winner)


def agreement_auroc(pooled: Sequence[Pool]) -> float:
    """Return how well agreement of ten tells whether the first sample is right."""
    value = auroc([agreement(pool) for pool in pooled], np.array([p[0].right for p in pooled]))
    return float("nan") if value is None else value


def measure(arguments: argparse.Namespace) -> None:
    """Print both ways of drawing side by side, and merge the figures where they are wanted."""
    early, usual = (read_pools(folder / FILE) for folder in (arguments.early, arguments.usual))
    usual = usual[: len(early)]
    if [pool[0].id for pool in usual] != [pool[0].id for pool in early]:
        raise RemaskError(f"{arguments.early} and {arguments.usual} hold other problems.")
    [chosen] = scored(read_pools(arguments.usual / f"validation-{FILE}")).of(SCORER)
    threshold = cheapest_threshold(chosen)
    draws = Draws.of(range(len(early)), name="early commit", resamples=RESAMPLES)
    ways = {"usual": measures(usual, threshold), "early": measures(early, threshold)}
    figures = {}
    for name, text in WHAT.items():
        numbers = {way: resampled(draws, columns[name]) for way, columns in ways.items()}
        numbers["difference"] = numbers["early"] - numbers["usual"]
        for way, number in numbers.items():
            found = number.interval()
            figures[f"early/{way}/{name}"] = figure_of(
                found.value, text, found.n, low=found.low, high=found.high
            )
            print(f"{name:16s} {way:10s} {found.value:8.3f} [{found.low:.3f}, {found.high:.3f}]")
    for way, pooled in (("usual", usual), ("early", early)):
        value = agreement_auroc(pooled)
        figures[f"early/{way}/agreement_auroc"] = figure_of(value, "AUROC", len(pooled))
        print(f"agreement AUROC  {way:10s} {value:8.3f}")
    save(arguments, figures)


def resampled(draws: Draws, column: Sequence[float]) -> Estimate:
    """Return the mean over problems; all have a value."""
    number = draws.mean(column)
    assert number is not None
    return number


def save(arguments: argparse.Namespace, figures: Mapping[str, Mapping[str, object]]) -> None:
    """Merge the figures into the file that the command line names, if it names one."""
    if arguments.figures:
        about = {"run": "early", "command": COMMAND}
        about |= {"commit": arguments.commit, "hardware": arguments.hardware}
        new = {name: {**row, **about} for name, row in figures.items()}
        merge(arguments.figures, new, ("early/",))


def main(words: Sequence[str]) -> int:
    """Run one of the commands and return the exit code."""
    parser = argparse.ArgumentParser(description="Measure early commit.")
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("collect", help="pools with early commit")
    first.add_argument("model", help="'tiny' or a checkpoint folder")
    first.add_argument("early", type=Path, help="folder for them")
    first.add_argument("--problems", type=int, default=1000)
    first.add_argument("--device", default="auto")
    then = commands.add_parser("measure", help="against pools without it")
    then.add_argument("usual", type=Path, help="folder of the frontier's records")
    then.add_argument("early", type=Path)
    then.add_argument("--figures", type=Path, help="figures.json to merge the results into")
    then.add_argument("--commit", default="", help="commit that was measured")
    then.add_argument("--hardware", default="", help="what it was measured on")
    arguments = parser.parse_args(words)
    {"collect": gather, "measure": measure}[arguments.command](arguments)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"early_commit.py: {error}")
