"""Numbers as they stand in a text: where, with which sign, and in one spelling.

What a number *means* where it stands (a part of a fraction, a time of day) is not asked here: see
`quantity`. A literal too long for arithmetic in linear time is compared as text.
"""

import re
from collections import Counter
from fractions import Fraction

MAX_DIGITS = 256

LITERAL = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|(?<![0-9.])\.[0-9]+)"
)
_NUMBER = re.compile(LITERAL)
_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{")


def numbers(text: str) -> Counter[str]:
    """Return the multiset of the numbers in `text`, each in canonical form.

    Currency, percent signs and thousands separators do not count; a fraction is two numbers; a
    minus is a sign only where it cannot be a subtraction or a hyphen.
    """
    text = _plain(text)
    spelled: Counter[str] = Counter()
    for match in _NUMBER.finditer(text):
        sign = "-" if is_negative(text, match.start()) else ""
        spelled[sign + match.group()] += 1
    canonical: Counter[str] = Counter()
    for literal, count in spelled.items():
        canonical[canonical_literal(literal)] += count
    return canonical


def number_spans(text: str) -> list[tuple[int, int]]:
    """Return where each number of `text` begins and ends, its sign left out."""
    return [match.span() for match in _NUMBER.finditer(text)]


def is_negative(text: str, start: int) -> bool:
    """Say whether the number at `start` has a sign before it, and not a subtraction or a hyphen."""
    before = text[max(0, start - 16) : start].rstrip("$€£")
    minus = before.rstrip(" ")
    if not minus.endswith(("-", "−")):
        return False
    spaced = len(minus) < len(before)
    head = minus[:-1]
    left = head.rstrip()[-1:]
    if not left:
        return not spaced  # with a blank after it, the bullet of a list
    if left in "=+*/×÷(<>^":
        return True  # "= - 7": nothing to subtract from
    if spaced:
        return False
    if head.endswith(left):
        return not (left.isalnum() or left in ")]}%_'\"")
    return not (left.isdigit() or left in ")]}%$")


def canonical_literal(literal: str) -> str:
    """Return a literal without separators, idle zeros and a decimal point."""
    literal = literal.replace(",", "")
    if len(literal) > MAX_DIGITS:
        return literal
    return str(Fraction(literal))


def _plain(text: str) -> str:
    """Return `text` with LaTeX separators and text wrappers out of the way."""
    if "\\" not in text and "{,}" not in text:
        return text
    text = text.replace("{,}", ",").replace(",\\!", ",").replace("\\$", "$").replace("\\%", "%")
    return _WRAPPER.sub("{", text)
