"""Correction as tables: what do further samples gain?"""

from remask.analysis.correction import CURVE, SECTION, correction_figures
from remask.analysis.diagnosis import DIFFICULTIES
from remask.analysis.figure import Figures
from remask.analysis.load_records import Source
from remask.analysis.remarks import vote_notes
from remask.report.plots import correction_plot
from remask.report.studies.base import NamedPlot, Study, pools_drawn
from remask.report.table import Table, filled, grid

METHODS = (
    "standard", "vote3", "vote10", "best_of_3_confidence", "best_of_10_confidence", "best_of_3",
    "best_of_10", "mgrs",
)  # fmt: skip
MEASURES = {measure: {"measure": measure} for measure in ("accuracy", "n_avg", "eff", "forwards")}


def _tables(figures: Figures) -> list[Table]:
    """Return accuracy, gains and samples drawn, then every study by itself."""
    studies = figures.distinct("study", section=SECTION)
    rows = {study: {"section": SECTION, "study": study} for study in studies}
    accuracy = {m: {"method": m, "measure": "accuracy"} for m in METHODS}
    gains = {
        f"above {m}": {"method": f"mgrs_minus_{m}", "measure": "accuracy"}
        for m in METHODS
        if m != "mgrs"
    }
    drawn = {"all problems": {"method": "mgrs", "measure": "n_avg"}}
    drawn |= {x: {"method": "mgrs", "part": x, "measure": "n_avg"} for x in DIFFICULTIES}
    drawn |= {"threshold": {"method": "mgrs", "measure": "threshold"}}
    count = {"method": "standard", "measure": "accuracy"}
    tables = [
        filled("accuracy", "Accuracy", grid(figures, rows, accuracy, count=count)),
        filled(
            "gains",
            "Accuracy of rejection sampling, paired differences",
            grid(figures, rows, gains),
        ),
        filled(
            "samples",
            "Samples that rejection sampling draws, by difficulty",
            grid(figures, rows, drawn),
        ),
    ]
    return [*tables, *(table for study in studies for table in _of_study(figures, study))]


def _plots(source: Source, figures: Figures) -> list[NamedPlot]:
    """Return gain against cost for each study."""
    studies = figures.distinct("study", section=SECTION)
    return [(study, correction_plot(study, figures)) for study in studies]


def _notes(source: Source, figures: Figures) -> list[str]:
    """Return which votes follow the old rule."""
    return vote_notes(source)


def _of_study(figures: Figures, study: str) -> list[Table]:
    place = {"section": SECTION, "study": study}
    names = figures.distinct("method", **place, measure="n_avg")
    methods = {name: {**place, "method": name} for name in names}
    curve = {"section": CURVE, "study": study, "method": "threshold"}
    limits = {x: {**curve, "part": x} for x in figures.distinct("part", **curve)}
    count = {"measure": "accuracy"}
    every = grid(figures, methods, MEASURES, first="method", count=count)
    note = "Points gained are those of accuracy, in per cent."
    other = grid(figures, limits, MEASURES, first="threshold")
    title = f"{study}: rejection sampling at other thresholds"
    return [
        filled(f"methods-{study}", f"{study}: every method", every, note=note, study=study,
               is_long=True),
        filled(f"thresholds-{study}", title, other, study=study, is_long=True),
    ]  # fmt: skip


CORRECTION = Study(
    name="correction",
    figures=correction_figures,
    tables=_tables,
    lists=pools_drawn,
    plots=_plots,
    notes=_notes,
)
