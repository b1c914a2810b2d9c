"""Geometry as tables: where do right answers lie, and does one step bring answers together?"""

from remask.analysis.figure import Figures
from remask.analysis.geometry import SECTION, geometry_figures
from remask.analysis.load_records import Source
from remask.analysis.pool import pools
from remask.report.plots import plane_plot
from remask.report.studies.base import NamedPlot, Study
from remask.report.table import Cell, Table, filled, grid

PARTS = {
    "plane": ("Density against quality", {
        "Spearman": "spearman", "shuffled": "spearman_null", "R^2": "r2",
        "Spearman with confidence": "spearman_confidence",
    }),
    "separation": ("Density of right and of wrong answers", {
        "density, right / wrong": "density_ratio", "boundary": "boundary",
        "chi-square": "chi2", "Cramer's V": "cramers_v",
    }),
    "zones": ("The two corners against independence", {
        "dense, low quality": "hallucination_zone",
        "expected": "hallucination_zone_expected",
        "sparse, high quality": "sparse_zone", "expected there": "sparse_zone_expected",
    }),
}  # fmt: skip
NOTES = {
    "separation": "Cramer's V: how strongly being right and density go together, from 0, not at "
    "all, to 1; unlike chi-square it does not grow with the number of answers."
}
RATES = ("contraction", "bound_", "residual_")


def _tables(figures: Figures) -> list[Table]:
    """Return density and quality, and the contraction where it was measured."""
    studies = figures.distinct("study", section=SECTION)
    rows = {study: {"section": SECTION, "study": study} for study in studies}
    tables = []
    for name, (title, measures) in PARTS.items():
        heads = {head: {"measure": measure} for head, measure in measures.items()}
        count = {"measure": next(iter(measures.values()))}
        cells = grid(figures, rows, heads, count=count)
        tables.append(filled(name, title, cells, note=NOTES.get(name, "")))
    rates: list[list[Cell]] = [
        [f"{figure.study}/{figure.measure}", figure, figure.unit]
        for figure in figures.values()
        if figure.section == SECTION and figure.measure.startswith(RATES)
    ]
    listed = (["figure", "value", "what"], rates)
    return [*tables, filled("contraction", "Contraction and Proposition 4", listed)]


def _plots(source: Source, figures: Figures) -> list[NamedPlot]:
    """Return the plane of density and quality of each study."""
    return [
        (study.name, plot)
        for study in source.studies
        for plot in plane_plot(study.name, [pool[0] for pool in pools(study.rows)])
    ]


GEOMETRY = Study(name="geometry", figures=geometry_figures, tables=_tables, plots=_plots)
