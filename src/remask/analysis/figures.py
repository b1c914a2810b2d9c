"""A folder of records -> figures with names, as docs/figures.json has them.

Files are found by name, as `benchmarks/core.py` writes them: `pool-TASK-LEVEL`, `greedy-TASK-LEVEL`
and, for word problems, one file per setting of the curves. What is not there is left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from remask.analysis.correction import SIZES, Correction, correction, mgrs, standard, summarise
from remask.analysis.diagnosis import (
    ROUNDTRIPS,
    THRESHOLD,
    Diagnosis,
    Method,
    against_consistency,
    carried,
    composite,
    full_diagnosis,
    gap_by_difficulty,
    judge,
    of_trips,
    process,
)
from remask.analysis.geometry import Geometry, geometry
from remask.analysis.pool import Row, answered, pool_size, pools, weakest
from remask.analysis.statistics import Interval, proportion
from remask.records.record import read_rows
from remask.tasks import TASKS

LEVELS = {"medium": "", "hard": "-hard"}  # of a study, and how its name ends
BUDGET = max(SIZES)
THRESHOLDS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
MAIN = "wordmath-hard"  # the study of the curves, and of figures that are named without one
CHOOSER = "wordmath"  # the task whose threshold is carried over all studies
WRONG_STEPS = 100  # right answers with a wrong step that a figure needs
STEPPED = ("pool-wordmath-medium", "hurried-24", "hurried-12")  # to have them, least hurried first
CURVES = {  # records of word problems, hard -> the setting that departs from the defaults
    **{f"ratio-{x}": f"mask_ratio/{x:g}" for x in (0.0, 0.3, 0.5, 0.7, 0.95, 1.0)},
    **{f"steps-{x}": f"rebuild_steps/{x}" for x in (1, 4, 64, 128)},
    "stratified": "mask_design/stratified",
    "tail-visible": "tail/visible",
    "temperature-1": "rebuild_temperature/1",
}
DEFAULTS = (
    "mask_ratio/0.9",
    "rebuild_steps/16",
    "mask_design/independent",
    "tail/masked",
    "rebuild_temperature/0",
)
TRIPS = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number, as docs/figures.json has it but for where it was measured."""

    value: float
    low: float | None
    high: float | None
    n: int | None
    unit: str

    @staticmethod
    def of(found: Interval, unit: str) -> "Figure":
        """Return an interval with its unit."""
        return Figure(**asdict(found), unit=unit)


Figures = dict[str, Figure]


def figures(folder: Path, thresholds: Mapping[str, float]) -> Figures:
    """Return every figure the records in `folder` allow; `thresholds` are by task."""
    found = accuracy_figures(folder)
    for task in TASKS:
        for level, ending in LEVELS.items():
            study = f"{task}{ending}"
            rows = read(folder, f"pool-{task}-{level}")
            if rows:
                found |= study_figures(study, rows, thresholds[task])
                found |= carried_figures(study, rows, thresholds[CHOOSER])
    return found | single_curves(folder) | process_figures(folder) | disagreement_figures(folder)


def accuracy_figures(folder: Path) -> Figures:
    """Return how often greedy answers are right; the trained levels count together."""
    found: Figures = {}
    for task in TASKS:
        for level, ending in LEVELS.items():
            greedy = read(folder, f"greedy-{task}-{level}")
            if level == "medium":
                greedy += read(folder, f"greedy-{task}-easy")
            if accuracy := proportion([row["right"] for row in greedy]):
                found[f"accuracy/{task}{ending}"] = Figure.of(accuracy, "share")
    return found


