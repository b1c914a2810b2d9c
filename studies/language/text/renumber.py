"""A problem of GSM8K with other numbers, re-solved through its calculator marks.

A published solution has a mark `<<48/2=24>>` for every computation. Numbers of the question are
drawn anew, the marks are worked out again in their order, and every number of question and solution
is replaced by what it has become. That is done only where each number of the solution is a number
of the question, a result of an earlier mark or a constant with a reason in the question (a week has
7 days), where no value means two things, and where results stay whole, positive and plural as they
were. Every equation of the new text is checked.
"""

import ast
import random
import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from studies.language.text.expression import evaluate, is_whole, number, parsed, recomputed
from studies.language.text.solutions import MARK, NUMBER, holds, plain_solution

TRIES = 60
LARGEST = 20_000
_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
)
SPELLED = {word: value for value, word in enumerate(_WORDS.split())} | {
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "hundred": 100,
    "thousand": 1000,
}
SPELLED |= {"twice": 2, "double": 2, "half": 2, "both": 2, "couple": 2, "pair": 2, "thrice": 3}
SPELLED |= {"triple": 3, "third": 3, "quarter": 4, "fourth": 4, "dozen": 12}
# What a word in the question lets a solution use without saying where it is from.
_REASONS = {
    r"half|halves|halfway": (2, Fraction(1, 2)),
    r"twice|double|doubled|doubles|both|couple|pairs?|two|second|other|another|back|round": (2,),
    r"third|thirds|thrice|triple|tripled": (3, Fraction(1, 3)),
    r"quarter|quarters|fourth|fourths|square": (4, Fraction(1, 4)),
    r"fifth|fifths": (5,),
    r"dozen|dozens|months?|years?|annual(?:ly)?|feet|foot|inch(?:es)?": (12,),
    r"weeks?|weekly|days?|daily": (7,),
    r"days?|daily|hours?": (24,),
    r"hours?|minutes?|hourly": (60,),
    r"seconds?|minutes?": (60,),
    r"months?": (30, 4),
    r"years?|annual(?:ly)?|yearly": (52, 365),
    r"perimeter|rectangle|rectangular|fence|round": (2,),
    r"percent|cents?|dollars?|pennies|penny|meters?": (100,),
    r"quarters?": (25,), r"dimes?": (10,), r"nickels?": (5,),
    r"pounds?|ounces?": (16,), r"yards?": (3,), r"gallons?|quarts?": (4,),
    r"kilometers?|kilograms?|liters?|grams?|km|kg|ml|tons?": (1000,),
}  # fmt: skip
_WORD = re.compile(r"[a-z]+")
_PERCENT = re.compile(r"([0-9]*\.?[0-9]+)\s?(?:%|percent)")
_RATIO = re.compile(r"([0-9]+)\s?/\s?([0-9]+)")
# Numbers beside these are not replaced: a clock, a share, a ratio, a name with a number in it.
_BEFORE = re.compile(r"(?:[/:#.]\s?|\ban? |[A-Za-z]-|[Gg]rade |age |[Nn]o\. )$")
_AFTER = re.compile(
    r"\s?(?:[%/:]|percent|[ap]\.?m\b|st\b|nd\b|rd\b|th\b|-[0-9]|o'clock)|[A-Za-z]|\.[0-9]|,[0-9]"
)
# Words of a solution that decides by size: with other numbers it might decide otherwise.
_DECIDES = re.compile(
    r"[<>≥≤]|\b(?:greater|larger|exceeds?|at least|minimum|maximum|cheaper|rounds?|rounded|"
    r"since .* more than|enough|cannot|can't|leap|between|capacity)\b|averag|"
    r"[0-9](?:st|nd|rd|th)\b",
    re.IGNORECASE,
)
# What is replaced in part or not at all: a number behind a letter ("was30-2"), a letter that is
# reckoned with ("w-10", "10+x=30").
_UNREAD = re.compile(
    r"[^\W\d_][0-9]"
    r"|(?<![^\W\d_])[^\W\d_]\s?[-+*/=]\s?[$(]*[0-9]"
    r"|[0-9)]\s?[-+*/=]\s?[^\W\d_](?![^\W_])"
)
# Words of a question that set a bound, which other numbers might pass.
_LIMITS = re.compile(r"\b(?:maximum|minimum|at most|at least|no more than|limit)\b", re.IGNORECASE)


