"""The frontier as tables and a picture: AUROC against what a score costs beyond the answer."""

from remask.analysis.figure import Figures
from remask.analysis.load_records import Source
from remask.report.studies.base import NamedPlot, Study, no_validation, pools_drawn
from remask.report.table import Fields, Table, filled, grid
from studies.frontier.carried import came_from
from studies.frontier.measure import (
    DIFFERENCES,
    FEWEST,
    LENGTH,
    MEAN,
    WITHIN,
    frontier_figures,
    labels_part,
)
from studies.frontier.plot import frontier_plot
from studies.shared.fits import DRAWS, LABELS, RECIPES, USUAL
from studies.shared.rejection import MGRS, MGRS_METHODS, MGRS_SET
from studies.shared.sets import SECTION

LABELS_OF = {
    "roundtrips": "round trips", "probe": "one probe", "verifier": "verifier, label-free",
    "verifier_at_hand": "verifier, answers at hand",
    "fitted20": "fitted, 20 forwards", "fitted85": "fitted, 85 forwards",
    "sequential": "sequential", "sequential_full": "sequential, every stage",
    "agreement2": "2 samples", "agreement3": "3 samples", "agreement5": "5 samples",
    "agreement10": "10 samples", "agreement10_fitted": "10 samples, fitted", "dise": "DiSE",
    "tre": "TRE", "dcocoa": "D-CoCoA", "critical_count": "critical tokens",
    "temporal_vote": "temporal vote", "temporal_entropy": "temporal entropy",
    "denoising_entropy": "denoising entropy", "self_evaluation": "self-evaluation",
}  # fmt: skip
DIFFERENCE_LABELS = {
    name: f"{LABELS_OF[a]} - {LABELS_OF[b]}" for name, (a, b) in DIFFERENCES.items()
}
MAIN = {
    "extra forwards": {"measure": "extra_forwards"},
    "AUROC": {"measure": "auroc"},
    "at equal length": {"measure": LENGTH},
    "within a problem": {"measure": WITHIN},
    "sd over labels": {"measure": "auroc_sd"},
}


def _tables(figures: Figures) -> list[Table]:
    """Return the means of every method, then sets, differences, labels, and what was carried."""
    sets = [s for s in figures.distinct("study", section=SECTION) if s not in (MEAN, MGRS)]
    return [
        _main(figures, sets),
        _differences(figures),
        _labels(figures),
        _rejection(figures),
        *_by_set(figures, sets),
        *_carried(figures, sets),
    ]


def _main(figures: Figures, sets: list[str]) -> Table:
    """Return the one table: each method's mean over the sets."""
    place = {"section": SECTION, "study": MEAN}
    rows = {_label(m): {**place, "method": m} for m in _methods(figures, **place)}
    few = [s for s in sets if (figures[f"{SECTION}/{s}/rarer"].value) < FEWEST]
    note = (
        f"Left out, with fewer than {FEWEST} of the rarer outcome: {', '.join(few)}." if few else ""
    )
    cells = grid(figures, rows, MAIN, first="score", count={"measure": "auroc"})
    return filled("mean", "Mean over the sets: AUROC and cost", cells, note=note)


def _differences(figures: Figures) -> Table:
    place = {"section": SECTION, "study": MEAN}
    rows, parts = {}, [p for p in figures.distinct("part", **place) if "_" in p]
    for name, label in DIFFERENCE_LABELS.items():
        rows[label] = {**place, "method": name, "measure": "auroc"}
        rows[f"{label}, equal length"] = {**place, "method": name, "measure": LENGTH}
    shown = [p for p in parts if p.startswith(("without_", "only_", labels_part(max(LABELS))))]
    heads = {"all sets": {"part": ""}} | {p.replace("_", " "): {"part": p} for p in shown}
    return filled(
        "differences",
        "Mean AUROC, paired differences",
        grid(figures, rows, heads, first="difference"),
    )


