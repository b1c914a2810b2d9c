r"""Find formulas in `$...$`, `\(...\)`, `\[...\]`, environments and boxes, and their symbols.

The symbols are numbers, variables, operators and commands such as `\frac` and `\pi`; brackets,
spacing and words in `\text{...}` are not symbols.
"""

import re
import sys
from collections.abc import Iterator

from remask.answers.markup import answer_span, marks
from remask.answers.number import LITERAL

Span = tuple[int, int]

_MOST = 2000  # characters of one formula; a longer one was never closed
_NOWHERE = sys.maxsize
# A dollar before a blank, or one with a figure after it, is money.
_OPENING = re.compile(
    rf"""(?<![\\$])\$(?![\s$])(?P<inline>[^$]{{0,{_MOST}}}?[^\s\\$])\$(?![0-9$])
    |(?<!\\)\$\$|\\\(|(?<!\\)\\\[|\\begin\{{(?:align|equation|gather|eqnarray)\*?\}}""",
    re.VERBOSE,
)
_CLOSING = {"$$": "$$", r"\(": r"\)", r"\[": r"\]"}
_WORDS = "text|textbf|textit|textrm|mbox|hbox|begin|end|tag|label|operatorname|phantom"
_LAYOUT = (
    "left|right|middle|[bB]igg?[lrm]?|q?quad|displaystyle|textstyle|limits|nonumber|boxed|fbox"
    "|[hv]space|mathrm|mathbf|mathit|mathsf|mathbb|mathcal|bf|rm"
)
_SYMBOL = re.compile(
    rf"\\(?:{_WORDS})\*?\s*\{{[^{{}}]*\}}|\\(?:{_LAYOUT})(?![A-Za-z])\*?|\\[^A-Za-z]"
    rf"|(?P<symbol>\\[A-Za-z]+|{LITERAL}|[A-Za-z]+|[-+*/=<>^!|±×÷·≤≥≠√−])"
)


def formula_spans(text: str) -> list[Span]:
    """Return the spans of the formulas of a text; a box is a formula, even inside another one."""
    first, last = answer_span(text)
    source = text[first:last]
    boxes = ((mark.start, mark.end) for mark in marks(source) if mark.kind == "box")
    return [(first + start, first + end) for start, end in (*_delimited(source), *boxes)]


def _delimited(text: str) -> Iterator[Span]:
    """Yield the spans between the delimiters of formulas."""
    ahead: dict[str, int] = {}  # the next place of each closing sign
    place = 0
    while opening := _OPENING.search(text, place):
        if opening["inline"] is not None:
            yield opening.span("inline")
            place = opening.end()
            continue
        inside, opened = opening.end(), opening.group()
        sign = _CLOSING.get(opened) or opened.replace("begin", "end")
        if ahead.get(sign, -1) <= inside:
            closing = text.find(sign, inside + 1)
            ahead[sign] = _NOWHERE if closing < 0 else closing
        if ahead[sign] - inside <= _MOST:
            yield inside, ahead[sign]
            place = ahead[sign] + len(sign)
        else:
            place = opening.start() + 1


def symbol_spans(text: str) -> list[Span]:
    """Return the spans of the numbers, variables and operators in the formulas of a text."""
    return [
        symbol.span("symbol")
        for start, end in formula_spans(text)
        for symbol in _SYMBOL.finditer(text, start, end)
        if symbol["symbol"] is not None
    ]