class Renumbered(NamedTuple):
    """A problem with other numbers."""

    question: str
    solution: str
    answer: str


class _Place(NamedTuple):
    """A number in the question."""

    start: int
    end: int
    value: Fraction
    free: bool


class _Parts(NamedTuple):
    """A problem taken apart."""

    question: str
    steps: str  # the solution without marks
    final: Fraction
    marks: list[tuple[ast.expr, Fraction]]
    places: list[_Place]
    constants: frozenset[Fraction]
    free: frozenset[Fraction]
    spelled: frozenset[Fraction]  # in the solution, in words


def renumber(question: str, answer: str, rng: random.Random, count: int) -> list[Renumbered]:
    """Return up to `count` problems like this one with other numbers; none where it is not safe."""
    parts = _take_apart(question, answer)
    made: dict[str, Renumbered] = {}
    if parts is None:
        return []
    for _ in range(TRIES):
        if len(made) == count:
            break
        drawn = {
            value: _redraw(parts, value, rng) if rng.random() < 0.85 else value
            for value in sorted(parts.free)
        }
        values = None if all(k == v for k, v in drawn.items()) else _follow(parts, drawn)
        new = _rewrite(parts, values) if values else None
        if new is not None:
            made.setdefault(new.question, new)
    return list(made.values())


def _take_apart(question: str, answer: str) -> _Parts | None:
    """Return the parts of a problem; None where one of its numbers has no single meaning."""
    steps, final = plain_solution(answer)
    marks = _marks(answer)
    if marks is None or _DECIDES.search(steps) or _UNREAD.search(steps):
        return None
    if _LIMITS.search(question) or not holds(steps):
        return None
    places = _places(question)
    constants = _constants(question, places)
    results = {result for _, result in marks}
    operands = {value for left, _ in marks for value in _values(left)}
    spelled = _spelled(question) | _spelled(steps)
    times = Counter(place.value for place in places)
    free = {place.value for place in places if place.free and times[place.value] == 1}
    free = free & operands - results - constants - spelled
    free = {value for value in free if not {value - 1, value + 1} & free}  # "4 quizzes", "all 5"
    known = {place.value for place in places} | constants | spelled
    if not free or evaluate(final) not in results or not _is_derivable(marks, steps, known):
        return None
    return _Parts(
        question=question,
        steps=steps,
        final=evaluate(final),
        marks=[(parsed(left), result) for left, result in marks],
        places=places,
        constants=frozenset(constants),
        free=frozenset(free),
        spelled=frozenset(_spelled(steps)),
    )


def _spelled(text: str) -> set[Fraction]:
    """Return the numbers that a text has in words."""
    return {Fraction(SPELLED[word]) for word in _WORD.findall(text.lower()) if word in SPELLED}


def _marks(answer: str) -> list[tuple[str, Fraction]] | None:
    """Return the computations of a solution; None where one is not right or not one."""
    marks = []
    for mark in MARK.findall(answer):
        left, sign, right = re.sub(r"[\s,$]", "", mark).partition("=")
        try:
            if not sign or evaluate(left) != evaluate(right):
                return None
            marks.append((left, evaluate(right)))
        except ValueError:
            return None
    return marks or None


def _is_derivable(marks: list[tuple[str, Fraction]], steps: str, known: set[Fraction]) -> bool:
    """Say whether each number of a solution is known when it is used."""
    known = set(known)
    for left, result in marks:
        if not _values(left) <= known:
            return False
        known.add(result)
    return _values(steps) <= known


def _follow(parts: _Parts, drawn: Mapping[Fraction, Fraction]) -> dict[Fraction, Fraction] | None:
    """Return what every value becomes; None where a result is no longer what it was."""
    values = {place.value: place.value for place in parts.places}
    values |= {value: value for value in parts.constants}
    values |= drawn
    for tree, old in parts.marks:
        try:
            new = recomputed(tree, values)
        except ValueError:
            return None
        if not _is_alike(old, new) or values.get(old, new) != new:
            return None
        values[old] = new
    return values