def study_figures(study: str, rows: Sequence[Row], threshold: float) -> Figures:
    """Return what the records of one study tell; correction only where every sample was scored."""
    found = (
        diagnosis_figures(study, rows)
        | difficulty_figures(study, rows)
        | geometry_figures(study, rows)
    )
    if all("verify_forwards" in row for row in rows):
        found |= correction_figures(study, rows, threshold)
    return found


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the answers in a file of records, none where it does not exist."""
    path = folder / f"{name}.jsonl"
    return [dict(row) for row in answered(read_rows(path))] if path.exists() else []


def error_figures(study: str, errors: int) -> Figures:
    """Return how many problems of a study could not be asked; nothing where all could."""
    return {f"errors/{study}": plain(errors, "problems not asked")} if errors else {}


def diagnosis_figures(study: str, rows: Sequence[Row]) -> Figures:
    """Return how well each method told right from wrong, and the gap to self-consistency."""
    found: Figures = {}
    for row in full_diagnosis(rows):
        found |= measured(f"diagnosis/{study}/{row.method}", row)
    base = proportion([pool[0]["right"] for pool in pools(rows)])
    if base is not None:
        found[f"diagnosis/{study}/base_rate"] = Figure.of(base, "share")
    gap = against_consistency(rows)
    if gap is not None:
        name = f"diagnosis/{study}/roundtrips_minus_consistency/auroc"
        found[name] = Figure.of(gap[1], f"AUROC above {gap[0]}, paired")
    return found


def measured(name: str, row: Diagnosis) -> Figures:
    """Return all that was measured of one method."""
    intervals = {
        "auroc": (row.auroc, "AUROC"), "aupr": (row.aupr, "AUPR"), "ece": (row.ece, "ECE"),
        "brier": (row.brier, "Brier score"), "aurc": (row.aurc, "AURC"), "prr": (row.prr, "PRR"),
        "mean_right": (row.mean_right, "score"), "mean_wrong": (row.mean_wrong, "score"),
        f"precision_at_{THRESHOLD:g}": (row.precision, "share"),
        f"recall_at_{THRESHOLD:g}": (row.recall, "share"),
    }  # fmt: skip
    for coverage, accuracy in row.accuracy_at.items():
        intervals[f"accuracy_at_coverage_{coverage}"] = (accuracy, "share")
    found = present(name, intervals) | {f"{name}/forwards": plain(row.forwards, "forwards")}
    if row.absent:
        found[f"{name}/absent"] = plain(row.absent, "absent")
    return found


def difficulty_figures(study: str, rows: Sequence[Row]) -> Figures:
    """Return the gap to self-consistency on hard, middle and easy problems."""
    found: Figures = {}
    for row in gap_by_difficulty(rows):
        if row.gap is not None:
            name = f"diagnosis/{study}/roundtrips_minus_consistency/{row.difficulty}/auroc"
            low, high = row.shares
            unit = f"AUROC above {row.consistency}, paired; {low:.0%} to {high:.0%} of others right"
            found[name] = Figure.of(row.gap, unit)
    return found


def carried_figures(study: str, rows: Sequence[Row], threshold: float) -> Figures:
    """Return what the threshold that one task's validation chose does in this study."""
    [row] = carried({study: rows}, threshold)
    intervals = {
        "coverage": (row.coverage, "share"), "precision": (row.precision, "share"),
        "recall": (row.recall, "share"),
    }  # fmt: skip
    found = present(f"carried/{study}", intervals)
    return found | {"carried/threshold": plain(threshold, "score")}


def geometry_figures(study: str, rows: Sequence[Row]) -> Figures:
    """Return the geometry of the standard answers; the main study's has no study in its names."""
    found = geometry(rows)
    if found is None:
        return {}
    name = "geometry" if study == MAIN else f"geometry/{study}"
    intervals = {
        "spearman": (found.spearman, "Spearman"),
        "spearman_null": (found.spearman_null, "Spearman, metrics shuffled"),
        "spearman_confidence": (found.spearman_confidence, "Spearman"),
        "r2": (found.r2, "R^2"), "density_ratio": (found.density_ratio, "right / wrong"),
    }  # fmt: skip
    return present(name, intervals) | _zones(name, found) | _separation(name, found)


def _zones(name: str, found: Geometry) -> Figures:
    zones = {"hallucination_zone": found.hallucination, "sparse_zone": found.sparse}
    kept = {f"{name}/{zone}": corner for zone, corner in zones.items() if corner is not None}
    return {zone: Figure.of(corner.share, "share") for zone, corner in kept.items()} | {
        f"{zone}_expected": plain(corner.expected, "share") for zone, corner in kept.items()
    }


def _separation(name: str, found: Geometry) -> Figures:
    told: Figures = {}
    if found.boundary is not None:
        told[f"{name}/boundary"] = plain(found.boundary.density, "density", found.n)
    if found.chi2 is not None:
        unit = f"chi-square, df {found.chi2.df}"
        told[f"{name}/chi2"] = plain(found.chi2.statistic, unit, found.n)
        told[f"{name}/cramers_v"] = plain(found.chi2.cramers_v, "Cramer's V", found.n)
    return told


def correction_figures(study: str, rows: Sequence[Row], threshold: float) -> Figures:
    """Return what each method makes of the pools, and rejection sampling at other thresholds."""
    found: Figures = {}
    for row in correction(rows, threshold, BUDGET):
        found |= _columns(f"correction/{study}/{row.method}", row)
    found[f"correction/{study}/mgrs/threshold"] = plain(threshold, "score")
    pooled = pools(rows)
    first, budget = [standard(pool) for pool in pooled], min(BUDGET, pool_size(pooled))
    for limit in THRESHOLDS:
        made = [mgrs(pool, limit, budget) for pool in pooled]
        found |= _columns(f"curve/{study}/threshold/{limit:g}", summarise("mgrs", first, made))
    return found


