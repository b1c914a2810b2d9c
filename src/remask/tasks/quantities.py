"""The quantities behind `wordmath`: a small graph of numbers that follow from one another.

The key of a problem is the expression of its last quantity over the given numbers; it decides the
split. How quantities are worded and computed is up to `wordmath`.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class ProblemSize(NamedTuple):
    """What a level may take, in numbers of steps and in pieces."""

    steps: tuple[int, ...]
    largest: int  # value any quantity may reach
    shortest: int  # prompt
    prompt: int
    solution: int
    together: int  # prompt and solution
    terse: int  # tersest solution, so that the tersest prompt fits beside it
    distractors: tuple[int, int]  # the fewest and the most
    canvas: int


SMALLEST = 10  # two digits each, so that a result is as long before it is known as after
# Five steps are learned last: drawn twice as often. Hard are longer tales, not longer solutions: a
# model that never wrote six steps leaves one out, and leaves it out again in every rebuild.
SIZES = {
    "easy": ProblemSize((1, 2), 99, 0, 80, 62, 142, 62, (0, 2), 64),
    "medium": ProblemSize((3, 4, 5, 5), 99, 0, 94, 94, 184, 72, (0, 2), 96),
    "hard": ProblemSize((5,), 99, 97, 144, 94, 238, 72, (5, 6), 96),
}

OPERATORS = {"more": "+", "fewer": "-", "times": "*", "twice": "*", "half": "/", "sum": "+"}


class Quantity(NamedTuple):
    """What one person has, and how that follows."""

    relation: str  # "given" or a key of OPERATORS
    left: int  # index of the quantity it starts from
    right: int  # index of the other quantity of a sum; the number of any other relation
    value: int
    key: str  # its expression over given numbers, operands of commutative ones sorted


def pick(rng: random.Random, options: Sequence[T]) -> T:
    """Return one of `options`; several times faster than `rng.choice`, and millions are drawn."""
    return options[int(rng.random() * len(options))]


def between(rng: random.Random, low: int, high: int) -> int:
    """Return an integer of [low, high]."""
    return low + int(rng.random() * (high - low + 1))


def given(rng: random.Random) -> Quantity:
    value = between(rng, SMALLEST, 60)
    return Quantity("given", 0, 0, value, str(value))


def follow(rng: random.Random, source: int, start: Quantity, largest: int) -> Quantity:
    """Return a quantity that follows from one other."""
    chance, value = rng.random(), start.value
    if chance < 0.36:
        right = between(rng, 2, 45)
        drawn = Quantity("more", source, right, value + right, f"({start.key}+{right})")
    elif chance < 0.68:
        right = between(rng, 1, min(value, 60))
        drawn = Quantity("fewer", source, right, value - right, f"({start.key}-{right})")
    elif chance < 0.86 or value % 2:
        right = between(rng, 2, 5)
        relation = "twice" if right == 2 else "times"
        drawn = Quantity(relation, source, right, value * right, f"({start.key}*{right})")
    else:
        drawn = Quantity("half", source, 2, value // 2, f"({start.key}/2)")
    return drawn if SMALLEST <= drawn.value <= largest else follow(rng, source, start, largest)


def total(quantities: list[Quantity], first: int, second: int) -> Quantity:
    """Return the sum of two quantities."""
    one, two = quantities[first], quantities[second]
    low, high = sorted((one.key, two.key))
    return Quantity("sum", first, second, one.value + two.value, f"({low}+{high})")


def extend(rng: random.Random, quantities: list[Quantity], head: int, largest: int) -> int:
    """Append a step from `head`, sometimes a sum with another quantity; return its index."""
    step = None
    if rng.random() < 0.18:
        num_given = sum(quantity.relation == "given" for quantity in quantities)
        if num_given < 2 and rng.random() < 0.5:
            quantities.append(given(rng))
        other = int(rng.random() * len(quantities))
        step = total(quantities, head, other) if other != head else None
    if step is None or step.value > largest:
        step = follow(rng, head, quantities[head], largest)
    quantities.append(step)
    return len(quantities) - 1


def grow(rng: random.Random, steps: int, largest: int) -> list[Quantity]:
    """Return quantities of which the last follows from the others in `steps` steps.

    Mostly a chain; otherwise a side branch, from the same root or its own, joins the main one.
    Nothing comes back where the sum of the two is too large.
    """
    quantities = [given(rng)]
    side = 0
    if steps >= 3 and rng.random() < 0.4:
        side = between(rng, 1, steps - 2)
        if rng.random() < 0.6:
            quantities.append(given(rng))
    branch = len(quantities) - 1
    for _ in range(side):
        branch = extend(rng, quantities, branch, largest)
    joint = between(rng, 1, steps - side - 1) if side else -1
    head = 0
    for number in range(steps - side):
        if number == joint:
            quantities.append(total(quantities, head, branch))
            head = len(quantities) - 1
            if quantities[head].value > largest:
                return []
        else:
            head = extend(rng, quantities, head, largest)
    return quantities


def computations(quantities: Sequence[Quantity], quantity: Quantity) -> list[str]:
    """Return the ways to write the computation of a quantity: `12+5` and `5+12`, or `12-5`."""
    by_sum = quantity.relation == "sum"
    left = quantities[quantity.left].value
    right = quantities[quantity.right].value if by_sum else quantity.right
    operator = OPERATORS[quantity.relation]
    swapped = [f"{right}{operator}{left}"] if operator in "+*" else []
    return [f"{left}{operator}{right}", *swapped]


def operands(quantity: Quantity) -> tuple[int, ...]:
    """Return the indices of the quantities that one follows from."""
    if quantity.relation == "given":
        return ()
    return (quantity.left, quantity.right) if quantity.relation == "sum" else (quantity.left,)


def shortest_solution(quantities: Sequence[Quantity]) -> int:
    """Return the pieces of the tersest solution: `Zoe: 12+5=17.` per step and `#### 51`."""
    pieces = 2 + len(str(quantities[-1].value))
    for quantity in quantities:
        if quantity.relation != "given":
            pieces += 5 + len(computations(quantities, quantity)[0]) + len(str(quantity.value))
    return pieces


def all_needed(quantities: Sequence[Quantity]) -> bool:
    """Say whether every quantity serves another one, the last excepted."""
    served = {source for quantity in quantities for source in operands(quantity)}
    return len(served) == len(quantities) - 1


def structure(rng: random.Random, size: ProblemSize) -> list[Quantity]:
    """Return quantities, the target last, whose tersest wording fits the level."""
    steps = pick(rng, size.steps)
    while True:
        quantities = grow(rng, steps, size.largest)
        if quantities and all_needed(quantities) and shortest_solution(quantities) <= size.terse:
            return quantities
