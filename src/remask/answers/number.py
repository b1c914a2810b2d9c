r"""The final number of a text.

Tier 1: `<answer>42</answer>`, `\boxed{42}`, `#### 42`. Tier 2: "the answer is 42", "Answer: 42".
Tier 3: the last number. The last match of the best tier decides; empty marks do not count. If its
value cannot be read whole, there is no answer, and no earlier number takes its place.
"""

import re

from remask.answers.extraction import NOTHING, Extraction
from remask.answers.literal import is_negative
from remask.answers.markup import Mark, marks
from remask.answers.quantity import (
    VALUE,
    plain,
    scaled,
    speaks_of_a_number,
    value_of,
)
from remask.answers.statement import statements
from remask.answers.turn import answer_of

_DIGIT = re.compile("[0-9]")
_SURFACE = re.compile(
    r"(?:(?<=[a-z][a-z])|(?<=[\s{0-9]m))[\s}]*\^\s*\{?[23]\}?(?![0-9])"
)  # the power of "cm^2"
_FACTORIAL = re.compile(r"[0-9]\s*!\s*$")  # in a sentence it is a sign of joy
_HEAD = 80  # characters of a line in which its value begins
_HEADING = re.compile(r"[\s*_]*[0-9]{1,2}[.):]\s+\S")  # "#### 2. Add them up"
# What the last number may be a part of: a clock, a version, a power, a formula.
_BEFORE = re.compile(r"(?:[\^_:\\]|[0-9][.,])$")
_AFTER = re.compile(r":[0-9]|[.,][0-9]|[ \t]*[\^!]")
_BEGINS = re.compile(
    r"[\s*_$€£({~≈+\-−–]*(?:\\[A-Za-z$(\[,! ]+[\s{]*)*[\s$*-]*(?:[0-9.]|[A-Za-z]\s*=)"
)


def canonical_number(text: str) -> str | None:
    """Return the canonical form of a text that is one number, or None where it is not.

    Currency, a percent sign and a unit are let pass; a number in words alone is not.
    """
    return value_of(text) if _DIGIT.search(text) else None


def extract_number(text: str) -> str | None:
    """Return the final numeric answer of `text` in canonical form, or None where there is none."""
    return find_number(text).answer


def find_number(text: str) -> Extraction:
    """Return the final numeric answer of `text` and its tier."""
    text = answer_of(text)
    end = len(text.rstrip())
    for mark in reversed(marks(text)):
        if not mark.empty and (mark.kind != "hashes" or _is_value(mark, end)):
            return _read_mark(mark)
    for statement in statements(text):
        if speaks_of_a_number(statement.said):
            answer = value_of(statement.said)
            matched = statement.cue + statement.said
            return Extraction(answer=answer, tier=2, matched=matched) if answer else NOTHING
    return _last_number(text)


def _is_value(mark: Mark, end: int) -> bool:
    """Say whether hashes announce a value: they also open headings, but not at a text's end."""
    body = mark.bodies[0][:_HEAD]
    if mark.end >= end:
        return speaks_of_a_number(body)
    return not _HEADING.match(body) and bool(_BEGINS.match(body))


def _read_mark(mark: Mark) -> Extraction:
    """Return the value in a mark; boxes that are joined must agree."""
    values = {value_of(body) for body in mark.bodies if body.strip()}
    factorial = mark.kind == "box" and any(_FACTORIAL.search(body) for body in mark.bodies)
    answer = values.pop() if len(values) == 1 and not (mark.cut or factorial) else None
    return Extraction(answer=answer, tier=1, matched=mark.bodies[-1]) if answer else NOTHING


def _last_number(text: str) -> Extraction:
    """Return the last number of a text; none where it is a part of a clock or of a power."""
    text = _SURFACE.sub("", plain(text))
    last: re.Match[str] | None = None
    for match in VALUE.finditer(text):
        last = match
    if last is None:
        return NOTHING
    digits = last.start() + len(last["sign"])
    operation = bool(last["sign"]) and not is_negative(text, digits)  # "7 - 3", "7+3"
    start = digits if operation else last.start()
    part = _BEFORE.search(text[max(0, start - 2) : start]) or _AFTER.match(text, last.end())
    negative = operation and last["sign"].startswith("-")  # undo the sign
    answer = None if part else scaled(text, last, negative=negative)
    return Extraction(answer=answer, tier=3, matched=last.group()) if answer else NOTHING
