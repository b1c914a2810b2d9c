"""Published solutions of GSM8K in one spelling: "48/2=24" for "48 / 2 = <<48/2=24>>24".

Numbers lose their thousands separators, operators are `+ - * /` without blanks, and a currency
sign stands before a result alone. Words stay as they are.
"""

import re
from collections.abc import Iterator
from fractions import Fraction

from studies.language.text.expression import evaluate

MARK = re.compile(r"<<([^<>]*)>>")
NUMBER = re.compile(r"(?<![\w.])(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]*\.?[0-9]+)")
_OPERAND = r"\(*\$?\(*[0-9]*\.?[0-9]+\)*%?\)*"
_OPERATOR = r"\s?[-+*/xX×÷–]\s?"
EQUATION = re.compile(
    rf"(?<![\w.$(])({_OPERAND}(?:{_OPERATOR}{_OPERAND})+)\s?=\s?(\$?\s?-?[0-9]*\.?[0-9]+)"
)
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_PIECE = re.compile(r"[0-9]*\.?[0-9]+|[A-Za-z]+|\S")
MOST_WORDS = 4  # between two numbers of a computation
_SIGNS = str.maketrans({"x": "*", "X": "*", "×": "*", "÷": "/", "–": "-"})


def without_marks(text: str) -> str:
    """Return a solution without its calculator marks."""
    return MARK.sub("", text)


def plain_solution(answer: str) -> tuple[str, str]:
    """Return the steps of a published solution in one spelling, and its final number."""
    steps, _, final = answer.rpartition("####")
    lines = (without_marks(without_units(line)) for line in steps.strip().split("\n"))
    lines = (" ".join(line.split()) for line in lines)
    return "\n".join(plain_line(line) for line in lines if line), plain_number(final)


def without_units(line: str) -> str:
    """Return a line whose computations are those of its marks: "5+6=" for "5 ml + 6 ml ="."""
    line = _THOUSANDS.sub("", line)
    marks = list(MARK.finditer(line))
    for place in reversed(range(len(marks))):
        mark, before = marks[place], marks[place - 1].end() if place else 0
        left = re.sub(r"[\s$]", "", mark[1].partition("=")[0])
        start = _start(line[before : mark.start()], [*map(Fraction, NUMBER.findall(left))])
        if start is not None and (start or not place):  # "2+3=5*4=20" would be no equation
            money = "$" * line[: mark.start()].rstrip().endswith("$")
            line = f"{line[: before + start]}{left}={money}{line[mark.start() :]}"
    return line


def _start(text: str, numbers: list[Fraction]) -> int | None:
    """Return where a computation with these numbers begins that ends with its "="."""
    pieces = list(_PIECE.finditer(text))
    while pieces and pieces[-1].group() == "$":
        pieces.pop()
    if not pieces or pieces.pop().group() != "=" or len(numbers) < 2:
        return None
    words = 0
    for piece in reversed(pieces):
        found = piece.group()
        if found[-1] in "0123456789":
            words = 0
            if Fraction(found) != numbers.pop():
                return None
            if not numbers:
                return len(text[: piece.start()].rstrip("$("))
        elif found[0].isalpha():
            words += 1
        if words > MOST_WORDS or not (found[0].isalnum() or found in "+-*/×÷–$()%."):
            return None
    return None


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
