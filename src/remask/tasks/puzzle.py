"""The puzzles behind `choice`: rankings, and things that change hands, before any wording.

The key of a puzzle is the ranking or the moves with their names, and the question; it decides the
split. How a puzzle is worded and solved is up to `choice`.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from remask.tasks.quantities import between, pick
from remask.tasks.wordmath import NAMES

OBJECTS = ("book", "pen", "cup", "key", "ball", "hat", "map", "coin")


class Scale(NamedTuple):
    """The words of one ranking."""

    more: str
    less: str
    most: str
    least: str


SCALES = (
    Scale("taller", "shorter", "tallest", "shortest"),
    Scale("older", "younger", "oldest", "youngest"),
    Scale("faster", "slower", "fastest", "slowest"),
    Scale("richer", "poorer", "richest", "poorest"),
    Scale("heavier", "lighter", "heaviest", "lightest"),
    Scale("stronger", "weaker", "strongest", "weakest"),
)


class PuzzleSize(NamedTuple):
    """What a level may take."""

    people: tuple[int, ...]
    moves: tuple[int, ...]
    passes: int  # least number of moves of the thing asked for
    prompt: int
    solution: int
    together: int
    canvas: int


SIZES = {
    "easy": PuzzleSize((3, 4), (1, 2, 3), 1, 80, 62, 142, 64),
    "medium": PuzzleSize((4, 5), (3, 4), 2, 80, 78, 156, 80),
    "hard": PuzzleSize((6, 7), (6, 7), 4, 96, 94, 178, 96),
}
QUESTIONS = ("most", "least", "second", "below", "above")
NEIGHBOURS = {"below": -1, "above": 1}  # where the person asked about is, seen from the answer


class Blend(NamedTuple):
    """How often each kind of puzzle comes, and each question about a ranking."""

    kinds: tuple[float, float, float]  # rankings, hand-overs and swaps
    questions: tuple[str, ...]  # one of them is picked


ASKED = Blend((0.5, 0.25, 0.25), QUESTIONS)
# Neighbours in a ranking and swaps are learned last: extremes are right when half of those are not.
TRAINED = Blend((0.42, 0.2, 0.38), QUESTIONS + ("below", "above") * 2)


class Puzzle(NamedTuple):
    """What decides the answer: a ranking, or a thing and the hands it went through."""

    kind: str  # order, hand or swap
    people: tuple[str, ...]  # order: from the top
    query: str  # order: one of QUESTIONS
    subject: str  # the person x of the question, or the thing
    answer: str
    holders: tuple[tuple[str, str], ...]  # who has what at the start
    moves: tuple[tuple[str, str, str], ...]  # from, to, thing; no thing in a swap
    path: tuple[str, ...]  # who had the thing asked for, in turn


def draw_order(
    rng: random.Random, size: PuzzleSize, questions: Sequence[str] = QUESTIONS
) -> Puzzle:
    """Return a ranking and a question about it."""
    people = tuple(rng.sample(NAMES, pick(rng, size.people)))
    query = pick(rng, questions)
    last = len(people) - 1
    places = {"most": (0, 0), "least": (last, last), "second": (1, 1), "below": (1, last)}
    place = between(rng, *places.get(query, (0, last - 1)))
    subject = people[place + NEIGHBOURS[query]] if query in NEIGHBOURS else ""
    return Puzzle("order", people, query, subject, people[place], (), (), ())


def draw_hand(rng: random.Random, size: PuzzleSize) -> Puzzle:
    """Return two things handed around; everybody gets one of them at least once."""
    people = tuple(rng.sample(NAMES, pick(rng, size.people)))
    things = tuple(rng.sample(OBJECTS, 2))
    num_moves = max(pick(rng, size.moves), len(people) - 2)
    where = {things[0]: people[0], things[1]: people[1]}
    holders = tuple((person, thing) for thing, person in where.items())
    fresh, path, moves = list(people[2:]), [people[0]], []
    for left in range(num_moves, 0, -1):
        thing = things[rng.random() < 0.3]
        giver = where[thing]
        if fresh and (len(fresh) >= left or rng.random() < 0.6):
            taker = fresh.pop()
        else:
            taker = pick(rng, [p for p in people if p != giver and p not in fresh])
        where[thing] = taker
        moves.append((giver, taker, thing))
        if thing == things[0]:
            path.append(taker)
    return Puzzle("hand", people, "", things[0], path[-1], holders, tuple(moves), tuple(path))


def draw_swap(rng: random.Random, size: PuzzleSize) -> Puzzle:
    """Return people with one thing each who swap in pairs."""
    people = tuple(rng.sample(NAMES, pick(rng, size.people)))
    holders = tuple(zip(people, rng.sample(OBJECTS, len(people)), strict=True))
    path, moves = [people[0]], []
    for _ in range(pick(rng, size.moves)):
        others = [person for person in people if person != path[-1]]
        if rng.random() < 0.7:
            first, second = path[-1], pick(rng, others)
            path.append(second)
        else:
            first, second = rng.sample(others, 2)
        moves.append((first, second, ""))
    return Puzzle("swap", people, "", holders[0][1], path[-1], holders, tuple(moves), tuple(path))


def structure(rng: random.Random, size: PuzzleSize, blend: Blend = ASKED) -> Puzzle:
    """Return a puzzle of one of the kinds."""
    [kind] = rng.choices(("order", "hand", "swap"), blend.kinds)
    if kind == "order":
        return draw_order(rng, size, blend.questions)
    make = draw_hand if kind == "hand" else draw_swap
    while True:
        puzzle = make(rng, size)
        if len(puzzle.path) > size.passes:
            return puzzle


def key_of(puzzle: Puzzle) -> str:
    """Return what decides the split."""
    if puzzle.kind == "order":
        return f"order/{'>'.join(puzzle.people)}/{puzzle.query}{puzzle.subject}"
    start, *others = (person for person, _ in puzzle.holders)
    if puzzle.kind == "swap":  # a swap has no direction
        moves = ["-".join(sorted((a, b))) for a, b, _ in puzzle.moves]
    else:
        moves = [f"{a}-{b}{'!' * (thing == puzzle.subject)}" for a, b, thing in puzzle.moves]
    return f"{puzzle.kind}/{start}/{'+'.join(sorted(others))}/{','.join(moves)}"
