"""Figures as a page quotes them: rounded, with the marker that ties them to docs/figures.json."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from remask.analysis.figure import Figure
from remask.report.claims import read_claims
from remask.report.table import text
from studies.shared.figures import MARKER


def arrow(figure: Figure, bound: float) -> str:
    """Return on which side of the bound the interval lies, nothing where the bound is in it."""
    low, high = figure.ends
    return " ↑" if low > bound else " ↓" if high < bound else ""


def quote(figure: Figure, *, interval: bool = False) -> str:
    """Return a figure as its unit is written, with its marker."""
    shown = figure if interval else replace(figure, low=None, high=None)
    return text(shown, f"<!--fig:{figure.name}-->")


def rounded(figure: Figure, digits: int = 3, *, ends: bool = True) -> str:
    """Return a figure with so many digits, its marker and its interval, whatever its unit."""
    shown = f"{figure.value:,.{digits}f}<!--fig:{figure.name}-->"
    if not ends or figure.low is None or figure.high is None or figure.low == figure.high:
        return shown
    return f"{shown} [{figure.low:.{digits}f}, {figure.high:.{digits}f}]"


def wrapped(paragraph: str, width: int) -> str:
    """Return a paragraph in lines of at most so many characters; markers are none to a reader."""
    lines: list[list[str]] = [[]]
    room = width
    for word in re.split(r"\s+(?!%)", paragraph.strip()):
        length = len(MARKER.sub("", word)) + 1
        if length > room + 1 and lines[-1]:
            lines.append([])
            room = width
        lines[-1].append(word)
        room -= length
    return "\n".join(" ".join(line) for line in lines)


def target_rows(path: Path, figures: Mapping[str, Figure]) -> list[list[str]]:
    """Return a row for each target that was measured: its text, the figure, the verdict."""
    rows = []
    for target in read_claims(path):
        figure = figures.get(target.names()[0])
        if figure is not None:
            word = "holds" if target.judge(figures).held else "fails"
            rows.append([target.claim, rounded(figure, target.digits), word])
    return rows


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, nothing where it has no rows."""
    lines = [heads, ["---"] * len(heads), *rows] if rows else []
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
