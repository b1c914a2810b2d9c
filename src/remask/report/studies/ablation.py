"""Ablation as tables: the settings of the round trips, and the mixtures of their metrics."""

from remask.analysis.ablation import OPTIMIZED, ablation_figures
from remask.analysis.curves import SECTION
from remask.analysis.figure import Figures
from remask.analysis.folder import DEFAULTS
from remask.analysis.load_records import Source
from remask.report.plots import curve_plots
from remask.report.studies.base import NamedPlot, Study, no_validation
from remask.report.table import Cell, Table, filled, grid, numeric

MIXTURES = ("alone", "composite", "without")
POINTS = {
    "AUROC": "auroc", "AUPR": "aupr", "above the default": "above_default",
    "forwards": "forwards", "of these to verify": "verify_forwards", "seeds": "seeds",
}  # fmt: skip
JUDGED = {"AUROC": "auroc", "AUPR": "aupr", "above uniform": "above_uniform"}


def _tables(figures: Figures) -> list[Table]:
    """Return the settings of the round trips, then the mixtures of metrics."""
    studies = figures.distinct("study", section=SECTION)
    note = "Each costs what the round trips cost: their metrics are read from the same trips."
    heads = {head: {"measure": measure} for head, measure in JUDGED.items()}
    long = [
        filled(
            f"metrics-{study}", f"{study}: mixtures of metrics",
            grid(figures, _mixtures(figures, study), heads, first="metrics"),
            note=note, study=study, is_long=True,
        )
        for study in studies
    ]  # fmt: skip
    shared = [_metrics(figures, studies), *long, _weights(figures, studies)]
    return [*setting_tables(figures), *shared]


def _plots(source: Source, figures: Figures) -> list[NamedPlot]:
    """Return the curves of every numeric setting."""
    return [(s.name, plot) for s in source.studies for plot in curve_plots(s.name, figures)]


def _notes(source: Source, figures: Figures) -> list[str]:
    """Return what weights and curves would need."""
    if any(figure.measure == "above_default" for figure in figures.values()):
        return no_validation(source)
    return [
        *no_validation(source),
        "No curves: collect the same problems into further files with one of --mask-ratio, "
        "--rebuild-steps, --trips 8, --mask-design and --rebuild-temperature changed.",
    ]


def setting_tables(figures: Figures) -> list[Table]:
    """Return a table for each setting of each study that has a curve of it."""
    heads = {head: {"measure": measure} for head, measure in POINTS.items()}
    tables = []
    for study in figures.distinct("study", section=SECTION):
        for setting in DEFAULTS:
            place = {"section": SECTION, "study": study, "method": setting}
            values = sorted(figures.distinct("part", **place), key=numeric)
            rows = {value: {**place, "part": value} for value in values}
            cells = grid(figures, rows, heads, first=setting, count={"measure": "auroc"})
            tables.append(filled(f"{setting}-{study}", f"{study}: {setting}", cells, study=study))
    return tables


def _mixtures(figures: Figures, study: str) -> dict[str, dict[str, str]]:
    """Return every mixture of a study by its name, with its fields."""
    place = {"section": SECTION, "study": study}
    return {
        f"{kind}/{part}": {**place, "method": kind, "part": part}
        for kind in MIXTURES
        for part in figures.distinct("part", **place, method=kind)
    }


def _metrics(figures: Figures, studies: list[str]) -> Table:
    """Return the mixtures of all studies beside one another."""
    by_study = {study: _mixtures(figures, study) for study in studies}
    names = dict.fromkeys(name for mixtures in by_study.values() for name in mixtures)
    rows: list[list[Cell]] = []
    for name in names:
        places = (by_study[study].get(name) for study in studies)
        cells = [place and figures.find(**place, measure="auroc") for place in places]
        rows.append([name, *(cell or "" for cell in cells)])
    title = "AUROC of every mixture of metrics"
    return filled("metrics", title, (["metrics", *studies], rows))


def _weights(figures: Figures, studies: list[str]) -> Table:
    """Return the optimized weights of each study."""
    method, part = OPTIMIZED
    place = {"section": SECTION, "method": method, "part": part, "measure": "weight"}
    rows = {study: {**place, "study": study} for study in studies}
    heads = {metric: {"metric": metric} for metric in figures.distinct("metric", **place)}
    return filled("weights", "Optimized weights", grid(figures, rows, heads))


ABLATION = Study(
    name="ablation", figures=ablation_figures, tables=_tables, plots=_plots, notes=_notes
)
