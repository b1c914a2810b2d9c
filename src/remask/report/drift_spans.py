"""Answers painted by drift: a text in runs, each with the share of round trips that lost it.

Records name what each response token reads as (`pieces`), and the pieces are laid along the text:
where they do not spell it, nothing is painted. Records of before they did so can be painted only
where the embedded tokenizer wrote them, whose pieces a pattern finds. That is taken for granted
where the number of pieces fits nearly every answer of a file, and done where it fits the answer.
"""

import re
from collections.abc import Sequence
from typing import Any

from remask.denoisers.tokenizer import HALF
from remask.records.record import Record
from remask.tasks.base import PIECES

Run = tuple[str, int | None]  # a stretch of text; per cent of the trips that lost it, if any tried
END = "\u23ce"  # stands for the end token where its name is not recorded
CUT = 20_000  # characters that are shown of one text
FITTING = 0.9  # share of a file's answers that the pattern must fit

_NAMED = re.compile(r"<.+>", re.DOTALL)  # the name of a special token, which is no text
# Controls, invisible signs, what turns the reading order around, halves of characters. Line
# breaks and tabs stay, and so do joiners, without which some scripts cannot be written.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)


def shown(text: str) -> str:
    """Return `text` with every sign written out that would not be seen, or would move others."""
    return _UNSEEN.sub(lambda sign: sign.group().encode("unicode_escape").decode(), text)


def cut(text: str, most: int = CUT) -> str:
    """Return `text` to show, its end left out where it is long, and how much that is."""
    if len(text) <= most:
        return shown(text)
    return f"{shown(text[:most])} [... {len(text) - most:,} more characters]"


def patterned(rows: Sequence[Record]) -> bool:
    """Say whether the pattern of the embedded tokenizer fits the drift of these answers."""
    drifted = [row for row in rows if row.drift]
    fitting = sum(_by_pattern(row) is not None for row in drifted)
    return bool(drifted) and fitting >= FITTING * len(drifted)


def painted(row: Record, *, by_pattern: bool) -> list[Run] | None:
    """Return the answer in runs of equal drift; None where no drift can be laid along it."""
    drift = row.drift
    if not drift:
        return None
    if row.pieces is not None:
        spans = laid(row.text, row.pieces, drift)
    else:
        spans = _by_pattern(row) if by_pattern else None
    return None if spans is None else _merged(spans)


def laid(
    text: str, pieces: Sequence[str], drift: Sequence[float | None]
) -> list[tuple[str, float | None]] | None:
    """Return the text with each piece's drift; None where the pieces do not spell it.

    Tokens that share a character are one span, with the drift of the worst of them.
    """
    if len(pieces) != len(drift):
        return None
    spans: list[tuple[str, float | None]] = []
    halves: list[float | None] = []
    after: list[tuple[str, float | None]] = []  # special tokens that follow halves of a character
    place = 0
    for piece, lost in [*zip(pieces, drift, strict=True), ("", None)]:
        if HALF in piece:
            halves.append(lost)
            continue
        start = _next(text, piece, place) if halves else place
        if text.startswith(piece, start):
            spans += [(text[place:start], _worst(halves)), *after] if halves else []
            spans += [(piece, lost)] if piece else []
            halves, after, place = [], [], start + len(piece)
        elif _NAMED.fullmatch(piece):
            (after if halves else spans).append((piece, lost))
        else:
            return None
    return spans if place == len(text) else None


def _next(text: str, piece: str, place: int) -> int:
    """Return where a piece stands after at least one character; the empty one ends the text."""
    start = text.find(piece, place + 1) if piece else len(text)
    return len(text) if start < 0 else start


def _by_pattern(row: Record) -> list[tuple[str, float | None]] | None:
    pieces = [*re.findall(PIECES, row.text), END]
    if len(pieces) != len(row.drift):
        return None
    return list(zip(pieces, row.drift, strict=True))


def _worst(drift: Sequence[float | None]) -> float | None:
    return max((lost for lost in drift if lost is not None), default=None)


def _merged(spans: Sequence[tuple[str, float | None]]) -> list[Run]:
    """Return the spans in per cent, neighbours of equal drift joined, the text's end left out."""
    runs: list[Any] = []
    length = 0
    for text, lost in spans:
        share = None if lost is None else round(100 * lost)
        seen = text[: CUT - length]
        length += len(seen)
        if runs and runs[-1][1] == share:
            runs[-1] = (runs[-1][0] + seen, share)
        elif seen:
            runs.append((seen, share))
    over = sum(len(text) for text, _ in spans) - length
    more = [(f" [... {over:,} more characters]", None)] if over else []
    return [(shown(text), share) for text, share in runs] + more
