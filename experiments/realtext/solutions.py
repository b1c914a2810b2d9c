"""Published solutions of GSM8K in one spelling: "48/2=24" for "48 / 2 = <<48/2=24>>24".

Numbers lose their thousands separators, operators are `+ - * /` without blanks, and a currency
sign stands before a result alone. Words stay as they are.
"""

import re
from collections.abc import Iterator

from realtext.expression import evaluate

MARK = re.compile(r"<<([^<>]*)>>")
NUMBER = re.compile(r"(?<![\w.])(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]*\.?[0-9]+)")
_OPERAND = r"\(*\$?\(*[0-9]*\.?[0-9]+\)*%?\)*"
_OPERATOR = r"\s?[-+*/xX×÷–]\s?"
EQUATION = re.compile(
    rf"(?<![\w.$(])({_OPERAND}(?:{_OPERATOR}{_OPERAND})+)\s?=\s?(\$?\s?-?[0-9]*\.?[0-9]+)"
)
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_SIGNS = str.maketrans({"x": "*", "X": "*", "×": "*", "÷": "/", "–": "-"})


def without_marks(text: str) -> str:
    """Return a solution without its calculator marks."""
    return MARK.sub("", text)


def plain_solution(answer: str) -> tuple[str, str]:
    """Return the steps of a published solution in one spelling, and its final number."""
    steps, _, final = without_marks(answer).rpartition("####")
    lines = (" ".join(line.split()) for line in steps.strip().split("\n"))
    return "\n".join(plain_line(line) for line in lines if line), plain_number(final)


def plain_line(line: str) -> str:
    """Return one line of a solution in one spelling."""
    line = _THOUSANDS.sub("", line)
    return EQUATION.sub(lambda match: f"{_plain(match[1])}={match[2].replace(' ', '')}", line)


def plain_number(text: str) -> str:
    """Return a final number without signs around it."""
    return _THOUSANDS.sub("", text).strip().lstrip("$").rstrip("%.").strip()


def equations(text: str) -> Iterator[tuple[str, str]]:
    """Yield every equation of a text: its left side as arithmetic, and its result."""
    for match in EQUATION.finditer(_THOUSANDS.sub("", text)):
        left = re.sub(r"([0-9]*\.?[0-9]+)%", r"(\1/100)", _plain(match[1]))
        yield left, match[2].replace(" ", "").lstrip("$")


def holds(text: str) -> bool:
    """Say whether every equation of a text is right, up to two decimals."""
    try:
        return all(abs(evaluate(left) - evaluate(right)) <= 0.01 for left, right in equations(text))
    except ValueError:
        return False


def _plain(side: str) -> str:
    return re.sub(r"[\s$]", "", side).translate(_SIGNS)
