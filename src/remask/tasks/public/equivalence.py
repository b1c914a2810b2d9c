"""Whether two answers in LaTeX are the same: by spelling where that decides, else by algebra.

Most answers are numbers or words, and for those the exact path has the last word both ways; sympy
is asked about the rest. It is not asked about words, letters and numbers in other bases, where it
says "equal" too easily (it drops the base and the case).
"""

import re
from typing import NamedTuple

from remask.tasks.public.latex import bare, normalise, number_of, words
from remask.tasks.public.symbolic import VERIFIER, Verifier

_BASED = re.compile(r"(-?[0-9A-F]+(?:\.[0-9A-F]+)?)(?:_([0-9]+))?")


class Comparison(NamedTuple):
    """What a comparison came to, and how."""

    equal: bool
    method: str  # "exact" or "math-verify"
    reason: str  # why they are not equal; "" where they are


def compare(gold: str, answer: str, verifier: Verifier = VERIFIER) -> Comparison:
    """Return whether an answer is the gold one; what is not decided in time is not equal."""
    same = exactly(gold, answer)
    if same is not None:
        return Comparison(same, "exact", "" if same else f"{answer!r} is not {gold!r}")
    verdict = verifier.compare(gold, answer)
    reason = verdict.reason and f"{answer!r} against {gold!r}: {verdict.reason}"
    return Comparison(verdict.equal is True, "math-verify", reason)


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
        # The question names the base, so an answer may leave it out; two bases must agree.
        return left[1] == right[1] and (left[2] is None or right[2] is None)
    if number_of(expected) is not None and number_of(given) is not None:
        return False
    if re.fullmatch("[A-Za-z]", expected) and re.fullmatch("[A-Za-z]", given):
        return False
    return None
