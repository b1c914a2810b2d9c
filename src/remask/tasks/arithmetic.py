r"""The final expression of a text, as countdown asks for one: `(80 - 82) + 47`.

Tier 1: a box, a tag or `####`; tier 2: a statement; tier 3, where the text has neither: the last
expression with an operation in it. The signs of LaTeX count as the plain ones. Of `8 - 2 = 6` and
of `6 = 8 - 2` the side with the operation is read. An expression is read whole or not at all, and
where the last mark or statement holds none, no earlier one takes its place.
"""

import re

from remask.answers import NOTHING, Extraction
from remask.answers.markup import Mark, marks
from remask.answers.statement import statements

_PLAIN = (
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])|[×·∗]"), "*"),
    (re.compile(r"\\div(?![A-Za-z])|÷"), "/"),
    (re.compile("[−–]"), "-"),
    (re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\[()\[\],;! ]|[$`]"), ""),
    (re.compile(r"\\(?:text|mathrm)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"((\1)/(\2))"),
    (re.compile(r"\*\*(?!\s*[0-9(])"), ""),  # bold ends; "3**4" is something else
)
_RUN = re.compile(r"[0-9(][0-9+\-*/() ]*")
_OPERATION = re.compile(r"[-+*/]")
# After an expression: nothing, the end of a sentence, or words.
_ENDS = re.compile(r"\s*(?:[.,;:!?*]*\s*$|[.,;:]\s|[A-Za-z]{2,}|\()")


def find_arithmetic(text: str) -> Extraction:
    """Return the final expression of `text` in plain signs, and its tier."""
    marked = [mark for mark in marks(text) if mark.kind != "hashes" or _whole(mark.bodies[0])]
    for mark in reversed(marked):
        if not mark.empty:
            answer = _in_mark(mark)
            return Extraction(answer=answer, tier=1, matched=mark.bodies[-1]) if answer else NOTHING
    for statement in statements(text):
        answer = _whole(statement.said)
        matched = statement.cue + statement.said
        return Extraction(answer=answer, tier=2, matched=matched) if answer else NOTHING
    if marked:
        return NOTHING
    runs = (run for run in reversed(_RUN.findall(text)) if _OPERATION.search(run))
    last = next(runs, None)
    return NOTHING if last is None else Extraction(answer=last.strip(), tier=3, matched=last)


def _in_mark(mark: Mark) -> str | None:
    """Return the expression in a mark; boxes that are joined must agree."""
    sides = {_whole(body) for body in mark.bodies if body.strip()}
    return sides.pop() if len(sides) == 1 and not mark.cut else None


def _whole(said: str) -> str | None:
    """Return the expression that is said, in plain signs; None where it is none, or goes on."""
    for pattern, sign in _PLAIN:
        said = pattern.sub(sign, said)
    sides = [side.strip(" \n\t*_:") for side in said.split("=")]
    made = len(sides) > 1 and sides[0].isdecimal() and _OPERATION.search(sides[1])
    side = sides[1] if made else sides[0]
    run = _RUN.match(side)
    if run is None or not _ENDS.match(side, run.end()):
        return None
    return run.group().strip()