def _is_alike(old: Fraction, new: Fraction) -> bool:
    """Say whether a result may stand where another stood."""
    if new <= 0 or is_whole(old) != is_whole(new) or (old == 1) != (new == 1):
        return False
    if (new * 100).denominator != 1 or new > LARGEST * 10:
        return False
    return old / 8 <= new <= max(old * 8, Fraction(60))


def _rewrite(parts: _Parts, values: Mapping[Fraction, Fraction]) -> Renumbered | None:
    """Return the problem with its new numbers, if all of its equations hold."""
    if any(values.get(value, value) != value for value in parts.spelled):
        return None
    question = parts.question
    for place in reversed(parts.places):
        if values[place.value] != place.value:
            new = _written(question[place.start : place.end], values[place.value])
            question = question[: place.start] + new + question[place.end :]
    text = _replaced(parts.steps, values)
    if not holds(text):
        return None
    answer = number(values[parts.final])
    return Renumbered(question, f"{text}\n#### {answer}", answer)


def _places(question: str) -> list[_Place]:
    """Return the numbers of a question, and whether each may become another one."""
    places = []
    for match in NUMBER.finditer(question):
        value = Fraction(match.group().replace(",", ""))
        beside = _BEFORE.search(question[: match.start()]) or _AFTER.match(question, match.end())
        year = 1900 <= value <= 2100
        free = not beside and not year and is_whole(value) and 2 <= value <= LARGEST
        places.append(
            _Place(match.start(), match.end(), value, free and not _bound(question, match))
        )
    return places


def _bound(question: str, match: re.Match[str]) -> bool:
    """Say whether a number is one of the days of a week or the months of a year."""
    after = question[match.end() : match.end() + 12].lower()
    text = question.lower()
    return ("day" in after and "week" in text) or ("month" in after and "year" in text)


def _constants(question: str, places: list[_Place]) -> set[Fraction]:
    """Return the values that a solution may use and that no place of the question has."""
    values = {Fraction(1)}
    for words, reasons in _REASONS.items():
        if re.search(rf"\b(?:{words})\b", question, re.IGNORECASE):
            values |= {Fraction(reason) for reason in reasons}
    if "$" in question or "%" in question:
        values.add(Fraction(100))
    for share in _PERCENT.findall(question):
        part = Fraction(share)
        values |= {part, part / 100, 1 - part / 100, 1 + part / 100, 100 - part, 100 + part}
        values.add(Fraction(100))
    for over, under in _RATIO.findall(question):
        if int(under):
            part = Fraction(int(over), int(under))
            values |= {Fraction(int(over)), Fraction(int(under)), part, 1 - part}
            values.add(Fraction(int(under) - int(over)))
    return values


def _redraw(parts: _Parts, value: Fraction, rng: random.Random) -> Fraction:
    """Return another number of the same kind: as round, and about as large."""
    place = next(place for place in parts.places if place.value == value)
    after = parts.question[place.end : place.end + 12].lower()
    low, high = max(2, int(value) // 2), int(value) * 2 + 1
    if "hour" in after and value <= 24:
        high = min(high, 12)
    if "minute" in after and value < 60:
        high = min(high, 59)
    for step in (1000, 500, 100, 50, 10, 5):
        if value % step == 0 and value >= 2 * step and high >= step:
            return Fraction(step * rng.randint(max(1, low // step), max(1, high // step)))
    return Fraction(rng.randint(low, max(low, high)))


def _values(text: str) -> set[Fraction]:
    return {Fraction(found) for found in NUMBER.findall(text.replace(",", ""))}


def _replaced(text: str, values: Mapping[Fraction, Fraction]) -> str:
    """Return a text with every number as it has become."""

    def new(match: re.Match[str]) -> str:
        old = Fraction(match.group().replace(",", ""))
        return (
            match.group() if values.get(old, old) == old else _written(match.group(), values[old])
        )

    return NUMBER.sub(new, text)


def _written(old: str, value: Fraction) -> str:
    """Return a number in the spelling of the one it replaces."""
    if re.search(r"\.[0-9]{2}$", old):
        return f"{float(value):.2f}"
    return f"{int(value):,}" if "," in old and is_whole(value) else number(value)
