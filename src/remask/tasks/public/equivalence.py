"""Whether two answers in LaTeX are the same: by spelling where that decides, else by algebra.

A decimal stands for an exact value (a fraction, a root) where it has at least `DIGITS` significant
digits and is off by less than one unit of its last one: 0.0833333 is 1/12, 1.41421356 is the root
of 2, and 0.333 is not 1/3. Digits beyond `PRECISION` are a computer's, and are not looked at.

Most answers are numbers or words, and for those the exact path has the last word both ways; sympy
is asked about the rest. It is not asked about words, letters and numbers in other bases, where it
says "equal" too easily (it drops the base and the case).
"""

import re
from fractions import Fraction
from typing import NamedTuple

from remask.tasks.public.latex import bare, brackets, decimal_of, normalise, number_of, words
from remask.tasks.public.symbolic import CHECKER, SymbolicChecker

DIGITS = 6
PRECISION = 15
_NOISE = Fraction(1, 10**30)  # of what a formula is worth, computed to 40 digits
_BASED = re.compile(r"(-?[0-9A-F]+(?:\.[0-9A-F]+)?)(?:_([0-9]+))?")

_JOINTS = re.compile(r"[,;]|\\(?:text|mbox)\s*\{[\s,]*(?:and|or)[\s,]*\}|\b(?:and|or)\b")
_EQUALS = re.compile("(?<![<>!])=")
_EQUATION = re.compile(r"[\s$]*([A-Za-z])(?:_\{?\w+\}?)?\s*=([^=]+)")


class Comparison(NamedTuple):
    """What a comparison came to, and how."""

    equal: bool
    method: str  # "exact" or "math-verify"
    reason: str  # why they are not equal; "" where they are


def compare(gold: str, answer: str, checker: SymbolicChecker = CHECKER) -> Comparison:
    """Return whether an answer is the gold one; what is not decided in time is not equal."""
    if not _EQUALS.search(gold):
        answer = _unnamed(answer)
    same = exactly(gold, answer)
    if same is not None:
        return Comparison(same, "exact", "" if same else f"{answer!r} is not {gold!r}")
    near = _rounded(gold, answer, checker)
    if near is not None:
        return Comparison(near, "math-verify", "" if near else f"{answer!r} is not {gold!r}")
    verdict = checker.compare(gold, answer)
    reason = verdict.reason and f"{answer!r} against {gold!r}: {verdict.reason}"
    return Comparison(verdict.equal is True, "math-verify", reason)


def _unnamed(answer: str) -> str:
    """Return what a chain of equations comes to, or the values of a list: "x = 1 or x = 2".

    Of several variables the values are a tuple, in the order of their names.
    """
    items = [_EQUATION.fullmatch(item) for item in _JOINTS.split(answer)]
    named = sorted((item[1], number, item[2]) for number, item in enumerate(items) if item)
    if len(named) < 2 or len(named) < len(items):
        return _EQUALS.split(answer)[-1]
    values = ", ".join(value for _, _, value in named)
    return values if len({name for name, _, _ in named}) == 1 else f"({values})"


def exactly(gold: str, answer: str) -> bool | None:
    """Say whether two answers are the same, where their spelling decides; None where not."""
    expected, given = normalise(gold), normalise(answer)
    if expected == given:
        return True
    if words(gold) is not None:
        return words(gold) == bare(answer)
    if words(answer) is not None or not given:
        return False
    left, right = _BASED.fullmatch(expected), _BASED.fullmatch(given)
    if left and right and (left[2] or right[2]):
        # The question names the base, so an answer may leave it out; gold without one is in ten.
        return left[1] == right[1] and (right[2] is None or right[2] == (left[2] or "10"))
    kinds = brackets(expected), brackets(given)
    if all(kinds) and kinds[0] != kinds[1]:
        return False  # a pair, an interval and a set are three things
    one, two = number_of(expected), number_of(given)
    if one is not None and two is not None:
        return stands_for(gold, two) or stands_for(answer, one)
    if re.fullmatch("[A-Za-z]", expected) and re.fullmatch("[A-Za-z]", given):
        return False
    return None


def stands_for(text: str, exact: Fraction) -> bool:
    """Say whether a decimal is an exact value, rounded or cut to enough digits."""
    decimal = decimal_of(text)
    if decimal is None:
        return False
    value, unit = decimal
    if abs(value - exact) <= abs(exact) * _NOISE:
        return True  # the very same, as 2.5 and the root of 6.25
    digits = len(str(abs(value.numerator * (1 / unit) // value.denominator)))
    if digits < DIGITS:
        return False
    last: Fraction = unit * 10 ** max(0, digits - PRECISION)
    return abs(value - exact) < last


def _rounded(gold: str, answer: str, checker: SymbolicChecker) -> bool | None:
    """Say whether one is the other as a decimal; None where neither is one, or it is not known."""
    for decimal, other in ((answer, gold), (gold, answer)):
        if decimal_of(decimal) is not None:
            exact = checker.worth(other)
            return None if exact is None else stands_for(decimal, exact)
    return None
