"""Parts in words behind a number: "two thirds", "3 fifths", "one-half".

The words are ordinals too ("two fifth graders", "twenty-third"), and quarters are coins: what may
be either is no number, rather than the part of one.
"""

import re
from fractions import Fraction

_TOP = 40  # digits of a number of parts; nobody says more in words
_BOTTOMS = {"half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6,
            "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12,
            "sixteenth": 16, "twentieth": 20, "hundredth": 100, "thousandth": 1000}  # fmt: skip
_NAMES = "|".join(_BOTTOMS)
PART = re.compile(rf"(?P<link>[-\s\u2009]+)(?P<name>{_NAMES})(?P<many>s?)\b", re.IGNORECASE)
_COUNTED = ("halves", "quarter", "quarters")  # of an apple, of a dollar
_GOES_ON = re.compile(r"\b(?:of|and|or|to|times)\b", re.IGNORECASE)
_AND = (
    r"and[\s\u2009]+(?:an?|one|two|three|four|five|six|seven|eight|nine|[0-9]+)"
    rf"[-\s\u2009]+(?:{_NAMES})s?\b"
)
# "2 and a third", "4 dollars and a half": the number before is the part of a value. "12 apples and
# a third of them" are two things.
MIXED = re.compile(
    rf"[\s\u2009]*(?:{_AND}|[A-Za-z]+[\s\u2009]+{_AND}(?![\s\u2009]+of\b))", re.IGNORECASE
)


def with_part(value: str, part: re.Match[str], *, spelled: bool) -> str | None:
    """Return a value with the part behind it, a match of `PART`; None where it is not certain."""
    name, many, joined = part["name"].lower(), part["many"].lower(), "-" in part["link"]
    rest = part.string[part.end() :].strip(" \t\u2009*_\"'.,!?)}")
    if name + many in _COUNTED and not joined:
        return None if spelled else value
    if len(value) > _TOP or _GOES_ON.search(rest):
        return None
    if many or (value in ("1", "-1") and not rest):
        return str(Fraction(value) / _BOTTOMS[name])
    is_ordinal = bool(rest) and not joined and value not in ("1", "-1")
    return value if is_ordinal and not (spelled and int(value) % 10 == 0) else None
