r"""Mathematics in a text: the formulas in `$...$`, `\(...\)`, `\[...\]`, environments and boxes.

Of a formula what counts is its numbers, variables and operators, commands such as `\frac` and
`\pi` among them. Brackets, spacing and words in `\text{...}` do not.
"""

import re
import sys
from collections.abc import Iterator

from remask.answers.markup import answer_span, marks
from remask.answers.number import LITERAL

Span = tuple[int, int]

_MOST = 2000  # characters of one formula; what is longer was never closed
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
    """Return where formulas stand in a text, up to its end; a box is one, within another too."""
    first, last = answer_span(text)
    source = text[first:last]
    boxes = ((mark.start, mark.end) for mark in marks(source) if mark.kind == "box")
    return [(first + start, first + end) for start, end in (*_delimited(source), *boxes)]


def _delimited(text: str) -> Iterator[Span]:
    """Yield what stands between the signs that open and close a formula."""
    ahead: dict[str, int] = {}  # where a closing sign stands next: none is sought twice
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
    """Return where the numbers, variables and operators of its formulas stand in a text."""
    return [
        symbol.span("symbol")
        for start, end in formula_spans(text)
        for symbol in _SYMBOL.finditer(text, start, end)
        if symbol["symbol"] is not None
    ]
