"""What the runs of the alignment study say: figures, differences seed by seed, verdicts.

The unit is a run. Of each there is one number per measure, and over runs a mean with a t-interval;
arms are compared by the differences of runs with the same seed. Shares of right steps are small,
and are compared by their log-odds. Where an interval covers 0, nothing can be told.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from remask.analysis.bootstrap import Interval
from remask.analysis.statistics import interval_text
from studies.align.arms import ARMS, BLOCK, SETTINGS
from studies.align.over_runs import differences, log_odds, over_runs, verdict
from studies.shared.figures import figure_of

Row = dict[str, Any]
EQUAL = "accuracy_equal_forwards"
CANVASES = ("short", "medium", "long")
FIRST = 10  # updates whose likelihood the others are compared with
MOST_LIKELIHOOD_FALL, MOST_ACCURACY_FALL = 0.5, 0.03  # of a run that has held
MEASURES = {
    "accuracy": "share of right answers, greedy",
    "right_steps": "share of all answers that are right with every step right",
    "process_ok": "share of right answers with right steps",
    "forwards": "forward passes per answer",
    "tokens": "tokens per answer",
}
SHORT = {
    "score": "score by the trained model itself, mean",
    "auroc": "AUROC of the score for right answers",
    "auroc_steps": "AUROC of the score for right steps among right answers",
}  # fmt: skip
# Of settings other than the main one.
ELSEWHERE = (
    "accuracy", "right_steps", "forwards", "likelihood_fall", "likelihood_fall_of_ten",
    "accuracy_fall", "held",
)  # fmt: skip
PAIRS = (
    ("stable", "outcome"), ("stable", "placebo"), ("stable", "start"), ("outcome", "start"),
    ("outcome", "sft"), ("geometric", "outcome"), ("oracle", "outcome"), ("placebo", "outcome"),
)  # fmt: skip


def read_results(paths: Iterable[Path]) -> list[Row]:
    """Return the results in files of one per line; a file that is not there has none."""
    lines = [
        line for path in paths if path.exists() for line in path.read_text("utf-8").splitlines()
    ]
    return [json.loads(line) for line in lines if line.strip()]


def figures_of(results: Sequence[Row]) -> dict[str, Row]:
    """Return every figure by name; those of other settings than the main one lie under theirs."""
    out: dict[str, Row] = {}
    for setting in SETTINGS:
        mine = [result for result in results if result["setting"] == setting]
        under = "align" if setting == "main" else f"align/{setting}"
        for arm in ARMS:
            runs = [result for result in mine if result["arm"] == arm]
            for name, values, unit in measured(runs):
                if values and (setting == "main" or name.partition("/")[0] in ELSEWHERE):
                    held = name == "held"  # a count, which t has nothing to say of
                    count = figure_of(fmean(values), unit, len(values))
                    out[f"{under}/{arm}/{name}"] = count if held else over(values, unit)
        for ours, theirs, name, values, unit in gaps(mine):
            if values and (setting == "main" or (ours, theirs) == PAIRS[0]):
                out[f"{under}/{ours}_minus_{theirs}/{name}"] = over(values, unit)
        seeds = len(differences(by_seed(mine, "stable", zero), by_seed(mine, "outcome", zero)))
        if seeds:
            out[f"{under}/seeds"] = figure_of(float(seeds), "paired seeds of stable and outcome")
    return out


def measured(runs: Sequence[Row]) -> Iterator[tuple[str, list[float], str]]:
    """Yield the numbers of the runs of one arm, by the name of the figure, with its unit."""
    for canvas in CANVASES:
        for name, unit in MEASURES.items():
            values = present(run["canvases"][canvas].get(name) for run in runs)
            yield f"{name}/{canvas}", values, unit
    for name, unit in SHORT.items():
        yield f"{name}/short", present(run["canvases"]["short"].get(name) for run in runs), unit
    unit = "share of right answers, greedy, one token a step"
    yield "accuracy_one_token/short", [patience(run) for run in runs], unit
    trained = [run for run in runs if run["validations"]]
    falls = "nats per token, most that the likelihood of positives fell below its first ten updates"
    yield "likelihood_fall", present(likelihood_fall(run) for run in trained), falls
    ten = present(likelihood_fall(run, window=FIRST) for run in trained)
    yield "likelihood_fall_of_ten", ten, f"{falls}, in the mean of ten"
    fell = "share of validation problems, accuracy at the end below its best"
    yield "accuracy_fall", [accuracy_fall(run) for run in trained], fell
    kept = "share of runs in which neither likelihood nor accuracy fell too far"
    yield "held", [float(has_held(run)) for run in trained], kept
    yield "cost", [run["seconds"]["train"] for run in trained], "s of a training that shared a GPU"


def gaps(results: Sequence[Row]) -> Iterator[tuple[str, str, str, list[float], str]]:
    """Yield both arms, the measure, its differences seed by seed and their unit."""
    for ours, theirs in PAIRS:
        pair = f"{ours} against {theirs}, same seeds"
        for name, of, unit in (
            ("accuracy", accuracy, f"share above, {pair}, mean over canvases"),
            ("right_steps", steps, f"log-odds above, {pair}, mean over canvases"),
            ("accuracy_one_token", patience, f"share above, {pair}, a token a step"),
        ):
            yield ours, theirs, name, paired(results, ours, theirs, of), unit
    mine = {run["seed"]: run for run in results if run["arm"] == "stable"}
    others = {run["seed"]: run for run in results if run["arm"] == "outcome"}
    both = sorted(mine.keys() & others.keys())
    equal = [accuracy_at(mine[seed], short_of(others[seed], "forwards")) for seed in both]
    gap = [ours - short_of(others[seed], "accuracy")
           for seed, ours in zip(both, equal, strict=True) if ours is not None]  # fmt: skip
    unit = "share above, stable against outcome, short canvas, at the outcome's forward passes"
    # A mean over the seeds that happen to have been measured there would be one of other seeds.
    yield "stable", "outcome", EQUAL, gap if len(gap) == len(both) else [], unit


def paired(
    results: Sequence[Row], ours: str, theirs: str, of: Callable[[Row], float | None]
) -> list[float]:
    """Return the differences seed by seed: arms of one seed are asked the same problems."""
    return differences(by_seed(results, ours, of), by_seed(results, theirs, of))


def by_seed(
    results: Sequence[Row], arm: str, of: Callable[[Row], float | None]
) -> dict[int, float]:
    """Return one number per seed of an arm."""
    values = {run["seed"]: of(run) for run in results if run["arm"] == arm}
    return {seed: value for seed, value in values.items() if value is not None}


def accuracy(run: Row) -> float:
    """Return the mean over canvases."""
    return fmean(run["canvases"][canvas]["accuracy"] for canvas in CANVASES)


def steps(run: Row) -> float | None:
    """Return the log-odds of right steps, mean over canvases; None where steps have no labels."""
    rows = [run["canvases"][canvas] for canvas in CANVASES]
    if any("right_steps" not in row for row in rows):
        return None
    return fmean(log_odds(row["right_steps"], row["num"]) for row in rows)


def patience(run: Row) -> float:
    """Return the accuracy at one token a step."""
    return float(run["paces"][str(BLOCK)]["accuracy"])


def zero(run: Row) -> float:
    """Return nothing but that there is a run."""
    return 0.0


def short_of(run: Row, name: str) -> float:
    """Return a measure of the short canvas."""
    return float(run["canvases"]["short"][name])


def accuracy_at(run: Row, forwards: float) -> float | None:
    """Return the accuracy at so many forward passes; None outside the paces that were measured."""
    points = [(row["forwards"], row["accuracy"]) for row in run["paces"].values()]
    points.append((short_of(run, "forwards"), short_of(run, "accuracy")))
    costs, shares = zip(*sorted(points), strict=True)
    if not costs[0] <= forwards <= costs[-1]:
        return None
    return float(np.interp(forwards, costs, shares))


def likelihood_fall(run: Row, window: int = 1) -> float | None:
    """Return how far the likelihood of positives ever was below that of the first ten updates.

    What is compared is a single update, which may have learned from one answer alone, or the mean
    of a window of them.
    """
    values = present(run["curves"].get("elbo_pos", []))
    if len(values) <= FIRST:
        return None
    means = [fmean(values[i : i + window]) for i in range(len(values) - window + 1)]
    return fmean(values[:FIRST]) - min(means)


def accuracy_fall(run: Row) -> float:
    """Return how far validation accuracy ended below its best."""
    values = [value for _, value, _ in run["validations"]]
    return float(max(values) - values[-1])


def has_held(run: Row) -> bool:
    """Say whether neither the likelihood of positives nor validation accuracy fell."""
    return (
        (likelihood_fall(run) or 0.0) <= MOST_LIKELIHOOD_FALL
        and accuracy_fall(run) <= MOST_ACCURACY_FALL
    )  # fmt: skip


def statements(results: Sequence[Row]) -> Iterator[str]:
    """Yield one line per difference, with its interval and what it tells."""
    plain = [result for result in results if not result["variation"]]
    for split, setting in product(dict.fromkeys(run["split"] for run in plain), SETTINGS):
        mine = [run for run in plain if (run["split"], run["setting"]) == (split, setting)]
        where = setting if split == "test" else f"{setting}, {split}"
        for ours, theirs, name, values, _ in gaps(mine):
            line = f"{where}: {ours} minus {theirs}, {name}: "
            if len(values) >= 2:
                gap = over_runs(values)
                told = f"{verdict(gap)}{_not_worse(name, gap)}"
                yield f"{line}{interval_text(gap)}, {gap.n} seeds: {told}"
            elif name == EQUAL and paired(mine, ours, theirs, accuracy):
                yield f"{line}cannot be told, forward passes lie outside the paces measured"


def _not_worse(name: str, gap: Interval) -> str:
    if not name.startswith("accuracy") or verdict(gap) != "cannot be told":
        return ""
    return f" (not below -0.02: {'yes' if verdict(gap, -0.02) == 'above' else 'no'})"


def table(results: Sequence[Row], *, by_run: bool = False) -> str:
    """Return means over the runs of a setting, arm, split and variation, in Markdown; or each."""
    named = ("setting", "arm", "split", "variation", *(("seed",) if by_run else ()))
    groups: dict[tuple[str, ...], list[Row]] = {}
    for run in results:
        groups.setdefault(tuple(str(run[name]) for name in named), []).append(run)
    head = [*named, "runs", *COLUMNS]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for words, runs in groups.items():
        cells = [_cell(present(of(run) for run in runs)) for of in COLUMNS.values()]
        lines.append("| " + " | ".join([*words, str(len(runs)), *cells]) + " |")
    return "\n".join(lines)


def _mean_of(name: str) -> Callable[[Row], float | None]:
    def of(run: Row) -> float | None:
        values = present(run["canvases"][canvas].get(name) for canvas in CANVASES)
        return fmean(values) if values else None

    return of


def _last(name: str) -> Callable[[Row], float | None]:
    def of(run: Row) -> float | None:
        values = present(run["curves"].get(name, []))
        return fmean(values[-FIRST:]) if values else None

    return of


COLUMNS: dict[str, Callable[[Row], float | None]] = {
    "accuracy": accuracy, "right steps": _mean_of("right_steps"),
    "of right": _mean_of("process_ok"),
    "tokens": _mean_of("tokens"), "forwards": _mean_of("forwards"), "one token": patience,
    "auroc": lambda run: run["canvases"]["short"].get("auroc"),
    "auroc steps": lambda run: run["canvases"]["short"].get("auroc_steps"),
    "validation": lambda run: run["validations"][-1][1] if run["validations"] else None,
    "fell": lambda run: accuracy_fall(run) if run["validations"] else None,
    "elbo_pos": _last("elbo_pos"), "fell by": likelihood_fall,
    "reward": _last("reward"), "moved up": _last("moved_pos"),
    "moved down": _last("moved_neg"), "seconds": lambda run: run["seconds"]["train"],
}  # fmt: skip


def over(values: Sequence[float], unit: str) -> Row:
    """Return a figure: the mean over runs, with a t-interval where there are several.

    A share lies between 0 and 1, which t does not know: its interval ends there.
    """
    if len(values) < 2:
        return figure_of(values[0], f"{unit}; one run", 1)
    found = over_runs(values)
    low, high = found.low, found.high
    if unit.startswith("share of"):
        low, high = max(0.0, low), min(1.0, high)
    return figure_of(found.value, f"{unit}; t over {found.n} runs", found.n, low=low, high=high)


def present(values: Iterable[float | None]) -> list[float]:
    """Return the numbers among values."""
    return [float(value) for value in values if value is not None]


def _cell(values: Sequence[float]) -> str:
    return f"{fmean(values):.3f}" if values else "–"
