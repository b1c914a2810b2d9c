"""Scaling as tables: several models beside one another, and what the paper prints of its own.

The printed rows are data of the library: they stand beside any models that are measured.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from remask.analysis.figure import Figures
from remask.analysis.load_records import Source, read_source
from remask.analysis.remarks import vote_notes
from remask.analysis.scaling import PAPER, PRINTED, SECTION, SHOWN, scaling_figures
from remask.errors import RecordError
from remask.report.studies.base import StudyResult
from remask.report.table import Cell, Table, filled

NAME = "scaling"


def scaling_study(places: Sequence[Path]) -> StudyResult:
    """Return the same studies of several models, one place for each."""
    sources = dict(zip(_model_names(places), map(read_source, places), strict=True))
    figures = scaling_figures(sources)
    tables = [table for table in _tables(figures) if table.rows]
    return StudyResult(
        name=NAME, figures=figures, tables=[*tables, printed_models()], plots=(),
        notes=_notes(sources.values()),
    )  # fmt: skip


def _notes(sources: Iterable[Source]) -> list[str]:
    return list(dict.fromkeys(note for source in sources for note in vote_notes(source)))


def _tables(figures: Figures) -> list[Table]:
    """Return the models beside one another, study by study."""
    models = figures.distinct("model", section=SECTION)
    heads = {"accuracy": {"measure": "accuracy"}}
    heads |= {f"AUROC, {m}": {"method": m, "measure": "auroc"} for m in SHOWN}
    heads |= {"AUPR, roundtrips": {"method": "roundtrips", "measure": "aupr"}}
    tables = []
    for study in figures.distinct("study", section=SECTION):
        rows: list[list[Cell]] = []
        for model in models:
            place = {"section": SECTION, "model": model, "study": study}
            cells = [figures.find(**place, **fields) or "" for fields in heads.values()]
            rows += [[model, *cells]] if any(cells) else []
        tables.append(filled(study, f"{study}: the models", (["model", *heads], rows), study=study))
    return tables


def _model_names(places: Sequence[Path]) -> list[str]:
    """Return a name for each place: its last word, and those above it where that is not enough."""
    for depth in range(1, 4):
        names = ["-".join(place.resolve().with_suffix("").parts[-depth:]) for place in places]
        if len(set(names)) == len(names):
            return names
    raise RecordError(f"{places[0]} is named twice; give one folder or file for each model.")


def printed_models() -> Table:
    """Return what the paper prints of models, with the number of its table."""
    return Table(
        name="published",
        title="What the paper prints, autoregressive models among it",
        heads=["model", "benchmark", "value", "source"],
        rows=PRINTED,
        note=f"Quoted from {PAPER}; not measured here. Table 3 itself quotes others.",
    )