def _columns(name: str, row: Correction) -> Figures:
    intervals = {
        "accuracy": (row.accuracy, "share"), "n_avg": (row.n_avg, "samples"),
        "eff": (row.eff, "points per further sample"), "forwards": (row.forwards, "forwards"),
    }  # fmt: skip
    return present(name, intervals)


def present(name: str, intervals: Mapping[str, tuple[Interval | None, str]]) -> Figures:
    """Return the figures of what was measured, each with its unit."""
    return {
        f"{name}/{key}": Figure.of(interval, unit)
        for key, (interval, unit) in intervals.items()
        if interval is not None
    }


def single_curves(folder: Path) -> Figures:
    """Return the AUROC of the round trips under other settings, on the same answers."""
    usual = [row for row in read(folder, f"pool-{MAIN}") if row["number"] == 0]
    found = _curve(MAIN, DEFAULTS, usual, ROUNDTRIPS)
    for file, setting in CURVES.items():
        found |= _curve(MAIN, (setting,), read(folder, file), ROUNDTRIPS)
    many = read(folder, f"trips-{max(TRIPS)}")
    for trips in TRIPS:
        found |= _curve(MAIN, (f"trips/{trips}",), many, of_trips(trips))
    return found


def _curve(study: str, settings: Iterable[str], rows: Sequence[Row], method: Method) -> Figures:
    if not rows:
        return {}
    told = judge(method, pools(rows))
    found: Figures = {}
    for setting in settings:
        name = f"curve/{study}/{setting}"
        if told.auroc is not None:
            found[f"{name}/auroc"] = Figure.of(told.auroc, "AUROC")
        found[f"{name}/forwards"] = plain(told.forwards, "forwards")
    return found


def process_figures(folder: Path) -> Figures:
    """Return the figures on wrong steps; the named one is of the least hurried sampling it can be.

    That is the first of its files that has enough wrong steps, or the one with most.
    """
    sources = {
        "": STEPPED,
        "-hard": ("pool-wordmath-hard",),
    }
    found: Figures = {}
    for ending, files in sources.items():
        name = f"process/wordmath{ending}"
        told = {file: steps for file in files if (steps := _steps(read(folder, file), file))}
        for file, steps in told.items():
            found |= {f"{name}/{file}/{key}": figure for key, figure in steps.items()}
        if told:
            wrong = {file: steps["wrong_steps"].value for file, steps in told.items()}
            enough = [file for file in told if wrong[file] >= WRONG_STEPS]
            chosen = enough[0] if enough else max(wrong, key=wrong.__getitem__)
            found |= {f"{name}/{key}": figure for key, figure in told[chosen].items()}
    return found


def _steps(rows: Sequence[Row], file: str) -> Figures:
    """Return what the composite and the weakest token tell of the steps; nothing where neither."""
    found: Figures = {}
    for key, score in (("auroc", composite), ("weakest_token/auroc", weakest)):
        if told := process(rows, score):
            interval, wrong = told
            found[key] = Figure.of(interval, f"AUROC among right answers, {file}")
            found["wrong_steps"] = plain(wrong, "right answers with a wrong step")
    return found


def disagreement_figures(folder: Path) -> Figures:
    """Return the share of answers that another batching changed on this device."""
    again = {row["id"]: row for row in read(folder, "rebatched")}
    once = [row for row in read(folder, "pool-wordmath-hard") if row["number"] == 0]
    pairs = [(row, again[row["id"]]) for row in once if row["id"] in again]
    texts = proportion([a["text"] != b["text"] for a, b in pairs])
    scores = proportion([_apart(a, b) for a, b in pairs])
    if texts is None or scores is None:
        return {}
    return {
        "rebatched/text_disagreement": Figure.of(texts, "share"),
        "rebatched/score_disagreement": Figure.of(scores, "share"),
    }


def _apart(a: Row, b: Row) -> bool:
    one, other = (row["scores"]["roundtrips"] for row in (a, b))
    if one is None or other is None:
        return one is not other
    return bool(abs(one - other) > 1e-5)


def plain(value: float, unit: str, n: int | None = None) -> Figure:
    """Return a number that has no interval."""
    return Figure(value=value, low=None, high=None, n=n, unit=unit)
