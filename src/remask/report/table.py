"""Tables as data: cells are words or figures. One table, written in five ways.

    text(cell)            "0.931 [0.912, 0.949]", as a terminal and a report show it
    markdown(table)       with markers, where a page quotes what docs/figures.json holds
    columns(table)        for CSV: value, low and high each in a column of their own
    document(table)       for JSON, with units and counts
    html.html_table       for a report

`grid` arranges figures by their fields: a row for every study or method, a column per measure.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remask.analysis.figure import Figure, Figures
from remask.records import jsonl

Cell = str | Figure
Fields = Mapping[str, str]  # of figures: what a row, or a column, has in common
_FORMS = {  # what a unit begins with -> format, factor, what follows
    "share above": ("+.1f", 100, " %"),
    "share": (".1f", 100, " %"),
    "AUROC above": ("+.3f", 1, ""),
    **dict.fromkeys(("points", "log-odds"), ("+.2f", 1, "")),
    "absent": (".0f", 1, " absent"),
    **dict.fromkeys(("samples", "right / wrong", "s per update"), (".2f", 1, "")),
    **dict.fromkeys(("forwards beyond", "forward passes", "tokens"), (".1f", 1, "")),
    **dict.fromkeys(("forwards", "s, "), (".0f", 1, "")),
    "chi-square": (".1f", 1, ""),
    "parameters": (",.0f", 1, ""),
    **dict.fromkeys(
        (
            "AUROC", "AUPR", "ECE", "Brier", "AURC", "PRR", "Spearman", "R^2", "score", "Cramer",
            "median", "RMS", "confidence", "weight", "rate", "10%", "90%", "density", "counted",
        ),
        (".3f", 1, ""),
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table; without the columns that are empty throughout, it is `filled`."""

    name: str  # of its file
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    study: str = ""  # the one it is about; empty where about several
    is_long: bool = False  # a page folds it


def text(cell: Cell, marker: str = "") -> str:
    """Return a cell as text: a figure rounded, with its interval, a marker behind the value."""
    if isinstance(cell, str):
        return cell
    form, scale, end = next(
        (shape for start, shape in _FORMS.items() if cell.unit.startswith(start)), ("g", 1, "")
    )
    shown = f"{scale * cell.value:{form}}{end}{marker}"
    if cell.low is None or cell.high is None or cell.low == cell.high:
        return shown
    return f"{shown} [{scale * cell.low:{form}}, {scale * cell.high:{form}}]"


def grid(
    figures: Figures,
    rows: Mapping[str, Fields],
    heads: Mapping[str, Fields],
    *,
    first: str = "study",
    count: Fields | None = None,
) -> tuple[list[str], list[list[Cell]]]:
    """Return heads and rows: a cell is the figure with the fields of its row and its column.

    `n` is of the figure with the fields of the row and those of `count`. Rows without any figure
    are left out. Where a score is absent of every answer, its AUROC is how many these are.
    """
    lines: list[list[Cell]] = []
    for label, place in rows.items():
        cells = [_known(figures, {**place, **fields}) for fields in heads.values()]
        if any(cells):
            number = counted(figures, {**place, **count}) if count else ""
            lines.append([label, number, *cells])
    return [first, "n", *heads], lines


def filled(
    name: str, title: str, arranged: tuple[list[str], list[list[Cell]]], **about: Any
) -> Table:
    """Return a table without the columns that are empty throughout."""
    heads, rows = arranged
    shown = [k for k in range(len(heads)) if k == 0 or any(row[k] for row in rows)]
    return Table(
        name=name,
        title=title,
        heads=[heads[k] for k in shown],
        rows=[[row[k] for k in shown] for row in rows],
        **about,
    )


def counted(figures: Figures, fields: Fields) -> str:
    """Return the n of a figure, and beside it the problems of its study that were not asked."""
    figure = figures.find(**fields)
    if figure is None or not figure.n:
        return ""
    errors = figures.find(section="errors", measure="errors", study=figure.study)
    if errors is None:
        return str(figure.n)
    return f"{figure.n}, {errors.value:.0f} error{'s' if errors.value > 1 else ''}"


def numeric(value: str) -> tuple[float, str]:
    """Return what the values of a setting are sorted by: numbers as numbers, words after 0."""
    try:
        return float(value), ""
    except ValueError:
        return 0.0, value


def _known(figures: Figures, fields: Fields) -> Cell:
    figure = figures.find(**fields)
    if figure is None and fields["measure"] == "auroc":
        figure = figures.find(**{**fields, "measure": "absent"})
    return figure or ""


def markdown(table: Table, write: Callable[[Figure], str] = text) -> str:
    """Return the table as Markdown; `write` may add a marker to the figures that a page quotes."""

    def written(cell: Cell) -> str:
        if isinstance(cell, Figure):
            return write(cell)
        plain = cell.replace("\n", " ").replace("<", "&lt;")  # models write markup
        return plain.replace("|", "\\|")

    lines = [list(table.heads), ["---"] * len(table.heads)]
    lines += [[written(cell) for cell in row] for row in table.rows]
    shown = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{shown}\n\n{table.note}\n" if table.note else f"{shown}\n"


def columns(table: Table) -> Iterator[list[Any]]:
    """Yield the lines of the table's CSV file."""
    measured = [any(isinstance(cell, Figure) for cell in column) for column in _by_column(table)]
    heads: list[Any] = []
    for head, is_figure in zip(table.heads, measured, strict=True):
        heads += [head, f"{head} low", f"{head} high"] if is_figure else [head]
    yield heads
    for row in table.rows:
        line: list[Any] = []
        for cell, is_figure in zip(row, measured, strict=True):
            if isinstance(cell, Figure):
                line += [cell.value, cell.low, cell.high]
            else:
                line += [cell, "", ""] if is_figure else [cell]
        yield line


def _by_column(table: Table) -> Iterator[list[Cell]]:
    return ([row[k] for row in table.rows] for k in range(len(table.heads)))


def document(table: Table) -> dict[str, Any]:
    """Return the table as JSON has it."""
    rows = [
        [cell if isinstance(cell, str) else {"figure": cell.name, **cell.entry()} for cell in row]
        for row in table.rows
    ]
    return {
        "name": table.name, "title": table.title, "heads": list(table.heads), "rows": rows,
        "note": table.note,
    }  # fmt: skip


def write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as CSV; the file appears whole or not at all."""
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows(rows)
    jsonl.write_text(path, content.getvalue())


def write_tables(tables: Sequence[Table], folder: Path, name: str) -> list[Path]:
    """Write all tables into one Markdown file, and each into a CSV file; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{name}.md"
    jsonl.write_text(page, "\n".join(f"## {t.title}\n\n{markdown(t)}" for t in tables))
    written = [page]
    for table in tables:
        path = folder / f"{name}-{table.name}.csv"
        write_csv(path, columns(table))
        written.append(path)
    return written
