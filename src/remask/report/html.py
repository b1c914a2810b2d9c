"""Parts of a report as HTML: tables, pictures, and text, which nothing in it turns into markup."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from remask.analysis.figure import Figure
from remask.report.drift_spans import shown
from remask.report.labels import PART, worded
from remask.report.render import RIGHT, WRONG
from remask.report.table import Cell, Table, text

_WIDE = 6  # columns of a table from which on intervals stand under their numbers
_NAMED = ("method", "score")  # heads of columns with names of ours
_NUMERIC = re.compile(r"[-+]?\d|$")
_IDENTITY = re.compile(r'(\bid="|url\(#|href="#)')
_FONT = re.compile(r"font-family: [^;\"]*;?")
_PLACES = re.compile(r' (?:d|x|y|transform)="[^"]*"')
_LONG_FRACTION = re.compile(r"(\d\.\d\d)\d+")
_METADATA = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL)
_INKS = {  # what the page's own colours replace, so that pictures follow its light and dark
    "#ffffff": "var(--paper)", "#000000": "currentColor", "#555555": "var(--soft)",
    "#e6e6e6": "var(--line)", "#aaaaaa": "var(--soft)",
    RIGHT.lower(): "var(--right)", WRONG.lower(): "var(--wrong)",
}  # fmt: skip


def html_text(words: str) -> str:
    """Return text with every sign visible and nothing that a browser would take for markup."""
    return escape(shown(words))


def html_table(table: Table) -> str:
    """Return a table as HTML; its cells are escaped."""
    title = html_text(table.title)
    heads = "".join(
        f'<th scope="col"{_align(cell)}>{html_text(worded(head))}</th>'
        for head, cell in zip(table.heads, table.rows[0], strict=True)
    )
    named = table.heads[0] in _NAMED  # else a row is called as its file or its setting is
    body = "".join(f"<tr>{''.join(_cells(row, named=named))}</tr>" for row in table.rows)
    look = ' class="tall"' if len(table.heads) > _WIDE else ""
    note = f'<p class="note">{html_text(table.note)}</p>\n' if table.note else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}"><table{look}>'
        f"<caption>{title}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>\n{note}"
    )


def inlined(svg: str, says: str, prefix: str) -> str:
    """Return a picture as part of the page: its colours, its font, no name used twice."""
    body = _METADATA.sub("", svg[svg.index("<svg") :])
    body = _FONT.sub("", _IDENTITY.sub(rf"\1{prefix}", body))
    body = _PLACES.sub(lambda places: _LONG_FRACTION.sub(r"\1", places[0]), body)
    for ink, own in _INKS.items():
        body = body.replace(ink, own)
    body = re.sub(r' (?:width|height)="[\d.]+pt"', "", body, count=2)
    label = f'<svg role="img" aria-label="{escape(says)}"'
    return f'<figure class="plot">{body.replace("<svg", label, 1)}</figure>\n'


def _cells(row: Sequence[Cell], *, named: bool) -> Iterable[str]:
    first, *others = row
    label = text(first)
    part = ' class="part"' if named and label.startswith(PART) else ""
    yield f'<th scope="row"{part}>{html_text(worded(label) if named else label)}</th>'
    for cell in others:
        value, bracket, ends = text(cell).partition(" [")
        if isinstance(cell, Figure) and bracket:
            yield f'<td>{html_text(value)}<span class="interval"> [{html_text(ends)}</span></td>'
        else:
            yield f"<td{_align(cell)}>{html_text(text(cell))}</td>"


def _align(cell: Cell) -> str:
    return "" if isinstance(cell, Figure) or _NUMERIC.match(cell) else ' class="words"'
