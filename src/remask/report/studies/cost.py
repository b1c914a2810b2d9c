"""Cost as tables: the paper's formulas against counted forwards."""

from remask.analysis.cost import SECTION, cost_figures
from remask.analysis.figure import Figures
from remask.report.studies.base import Study
from remask.report.table import Table, filled, grid

MEASURES = {"formula": "formula", "counted": "counted", "counted / formula": "ratio"}


def _tables(figures: Figures) -> list[Table]:
    """Return what was counted, then every study beside the formulas."""
    studies = figures.distinct("study", section=SECTION)
    rows = {study: {"section": SECTION, "study": study} for study in studies}
    costs = figures.distinct("method", section=SECTION)
    counted = {cost: {"method": cost, "measure": "counted"} for cost in costs}
    heads = {head: {"measure": measure} for head, measure in MEASURES.items()}
    tables = [filled("counted", "Counted forwards per problem", grid(figures, rows, counted))]
    for study, place in rows.items():
        own = {c: {**place, "method": c} for c in figures.distinct("method", **place)}
        cells = grid(figures, own, heads, first="cost")
        title = f"{study}: forwards per problem"
        tables.append(filled(study, title, cells, study=study, is_long=True))
    return tables


COST = Study(name="cost", figures=cost_figures, tables=_tables)
