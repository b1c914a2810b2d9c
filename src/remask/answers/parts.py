"""Fractions in words after a number: "two thirds", "3 fifths", "one-half".

The words are also ordinals ("two fifth graders", "twenty-third"), and quarters are also coins. An
ambiguous text is not read.
"""

import re
from fractions import Fraction

_TOP = 40  # digits before a fraction in words
_DENOMINATORS = {"half": 2, "halve": 2, "quarter": 4, "sixteenth": 16, "twentieth": 20}
_DENOMINATORS |= {"hundredth": 100, "thousandth": 1000}
_ORDINALS = "third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_DENOMINATORS |= {name: number for number, name in enumerate(_ORDINALS.split(), 3)}
_NAMES = "|".join(_DENOMINATORS)
PART = re.compile(rf"(?P<link>[-\s\u2009]+)(?P<name>{_NAMES})(?P<many>s?)\b", re.IGNORECASE)
_COUNTED = ("halves", "quarter", "quarters")  # of an apple, of a dollar
_GOES_ON = re.compile(r"\b(?:of|and|or|to|times)\b", re.IGNORECASE)
_AND = (
    r"and[\s\u2009]+(?:an?|one|two|three|four|five|six|seven|eight|nine|[0-9]+)"
    rf"[-\s\u2009]+(?:{_NAMES})s?\b"
)
# In "2 and a third" and "4 dollars and a half", the first number is a part of the value. "12 apples
# and a third of them" are two values.
MIXED = re.compile(
    rf"[\s\u2009]*(?:{_AND}|[A-Za-z]+[\s\u2009]+{_AND}(?![\s\u2009]+of\b))", re.IGNORECASE
)


def with_part(value: str, part: re.Match[str], *, spelled: bool) -> str | None:
    """Return a value multiplied by `part`, a match of `PART`; None if it is ambiguous."""
    name, many, joined = part["name"].lower(), part["many"].lower(), "-" in part["link"]
    rest = part.string[part.end() :].strip(" \t\u2009*_\"'.,!?)}")
    if name + many in _COUNTED and not joined:
        return None if spelled else value
    if len(value) > _TOP or _GOES_ON.search(rest):
        return None
    if many or (value in ("1", "-1") and not rest):
        return str(Fraction(value) / _DENOMINATORS[name])
    is_ordinal = bool(rest) and not joined and value not in ("1", "-1")
    return value if is_ordinal and not (spelled and int(value) % 10 == 0) else None
