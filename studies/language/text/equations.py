"""Problems with an equation, as MAWPS has them: solved in words, and with other numbers.

The response is worked out of the equation step by step; the last step stands in the sentence that
answers the question. With other numbers only where each number of the equation stands in the text
once, or is a constant (a dozen is 12), and where results stay whole and positive as they were.
"""

import random
import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from studies.language.text.expression import Step, evaluate, is_whole, number, steps
from studies.language.text.restate import restate
from studies.language.text.solutions import NUMBER

TRIES = 120
LARGEST = 10_000
_CONSTANTS = frozenset(map(Fraction, (1, 2, 4, 7, 12, 24, 60, 100)))
_SOLVED = re.compile(r"x=([0-9.+\-*/()]+)|([0-9.+\-*/()]+)=x")
# A number beside these is part of a share, a clock or a name.
_BESIDE = re.compile(r"\s?(?:%|st\b|nd\b|rd\b|th\b|/|:|percent)|[A-Za-z]|\.[0-9]")


class Solved(NamedTuple):
    """A problem with a response."""

    question: str
    response: str
    answer: str


def expression_of(equation: str) -> str | None:
    """Return the side that gives the unknown: "(22-14)/4" of "x=(22-14)/4"; None for others."""
    match = _SOLVED.fullmatch(equation)
    return (match[1] or match[2]) if match else None


def solve(question: str, expression: str, answer: Fraction) -> Solved | None:
    """Return a problem with its response; None where equation and answer do not agree."""
    try:
        done = steps(expression)
        if not done or done[-1].value != answer or any(step.value < 0 for step in done):
            return None
        lines = [f"{step.written}={number(step.value)}" for step in done]
    except ValueError:
        return None
    final = number(answer)
    said = restate(question, lines[-1], final)
    response = "\n".join([*lines[:-1], said or f"{lines[-1]}.", f"#### {final}"])
    return Solved(question, response, final)


def renumber_equation(
    question: str, expression: str, rng: random.Random, count: int
) -> list[Solved]:
    """Return up to `count` problems like this one with other numbers."""
    places = [(match.span(), Fraction(match.group())) for match in NUMBER.finditer(question)]
    operands = [Fraction(found) for found in NUMBER.findall(expression)]
    free = _free(question, places, operands)
    if not free:
        return []
    old = evaluate(expression)
    before = steps(expression)
    taken = {Fraction(found) for found in re.findall(r"-([0-9.]+)", expression)}
    made: dict[str, Solved] = {}
    for _ in range(TRIES):
        if len(made) == count:
            break
        drawn = {value: _redraw(value, rng) for value in sorted(free)}
        if not _keeps_order(drawn, taken) or set(drawn.values()) & (set(operands) - free):
            continue
        new = _checked(question, expression, places, drawn, before)
        if new is not None and (old == 1) == (new.answer == "1"):
            made.setdefault(new.question, new)
    return list(made.values())


def _checked(
    question: str,
    expression: str,
    places: list[tuple[tuple[int, int], Fraction]],
    drawn: Mapping[Fraction, Fraction],
    before: list[Step],
) -> Solved | None:
    """Return the problem with new numbers, where every step is still what it was."""
    new_expression = NUMBER.sub(lambda m: number(_becomes(m.group(), drawn)), expression)
    try:
        after = steps(new_expression)
    except ValueError:
        return None
    if not all(_is_alike(old, new) for old, new in zip(before, after, strict=True)):
        return None
    text = question
    for (start, end), value in reversed(places):
        if value in drawn:
            text = text[:start] + number(drawn[value]) + text[end:]
    return solve(text, new_expression, after[-1].value)


def _keeps_order(drawn: Mapping[Fraction, Fraction], taken: set[Fraction]) -> bool:
    """Say whether what is taken away is still less than what it was less than: it was there."""
    return all(
        drawn[part] < drawn[whole]
        for part in taken & drawn.keys()
        for whole in drawn
        if part < whole
    )


def _is_alike(old: Step, new: Step) -> bool:
    """Say whether a result may stand where another stood; products are not to grow wild."""
    if new.value <= 0 or is_whole(old.value) != is_whole(new.value) or new.value > LARGEST * 10:
        return False
    return "*" not in new.written or new.value <= max(5 * old.value, 300)


def _becomes(literal: str, drawn: Mapping[Fraction, Fraction]) -> Fraction:
    value = Fraction(literal)
    return drawn.get(value, value)


def _free(
    question: str, places: list[tuple[tuple[int, int], Fraction]], operands: list[Fraction]
) -> set[Fraction]:
    """Return the numbers that may become others; none where one of the equation has no place."""
    times, used = Counter(value for _, value in places), Counter(operands)
    if any(value not in times and value not in _CONSTANTS for value in used):
        return set()
    free = set()
    for (_, end), value in places:
        alone = times[value] == 1 and used[value] <= 1 and not _BESIDE.match(question, end)
        least = 2 if value in used else 5  # "2 trains" is seldom a number that nobody needs
        if alone and value >= least and not 1900 <= value <= 2100:
            free.add(value)
    return free


def _redraw(value: Fraction, rng: random.Random) -> Fraction:
    """Return another number of the same kind, now and then of another size."""
    if not is_whole(value):
        scale = 10 if (value * 10).denominator == 1 else 100
        high = max(12, int(value * 2 * scale))
        return Fraction(rng.randint(max(2, high // 8), high), scale)
    wide = rng.random()
    if wide < 0.5:
        return Fraction(rng.randint(max(2, int(value) // 2), int(value) * 5 // 2 + 2))
    return Fraction(rng.randint(2, 20 if wide < 0.75 else 99))
