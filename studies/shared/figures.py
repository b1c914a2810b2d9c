"""Reads and writes docs/figures.json, the measured numbers that README and docs quote.

    {"version": 3,
     "runs": {KEY: {"command": ..., "commit": ..., "hardware": ...}},
     "figures": {NAME: {"value": ..., "low": ..., "high": ..., "n": ..., "unit": ..., "run": KEY}}}

The file has one line per run and per figure; fields without a value are left out. In memory a
figure has all fields, and those of its run beside them.
"""

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from remask.errors import RecordError
from remask.records.jsonl import write_text

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "figures.json"
VERSION = 3
MARKER = re.compile(r"<!--fig:(.*?)-->")  # follows a number on a page
MEASURED, ORIGIN = ("value", "low", "high", "n", "unit"), ("command", "commit", "hardware")
_PROMISED = Path(__file__).with_name("figures-kept.txt")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_CHOICE = re.compile(r"\{([^{}]+)\}")
Row = dict[str, Any]


def figure_of(
    value: float,
    unit: str,
    n: int | None = None,
    *,
    low: float | None = None,
    high: float | None = None,
) -> Row:
    """Return a figure without its run."""
    return {"value": value, "low": low, "high": high, "n": n, "unit": unit}


def read(path: Path) -> dict[str, Row]:
    """Return the figures of a file with the fields of their runs; {} if the file does not exist."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.get("version") != VERSION:
        raise RecordError(f"{path}: version must be {VERSION}, got {document.get('version')!r}.")
    empty = dict.fromkeys(MEASURED)
    return {
        name: {**empty, **row, **document["runs"][row["run"]]}
        for name, row in document["figures"].items()
    }


def merge(path: Path, new: Mapping[str, Row], owned: tuple[str, ...] = ()) -> None:
    """Write figures into a file and leave the others.

    Args:
        path: file of figures.
        new: figures with their `run`, `command`, `commit` and `hardware`.
        owned: older figures whose names begin with one of these are removed.
    """
    before = {name: row for name, row in read(path).items() if not name.startswith(owned)}
    runs: dict[str, dict[str, str]] = {}
    figures = {}
    for name, row in (before | dict(new)).items():
        stored = {key: row[key] for key in MEASURED if row.get(key) is not None}
        figures[name] = {**stored, "run": _run_of(row, runs)}
    text = f'{{"version": {VERSION},\n"runs": {_lines(runs)},\n"figures": {_lines(figures)}}}\n'
    write_text(path, text)


def _run_of(row: Row, runs: dict[str, dict[str, str]]) -> str:
    """Return the key of a figure's run in `runs`, and add the run if it is new."""
    origin = {key: str(row[key]) for key in ORIGIN}
    base = re.sub(r"#\d+$", "", row["run"])
    key, count = base, 1
    while runs.setdefault(key, origin) != origin:
        count += 1
        key = f"{base}#{count}"
    return key


def _lines(rows: Mapping[str, Row]) -> str:
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items()))
    return "{\n" + ",\n".join(lines) + "\n}"


def promised(names: Iterable[str]) -> set[str]:
    """Return the names that figures-kept.txt lists; `*` stands for one word of a name."""
    lines = (_CHOICE.sub(_alternatives, line) for line in _PROMISED.read_text("utf-8").split())
    pattern = re.compile("|".join(line.replace("*", "[^/]+") for line in lines))
    return {name for name in names if pattern.fullmatch(name)}


def _alternatives(choice: re.Match[str]) -> str:
    return f"(?:{choice[1].replace(',', '|')})"


def quoted(*pages: str) -> set[str]:
    """Return the names of the figures that texts quote outside of code."""
    return {marker[1] for page in pages for marker in MARKER.finditer(_CODE.sub("", page))}


def quoted_in_docs() -> set[str]:
    """Return the names of the figures that README and docs quote."""
    pages = (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    return quoted(*(page.read_text("utf-8") for page in pages))


def select(figures: Mapping[str, Row], path: Path, *pages: str) -> dict[str, Row]:
    """Return the figures that may be stored in a file.

    These are the figures that the docs or one of these pages quote, that figures-kept.txt lists,
    or that the file has already.
    """
    names = quoted_in_docs() | quoted(*pages) | promised(figures) | set(read(path))
    return {name: row for name, row in figures.items() if name in names}


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Return the command line of a script that can write figures, with the flags for that."""
    parser.add_argument("--figures", type=Path, help="figures.json to merge the results into")
    parser.add_argument("--commit", help="commit that was measured")
    parser.add_argument("--hardware", help="what it was measured on")
    arguments = parser.parse_args(words)
    if arguments.figures and not (arguments.commit and arguments.hardware):
        parser.error("--figures needs --commit and --hardware.")
    return arguments


def save(arguments: argparse.Namespace, figures: Mapping[str, Row], key: str, command: str) -> None:
    """Merge figures into the file that the command line names, if it names one.

    Figures that nobody looks for are left out, see `select`.
    """
    if arguments.figures:
        origin = {"run": key, "command": command, "commit": arguments.commit}
        origin["hardware"] = arguments.hardware
        kept = select(figures, arguments.figures)
        merge(arguments.figures, {name: {**row, **origin} for name, row in kept.items()})
