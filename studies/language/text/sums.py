"""Sums without a story: "How much is 41 minus 31?", with its working.

A model that picks the right numbers and reckons wrongly needs more sums than stories have: three in
five of the wrong answers of a first model to short problems were right but for the last one.
"""

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from studies.language.text.expression import number

ASKED = ("How much is {}?", "What is {}?", "Work out {}.", "Find {}.")
SPOKEN = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
SHARE_LONGER = 0.25  # of two operations
SHARE_CENTS = 0.15  # of sums and differences
_SIZES = ((2, 9), (2, 20), (10, 99), (10, 99), (100, 999), (1000, 9999))


class Sum(NamedTuple):
    """A question and its working."""

    question: str
    response: str


def sums(rng: random.Random, count: int) -> Iterator[Sum]:
    """Yield so many; some come twice."""
    for _ in range(count):
        yield draw_sum(rng)


def draw_sum(rng: random.Random) -> Sum:
    """Draw one operation, or two, one after the other."""
    sign = rng.choice("+-*/")
    left, right, value = _operation(sign, rng)
    asked = f"{number(left)} {SPOKEN[sign]} {number(right)}"
    steps = [f"{number(left)}{sign}{number(right)}={number(value)}"]
    if rng.random() < SHARE_LONGER:
        sign = rng.choice("+-") if value >= 1 else "+"
        more = _size(rng) if sign == "+" else Fraction(rng.randint(1, int(value)))
        after = value + more if sign == "+" else value - more
        steps.append(f"{number(value)}{sign}{number(more)}={number(after)}")
        asked, value = f"{asked}, and then {SPOKEN[sign]} {number(more)}", after
    worked = "\n".join(steps)
    return Sum(rng.choice(ASKED).format(asked), f"{worked}.\n#### {number(value)}")


def _operation(sign: str, rng: random.Random) -> tuple[Fraction, Fraction, Fraction]:
    """Return both sides and the value; nothing is below 0, and quotients are whole."""
    if sign == "*":
        left, right = _size(rng), Fraction(rng.randint(2, rng.choice((9, 9, 20, 99))))
        return left, right, left * right
    if sign == "/":
        value, right = _size(rng, most=999), Fraction(rng.randint(2, rng.choice((9, 9, 12, 30))))
        return value * right, right, value
    scale = 100 if rng.random() < SHARE_CENTS else 1
    low, high = sorted((_size(rng) / scale, _size(rng) / scale))
    if sign == "-":
        return high, low, high - low
    return (low, high, low + high) if rng.random() < 0.5 else (high, low, low + high)


def _size(rng: random.Random, most: int = 9999) -> Fraction:
    low, high = rng.choice([size for size in _SIZES if size[1] <= most])
    return Fraction(rng.randint(low, high))