def _labels(figures: Figures) -> Table:
    """Return the curve over labels."""
    place = {"section": SECTION, "study": MEAN, "measure": "auroc"}
    rows = {_label(recipe.name): {**place, "method": recipe.name} for recipe in RECIPES}
    heads = {f"{n} labels": {"part": "" if n == USUAL else labels_part(n)} for n in LABELS}
    note = f"Each the mean of {DRAWS} draws of labels."
    return filled("labels", "Mean AUROC by the number of labels per set",
                  grid(figures, rows, heads, first="score"), note=note)  # fmt: skip


def _rejection(figures: Figures) -> Table:
    place = {"section": SECTION, "study": MGRS}
    rows = {_label(m): {**place, "method": m} for m in MGRS_METHODS}
    for method in MGRS_METHODS[1:]:
        rows[f"{_label(method)} - round trips"] = {**place, "method": f"{method}_minus_roundtrips"}
        rows[f"{_label(method)} / round trips"] = {**place, "method": f"{method}_over_roundtrips"}
    heads = {m: {"measure": m} for m in ("accuracy", "n_avg", "forwards", "threshold")}
    title = "Rejection sampling by each score, same pools"
    return filled("rejection", title, grid(figures, rows, heads, first="score"))


def _by_set(figures: Figures, sets: list[str]) -> list[Table]:
    """Return every method on every set, a table for each measure."""
    heads = {name: {"study": name} for name in sets}
    measures = {
        "auroc": "AUROC", LENGTH: "AUROC over pairs of equal length",
        WITHIN: "AUROC within a problem",
        "aurc": "AURC", "ece": "ECE", "extra_forwards": "forwards beyond writing the answer",
    }  # fmt: skip
    tables = []
    for measure, title in measures.items():
        place = {"section": SECTION, "measure": measure}
        rows = {_label(m): {**place, "method": m} for m in _methods(figures, section=SECTION)}
        cells = grid(figures, rows, heads, first="score")
        tables.append(filled(f"sets-{measure}", f"{title}, by set", cells, is_long=True))
    return tables


def _carried(figures: Figures, sets: list[str]) -> list[Table]:
    """Return what fits and thresholds of one set, a row, do on every other, a column."""
    tables = []
    shown = {"auroc": ("fitted20", "fitted85", "sequential"),
             "precision": ("roundtrips", "probe", "verifier")}  # fmt: skip
    titles = {
        "auroc": "AUROC of the fit of another set",
        "precision": "precision above the threshold of another set",
    }
    for measure, methods in shown.items():
        for method in methods:
            rows: dict[str, Fields] = {
                name: {"section": SECTION, "method": method, "measure": measure,
                       "part": came_from(name)}
                for name in sets
            }  # fmt: skip
            cells = grid(
                figures, rows, {f"on {name}": {"study": name} for name in sets}, first="from"
            )
            title = f"{_label(method)}: {titles[measure]}"
            tables.append(filled(f"carried-{method}", title, cells, is_long=True))
    return tables


def _methods(figures: Figures, **place: str) -> list[str]:
    """Return the methods that have a cost, those with a label of their own first."""
    listed = figures.distinct("method", **place, measure="extra_forwards")
    return sorted(
        listed, key=lambda m: list(LABELS_OF).index(m) if m in LABELS_OF else len(LABELS_OF)
    )


def _label(method: str) -> str:
    return LABELS_OF.get(method, method)


def _plots(source: Source, figures: Figures) -> list[NamedPlot]:
    """Return the Pareto front of the means."""
    plot = frontier_plot(figures, LABELS_OF)
    return [] if plot is None else [(MEAN, plot)]


def _notes(source: Source, figures: Figures) -> list[str]:
    """Return what further records would add."""
    rows = [row for study in source.studies for row in study.rows]
    notes = no_validation(source)
    if not any(row.features for row in rows):
        notes.append("No probes: these records have no features.")
    if not figures.distinct("method", section=SECTION, study=MGRS):
        notes.append(
            f"No rejection sampling: it needs {MGRS_SET} with every sample scored, and validation "
            "answers; remask collect --samples 10 --scored 10."
        )
    return notes


STUDY = Study(
    name="frontier",
    figures=frontier_figures,
    tables=_tables,
    lists=pools_drawn,
    plots=_plots,
    notes=_notes,
)
