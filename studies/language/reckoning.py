"""Sums in answers: which hold, and which answers are wrong by them alone.

A sum is `12*3=36` as the rows have it: digits, points and `+ - * / ( )`, on its right one number,
which may be rounded. An answer is reckoned anew from its first sum to its last: what a sum should
have given takes the place of what it gave, wherever a later sum or the answer says that number.
What cannot be read as a sum is none: a percentage, a power, an `x`, another sum or a fraction on
its right, or what is left of one when such a thing is cut off. What divides by 0 does not hold.
"""

import ast
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

_NUMBER = r"(?:\d++(?:,\d{3}(?!\d))*+(?:\.\d++)?+|\.\d++)"
_PART = rf"[ (]*+(?:-\(*+)?+\$?+{_NUMBER}[ )]*+"
_GOES_ON = r"[%\d]|[.,]\d| *[-+] *[\d(.$]| *[*/^] *(?:[\d(.$]|[a-zA-Z]\b)| *[xX×] *\d"
_SUM = re.compile(
    rf"(?<![\w.,$)])(?<!\d:)({_PART}(?:[-+*/]{_PART}){{1,30}}+)= *+(-?\$?-?{_NUMBER})(?!{_GOES_ON})"
)
# Text behind which a sum lacks its beginning; a dash may begin a line.
_CUT = re.compile(r"(?:[+*/^%\d]|[\d)] *[xX×]|\S *-)[ ($]*$")
_OPERATORS = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}  # fmt: skip
_NODES = (
    ast.BinOp, ast.UnaryOp, ast.Constant, ast.USub, ast.UAdd, *_OPERATORS
)  # fmt: skip
_MOST = 100  # characters of a left side, which bounds how deep it goes


class Sum(NamedTuple):
    """One sum of an answer."""

    left: ast.expr
    said: Fraction
    grain: Fraction  # of the last digit that is said

    def value(self, anew: Mapping[Fraction, Fraction]) -> Fraction | None:
        """Return what it gives; numbers in `anew` count as what they stand for."""
        return _value(self.left, anew)

    @property
    def holds(self) -> bool:
        """Whether it gives what it says, to the last digit that is said."""
        value = self.value({})
        return value is not None and abs(value - self.said) <= self.grain / 2


def sums(text: str) -> list[Sum]:
    """Return the sums of an answer, in order; a lone number before an equals sign is none."""
    found = []
    for match in _SUM.finditer(text):
        if _CUT.search(text[: match.start()].rpartition("\n")[2]):
            continue
        left, said = (part.replace(",", "").replace("$", "").strip() for part in match.groups())
        tree = _parsed(left)
        if tree is not None:
            digits = len(said.partition(".")[2])
            found.append(Sum(tree, Fraction(said), Fraction(1, 10**digits)))
    return found


def anew(text: str, answer: str) -> Fraction | None:
    """Return an answer with its sums reckoned anew; None where it is no number."""
    given = _number(answer)
    known: dict[Fraction, Fraction] = {}
    for each in sums(text):
        value = each.value(known)
        if value is not None:
            rounded = abs(value - each.said) <= each.grain / 2
            known[each.said] = each.said if rounded else value
    return None if given is None else known.get(given, given)


def all_hold(text: str) -> bool | None:
    """Say whether every sum of an answer holds; None where it has none."""
    found = sums(text)
    return all(each.holds for each in found) if found else None


def is_wrong_by_sums(text: str, answer: str | None, gold: str) -> bool:
    """Say whether an answer that is wrong becomes right when its sums are reckoned anew."""
    wanted = _number(gold)
    return answer is not None and wanted is not None and anew(text, answer) == wanted


def _parsed(left: str) -> ast.expr | None:
    """Return an expression with an operator in it; numbers may begin with zeros."""
    plain = re.sub(r"(?<![\d.])0+(?=\d)", "", left)
    try:
        tree = ast.parse(plain, mode="eval").body if len(plain) <= _MOST else None
    except SyntaxError:
        return None
    known = all(isinstance(node, _NODES) for node in ast.walk(tree)) if tree else False
    return tree if known and isinstance(tree, ast.BinOp) else None


def _value(tree: ast.expr, known: Mapping[Fraction, Fraction]) -> Fraction | None:
    if isinstance(tree, ast.Constant):
        number = Fraction(str(tree.value))
        return known.get(number, number)
    if isinstance(tree, ast.UnaryOp):
        inner = _value(tree.operand, known)
        if inner is None:
            return None
        return -inner if isinstance(tree.op, ast.USub) else inner
    if isinstance(tree, ast.BinOp):
        left, right = _value(tree.left, known), _value(tree.right, known)
        if left is None or right is None or (isinstance(tree.op, ast.Div) and not right):
            return None
        result: Fraction = _OPERATORS[type(tree.op)](left, right)
        return result
    return None


def _number(text: str) -> Fraction | None:
    try:
        return Fraction(text.replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None
