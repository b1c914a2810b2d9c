"""Figures that only the folder of a whole study allows: greedy accuracy, steps, other batches."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from remask.analysis.bootstrap import Interval, bootstrap
from remask.analysis.figure import WEAKEST_TOKEN, Figure, Figures, Place, of_interval, of_intervals
from remask.analysis.folder import LEVELS, STEPPED, read
from remask.analysis.pool import weakest
from remask.analysis.spurious import least_hurried
from remask.analysis.statistics import proportion
from remask.decide.auroc import auroc
from remask.records.record import Record
from remask.tasks import TASKS

PROCESS, REBATCHED = "process", "rebatched"
_STEPS = {"wordmath": STEPPED, "wordmath-hard": ("pool-wordmath-hard",)}  # files of a study


def folder_figures(folder: Path) -> Figures:
    """Return all of them that the records allow."""
    figures = (*accuracy(folder), *process_figures(folder), *disagreement(folder))
    return Figures(figures)


def accuracy(folder: Path) -> list[Figure]:
    """Return how often greedy answers are right; the trained levels count together."""
    figures = []
    for task in TASKS:
        for level, ending in LEVELS.items():
            greedy = read(folder, f"greedy-{task}-{level}")
            if level == "medium":
                greedy += read(folder, f"greedy-{task}-easy")
            intervals = {"accuracy": (proportion([row.right for row in greedy]), "share")}
            figures += of_intervals(intervals, section="accuracy", study=f"{task}{ending}")
    return figures


def process_figures(folder: Path) -> list[Figure]:
    """Return the figures on wrong steps, of each file and of the least hurried with enough.

    They are of the first seed; the AUROC of the composite over all seeds is in `spurious`.
    """
    figures = []
    for study, files in _STEPS.items():
        by_file = {file: s for file in files if (s := _steps(study, file, read(folder, file)))}
        if by_file:
            chosen = least_hurried({file: own[-1].value for file, own in by_file.items()})
            figures += [figure for own in by_file.values() for figure in own]
            figures += [replace(figure, method="") for figure in by_file[chosen]]
    return figures


def process(
    rows: Iterable[Record],
    score: Callable[[Record], float | None] = lambda row: row.scores.get("roundtrips"),
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[Interval, int] | None:
    """Return the AUROC of telling right steps from wrong ones, and how many had a wrong step.

    Right answers only, all samples that were scored and whose steps have labels, resampled by
    problem.
    """
    labelled = (row for row in rows if row.right and row.process_ok is not None)
    pairs = [(row, value) for row in labelled if (value := score(row)) is not None]
    interval = bootstrap(
        auroc,
        [value for _, value in pairs],
        [bool(row.process_ok) for row, _ in pairs],
        groups=[row.id for row, _ in pairs],
        resamples=resamples,
        seed=seed,
    )
    return None if interval is None else (interval, sum(not row.process_ok for row, _ in pairs))


def _steps(study: str, file: str, rows: Sequence[Record]) -> list[Figure]:
    """Return what the composite and the weakest token say of the steps, then how many are wrong."""
    place: Place = {"section": PROCESS, "study": study, "method": file}
    figures, wrong = [], 0
    for part, measured in (("", process(rows)), (WEAKEST_TOKEN, process(rows, weakest))):
        if measured is not None:
            interval, wrong = measured
            unit = f"AUROC among right answers, {file}"
            figures.append(of_interval(interval, **place, part=part, measure="auroc", unit=unit))
    unit = "right answers with a wrong step"
    counted = Figure(**place, measure="wrong_steps", value=wrong, unit=unit)
    return [*figures, counted] if figures else []


def disagreement(folder: Path) -> list[Figure]:
    """Return the share of answers that another batching changed on this device."""
    again = {row.id: row for row in read(folder, "rebatched")}
    pool = next((f"pool-{row.task}-{row.level}" for row in again.values()), "")
    once = [row for row in read(folder, pool) if row.number == 0]
    pairs = [(row, again[row.id]) for row in once if row.id in again]
    intervals = {
        "text_disagreement": (proportion([a.text != b.text for a, b in pairs]), "share"),
        "score_disagreement": (proportion([_apart(a, b) for a, b in pairs]), "share"),
    }
    return of_intervals(intervals, section=REBATCHED)


def _apart(a: Record, b: Record) -> bool:
    one, other = (row.scores["roundtrips"] for row in (a, b))
    if one is None or other is None:
        return one is not other
    return bool(abs(one - other) > 1e-5)
