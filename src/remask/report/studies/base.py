"""What a study is: records -> figures -> tables and plots, and notes on what the records lack.

A study of one's own is such an object, named on the command line as `module:name`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remask.analysis.figure import Figures
from remask.analysis.load_records import Source
from remask.report.plots import Plot
from remask.report.table import Table, document, write_tables

NamedPlot = tuple[str, Plot]  # with the records that it is of


def _none(*_: object) -> list[Any]:
    return []


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """What one study shows."""

    name: str
    figures: Figures
    tables: Sequence[Table]
    plots: Sequence[NamedPlot]
    notes: Sequence[str]  # what the records lack, and the command that collects it

    def document(self) -> dict[str, Any]:
        """Return everything but the plots as JSON has it."""
        tables = [document(table) for table in self.tables]
        return {"study": self.name, "tables": tables, "notes": list(self.notes)}

    def write(self, folder: Path) -> list[Path]:
        """Write the tables as Markdown and CSV, the plots as SVG and CSV; return the paths."""
        written = write_tables(self.tables, folder, self.name)
        for records, plot in self.plots:
            path = plot.write(folder, f"{self.name}-{records}-")
            written += [path, path.with_suffix(".csv")]
        return written


@dataclass(frozen=True, kw_only=True)
class Study:
    """One question to records: what is measured, and how that is shown."""

    name: str
    figures: Callable[[Source], Figures]  # raises where the records lack what they need
    tables: Callable[[Figures], list[Table]]  # one without rows is left out
    lists: Callable[[Source], list[Table]] = _none  # of the records themselves
    plots: Callable[[Source, Figures], list[NamedPlot]] = _none
    notes: Callable[[Source, Figures], list[str]] = _none  # what the records lack for all tables

    def run(self, source: Source, extra: Figures | None = None) -> StudyResult:
        """Return all of it; `extra` are figures that need the model, measured apart."""
        figures = self.figures(source) | (extra or Figures()) | source.errors()
        tables = [table for table in self.tables(figures) if table.rows]
        return StudyResult(
            name=self.name,
            figures=figures,
            tables=[*tables, *self.lists(source)],
            plots=self.plots(source, figures),
            notes=self.notes(source, figures),
        )


def pools_drawn(source: Source) -> list[Table]:
    """Return how the pools were drawn, as far as the manifests say."""
    rows = [[study.name, study.drawn] for study in source.studies if study.drawn]
    if not rows:
        return []
    title, heads = "How the answers to a problem were drawn", ["records", "samples"]
    return [Table(name="drawn", title=title, heads=heads, rows=rows, is_long=True)]


def no_validation(source: Source) -> list[str]:
    """Return the note that weights could not be fitted; none where they could."""
    if any(study.validation for study in source.studies):
        return []
    return [
        "No optimized weights: there are no answers to fit them on; collect some beside these "
        "with remask collect --split validation --scored 1."
    ]
