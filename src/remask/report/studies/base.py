"""What a study is: records -> figures -> tables and plots, and notes on what the records lack.

A study of one's own is an object with these methods, named on the command line as `module:name`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remask.analysis.figure import Figures
from remask.analysis.load_records import Source
from remask.report.plots import Plot
from remask.report.table import Table, document, write_tables


class Study:
    """One question to records. `figures` and `tables` are its own; plots and notes may be none."""

    name: str

    def figures(self, source: Source) -> Figures:
        """Return what the records of a place show, or raise and say what they lack."""
        raise NotImplementedError

    def tables(self, figures: Figures) -> list[Table]:
        """Return the tables of these figures; one without rows is left out."""
        raise NotImplementedError

    def lists(self, source: Source) -> list[Table]:
        """Return tables of the records themselves."""
        return []

    def plots(self, source: Source, figures: Figures) -> list[tuple[str, Plot]]:
        """Return the plots, each with the records it is of."""
        return []

    def notes(self, source: Source, figures: Figures) -> list[str]:
        """Return what the records lack for all of the tables, and what to know of the rest."""
        return []

    def run(self, source: Source, extra: Figures | None = None) -> "StudyResult":
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


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """What one study shows."""

    name: str
    figures: Figures
    tables: Sequence[Table]
    plots: Sequence[tuple[str, Plot]]  # each with the records that it is of
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
