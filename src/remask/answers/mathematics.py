r"""Mathematics in a text: the formulas in `$...$`, `\(...\)`, `\[...\]`, environments and boxes.

Of a formula what counts is its numbers, variables and operators, commands such as `\frac` and
`\pi` among them. Brackets, spacing and words in `\text{...}` do not.
"""

import re

from remask.answers.markup import answer_span, marks
from remask.answers.number import LITERAL

Span = tuple[int, int]

_MOST = 2000  # characters of one formula; what is longer was never closed
# A dollar before a blank, or one with a figure after it, is money.
_FORMULA = re.compile(
    rf"""(?<!\\)\$\$(.{{1,{_MOST}}}?)\$\$
    |(?<![\\$])\$(?![\s$])([^$]{{0,{_MOST}}}?[^\s\\$])\$(?![0-9$])
    |\\\((.{{1,{_MOST}}}?)\\\)
    |(?<!\\)\\\[(.{{1,{_MOST}}}?)\\\]
    |\\begin\{{(?P<name>(?:align|equation|gather|eqnarray)\*?)\}}(.{{1,{_MOST}}}?)\\end\{{(?P=name)\}}""",
    re.VERBOSE | re.DOTALL,
)
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
    start, end = answer_span(text)
    spans = []
    for formula in _FORMULA.finditer(text, start, end):
        spans.append(formula.span(formula.lastindex or 0))
    boxes = (mark for mark in marks(text[start:end]) if mark.kind == "box")
    return [*spans, *((start + box.start, start + box.end) for box in boxes)]


def symbol_spans(text: str) -> list[Span]:
    """Return where the numbers, variables and operators of its formulas stand in a text."""
    return [
        symbol.span("symbol")
        for start, end in formula_spans(text)
        for symbol in _SYMBOL.finditer(text, start, end)
        if symbol["symbol"] is not None
    ]
