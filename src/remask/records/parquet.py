"""Rows in and out of files: JSON lines or Parquet, by suffix. Only this module imports pyarrow.

Every column of the input comes out again as it was, in the same order of rows. What one format
cannot hold is said before any work is done. No torch here.
"""

import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal

from remask.errors import InputError, RecordError
from remask.records import jsonl, text_file
from remask.records.jsonl import Row
from remask.settings import checked

Format = Literal["jsonl", "parquet"]
_SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
ADDED = (
    "remask_score", "remask_stderr", "remask_metrics", "remask_drift", "remask_forwards",
    "remask_error",
)  # fmt: skip
SCORER = "remask_scorer"  # added as well where it is not the round trips
# Added as well where a verifier was fitted: which stage settled the answer, with a probability; or
# why the score is the label-free mean.
STAGE, REASON = "remask_stage", "remask_reason"
ACCEPTED = "remask_accepted"  # added as well where a certificate decides


@dataclass(frozen=True, eq=False)
class RowTable:
    """The rows of a file: as objects, or as the pyarrow.Table that knows their exact types.

    Columns of Arrow become Python's only where they are asked for: some of its values, such as
    nanoseconds, Python has no type for, and such a column still comes out as it went in.
    """

    listed: Sequence[Row] | None = None
    arrow: Any = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order of appearance."""
        if self.arrow is not None:
            return tuple(self.arrow.column_names)
        return tuple(dict.fromkeys(name for row in self.listed or () for name in row))

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.arrow.num_rows) if self.arrow is not None else len(self.listed or ())

    @cached_property
    def rows(self) -> list[Row]:
        """The rows with all of their columns."""
        return self.select(self.columns)

    def select(self, names: Sequence[str]) -> list[Row]:
        """Return the rows with those of these columns that they have."""
        if self.arrow is None:
            return [{n: row[n] for n in names if n in row} for row in self.listed or ()]
        present = [name for name in names if name in self.columns]
        values = [_as_python(self.arrow.column(name), name) for name in present]
        return [dict(zip(present, row, strict=True)) for row in zip(*values, strict=True)] or [
            {} for _ in range(len(self))
        ]

    def only(self, rows: range) -> "RowTable":
        """Return the table of these rows, which follow one another."""
        if rows == range(len(self)):
            return self
        return RowTable(self.rows[rows.start : rows.stop])

    def check(self, out: Path) -> None:
        """Refuse an output file of a format that cannot hold these rows."""
        if file_format(out) == "parquet":
            _check_parquet(self.to_arrow())
            return
        for number, row in enumerate(self.rows, 1):
            for name, value in row.items():
                try:
                    json.dumps(value, allow_nan=False)
                except (TypeError, ValueError, RecursionError) as error:
                    raise RecordError(
                        f"row {number} cannot be written as JSON: column {name!r} ({error}); "
                        "choose a .parquet output."
                    ) from None

    def to_arrow(self) -> Any:
        """Return the rows as a pyarrow.Table."""
        if self.arrow is not None:
            return self.arrow
        import pyarrow as pa

        arrays = {}
        for name in self.columns:
            try:
                name.encode()  # half a surrogate pair has no UTF-8
                arrays[name] = pa.array([row.get(name) for row in self.listed or ()])
            except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
                raise RecordError(
                    f"column {name!r} does not fit Parquet ({error}); choose a .jsonl output."
                ) from None
        return pa.table(arrays)

    def write(self, out: Path, added: Sequence[Row], form: Format | None = None) -> None:
        """Write the rows with the added columns, in the format of the suffix by default."""
        if (form or file_format(out)) == "parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(_joined(self.to_arrow(), added), out)
        else:
            lines = (_line({**a, **b}) for a, b in zip(self.rows, added, strict=True))
            out.write_text("".join(lines), encoding="utf-8", newline="")


def _as_python(column: Any, name: str) -> list[Any]:
    """Return the values of a column of Arrow, or raise naming it where Python has none for them."""
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except (pa.ArrowException, ValueError, OverflowError, ImportError, KeyError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise RecordError(
            f"column {name!r} of type {column.type} cannot be read ({reason:.160}); drop it, or "
            "write its values as text."
        ) from None


def _check_parquet(arrow: Any) -> None:
    """Raise where Parquet has no place for a column's type, which Arrow tells only at the end."""
    import pyarrow as pa
    import pyarrow.parquet

    for field in arrow.schema:
        try:
            pyarrow.parquet.write_table(pa.schema([field]).empty_table(), io.BytesIO())
        except pa.ArrowException as error:
            raise RecordError(
                f"column {field.name!r} of type {field.type} does not fit Parquet ({error}); "
                "choose a .jsonl output."
            ) from None


def file_format(path: Path) -> Format:
    """Return the format a file's suffix names, or raise."""
    if path.suffix.lower() not in _SUFFIXES:
        if path.is_file():  # name the format of a compressed file
            with text_file.open_file(path) as file:
                text_file.without_mark(file.read(8), str(path), InputError)
        raise InputError(
            f"{path} has the suffix {path.suffix!r}; use .jsonl (one JSON object per line) or "
            ".parquet."
        )
    return _SUFFIXES[path.suffix.lower()]


@checked
def read_table(path: Path) -> RowTable:
    """Return the rows of a file; a broken one is refused whole, its line named."""
    if file_format(path) == "jsonl":
        return RowTable(list(jsonl.read(path)))
    with text_file.open_file(path) as file:
        return read_parquet(file, str(path))


def read_parquet(file: IO[bytes], name: str) -> RowTable:
    """Return the rows of an open Parquet file; `name` is what a message calls it."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        # Not read_table: it would take a folder called a=1 on the way for a column.
        arrow = pyarrow.parquet.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:  # broken pages are OSErrors without a name
        reason = str(error).strip().splitlines()[0]
        raise RecordError(f"{name} is not a readable Parquet file ({reason}).") from None
    twice = [name for name, count in Counter(arrow.column_names).items() if count > 1]
    if twice:
        raise RecordError(f"{name} has two columns {twice[0]!r}; rename one.")
    return RowTable(arrow=arrow)


@checked
def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as Parquet; the file appears whole or not at all."""
    import pyarrow.parquet

    content = io.BytesIO()
    pyarrow.parquet.write_table(RowTable([*rows]).to_arrow(), content)
    jsonl.replace_file(path, content.getvalue())


def _line(row: Row) -> str:
    """Return a row as a line of JSON, in its own letters where they are valid unicode."""
    text = json.dumps(row, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair can only be kept as an escape
        text = json.dumps(row)
    return text + "\n"


def _joined(arrow: Any, added: Sequence[Row]) -> Any:
    """Return the table with the added columns, typed alike whatever the rows hold."""
    import pyarrow as pa

    named = sorted({name for row in added for name in row["remask_metrics"] or ()})
    metrics = pa.struct([(name, pa.float64()) for name in named]) if named else pa.null()
    number = pa.float64()
    types = (number, number, metrics, pa.list_(number), pa.int64(), pa.string())
    for name, kind in zip(ADDED, types, strict=True):
        values = [None if kind == pa.null() else row[name] for row in added]  # no empty struct
        arrow = arrow.append_column(name, pa.array(values, kind))
    text = pa.string()
    for name, kind in ((SCORER, text), (STAGE, text), (REASON, text), (ACCEPTED, pa.bool_())):
        if any(name in row for row in added):
            arrow = arrow.append_column(name, pa.array([row.get(name) for row in added], kind))
    return arrow
