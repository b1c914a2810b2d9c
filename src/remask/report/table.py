"""Tables as data: cells are words, or names of figures. One table, four ways to write it.

    cell(table, name)     "0.931 [0.912, 0.949]", as a terminal shows it
    markdown(table)       with markers, where a page quotes what docs/figures.json holds
    columns(table)        for CSV: value, low and high each in a column of their own
    document(table)       for JSON, with units and counts

Which tables a study has is in `layout`.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from remask.analysis.figures import Figure
from remask.records import jsonl
from remask.report.results_tables import as_text, quote


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of a study."""

    name: str  # of its file
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]  # words, or names of figures
    figures: Mapping[str, Figure] = field(default_factory=dict)  # that the rows name
    note: str = ""
    is_long: bool = False  # a page folds it


def cell(table: Table, word: str) -> str:
    """Return a cell as text, a figure with its interval."""
    figure = table.figures.get(word)
    return word if figure is None else as_text(figure)


def markdown(table: Table, is_documented: Callable[[str], bool] = lambda name: False) -> str:
    """Return the table as Markdown; figures that are documented carry their markers."""

    def written(word: str) -> str:
        if word in table.figures and is_documented(word):
            return quote(table.figures, word)
        text = cell(table, word).replace("\n", " ").replace("<", "&lt;")  # models write markup
        return text.replace("|", "\\|")

    lines = [list(table.heads), ["---"] * len(table.heads)]
    lines += [[written(word) for word in row] for row in table.rows]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{text}\n\n{table.note}\n" if table.note else f"{text}\n"


def columns(table: Table) -> Iterator[list[Any]]:
    """Yield the lines of the table's CSV file."""
    measured = [any(row[k] in table.figures for row in table.rows) for k in range(len(table.heads))]
    heads: list[Any] = []
    for head, is_figure in zip(table.heads, measured, strict=True):
        heads += [head, f"{head} low", f"{head} high"] if is_figure else [head]
    yield heads
    for row in table.rows:
        line: list[Any] = []
        for word, is_figure in zip(row, measured, strict=True):
            figure = table.figures.get(word)
            if figure is not None:
                line += [figure.value, figure.low, figure.high]
            else:
                line += [word, "", ""] if is_figure else [word]
        yield line


def document(table: Table) -> dict[str, Any]:
    """Return the table as JSON has it."""
    rows = [
        [
            {"figure": word, **asdict(table.figures[word])} if word in table.figures else word
            for word in row
        ]
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
    text = "\n".join(f"## {table.title}\n\n{markdown(table)}" for table in tables)
    jsonl.write_text(page, text)
    written = [page]
    for table in tables:
        path = folder / f"{name}-{table.name}.csv"
        write_csv(path, columns(table))
        written.append(path)
    return written
