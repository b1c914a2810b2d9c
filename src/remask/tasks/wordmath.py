"""Multi-step word problems: people, what they have, and how it follows from what others have.

It plays the role of GSM8K for the embedded model. A problem is a small graph of quantities; its
key is the expression of the target over the given numbers, so names, items, statement order,
distractors and wording never decide the split. Solutions vary as people's do: an author is drawn
for each, with a habit of wording from which single steps depart, an order of independent steps,
and more or less detail. The templates that word a step are also the patterns that read it back.

Not here: reading the final answer out of a text (`remask.answers`).
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from remask.answers import extract_number, find_number
from remask.tasks.base import Generated, Grade, Problem, Split, compared, count_pieces, draw
from remask.tasks.quantities import (
    SIZES,
    ProblemSize,
    Quantity,
    between,
    computations,
    follow,
    given,
    operands,
    pick,
    shortest_solution,
    structure,
)

_GIRLS = "Mia Zoe Ana Ivy Eva Kim Amy Lea Sue Una Jan Pam"
_BOYS = "Ben Tom Leo Max Sam Dan Joe Rob Tim Vic Gus Ned"
_ITEMS = "apples books pens coins cards shells stamps marbles cookies balls stones beads"
NAMES = (*_GIRLS.split(), *_BOYS.split())
ITEMS = tuple(_ITEMS.split())


# {u}: a blank and the unit, or nothing. The first wording of each is the one that always fits.
STATEMENTS = {
    "given": ("{a} has {n} {i}.", "{a} owns {n} {i}.", "There are {n} {i} with {a}."),
    "more": ("{a} has {n} more{u} than {b}.", "Compared with {b}, {a} has {n} more{u}."),
    "fewer": ("{a} has {n} fewer{u} than {b}.", "Compared with {b}, {a} has {n} fewer{u}."),
    "times": ("{a} has {n} times what {b} has.", "{a} has {n} times as many{u} as {b}."),
    "twice": ("{a} has twice what {b} has.", "{a} has twice as many{u} as {b}."),
    "half": ("{a} has half of what {b} has.", "{a} has half as many{u} as {b}."),
    "sum": (
        "{a} has as many{u} as {b} and {c} together.",
        "{b} and {c} together have as many{u} as {a}.",
    ),
}
QUESTIONS = ("How many{u} does {a} have?", "What number of {i} does {a} have?")
STEPS = (
    "{a}: {e}={r}.",
    "{a} has {e}={r}{u}.",
    "{e}={r}, so {a} has {r}{u}.",
    "That gives {a} {e}={r}{u}.",
    "{a}={e}={r}.",
    "Then {a} has {e}={r}{u}.",
    "Since {e}={r}, {a} has {r}{u}.",
)
RESTATED = ("{a} has {r}{u}.", "{a}: {r}.", "We know {a} has {r}{u}.", "{a}={r}.")
# Solutions end with the first: among endings of many lengths, rebuilds mix them. The rest is read.
CLOSINGS = ("#### {r}", "The answer is {r}.", "So the answer is {r}.", "Answer: {r}")
DEPARTURE, ATTEMPTS = 0.02, 4

# What a template may hold, as it is read back; a name or number said twice must be the same.
GROUPS = {
    "a": r"(?P<a>[A-Z][a-z]+)",
    "e": r"(?P<e>\d+[-+*/]\d+)",
    "r": r"(?P<r>\d+)",
    "u": r"(?: (?P<u>[a-z]+))?",
}


class Cast(NamedTuple):
    """Who has the quantities, in their order, and of what."""

    names: list[str]
    item: str


class Author(NamedTuple):
    """How one solution is written."""

    step: str
    restated: str | None  # None: given facts are not repeated
    named_unit: bool
    swapped: bool  # the operands of sums and products come in the other order
    closing: str
    departure: float


def reader(template: str, groups: dict[str, str] = GROUPS) -> re.Pattern[str]:
    """Return the pattern that reads back what `template` writes."""
    seen: set[str] = set()

    def group(match: re.Match[str]) -> str:
        again = match[1] in seen
        seen.add(match[1])
        return f"(?P={match[1]})" if again else groups[match[1]]

    return re.compile(re.sub(r"\\\{(\w+)\\\}", group, re.escape(template)))


def sentences(text: str) -> list[str]:
    """Return the sentences of `text`: a full stop before a blank ends one."""
    return re.split(r"(?<=\.)\s+", text.strip())


def state(cast: Cast, index: int, quantity: Quantity, template: str, unit: str) -> str:
    """Return the statement of one quantity."""
    number = quantity.value if quantity.relation == "given" else quantity.right
    a, b = cast.names[index], cast.names[quantity.left]
    c = cast.names[quantity.right] if quantity.relation == "sum" else ""
    return template.format(a=a, b=b, c=c, n=number, u=unit, i=cast.item)


def distract(rng: random.Random, quantities: list[Quantity], size: ProblemSize) -> list[Quantity]:
    """Return the quantities and a few that nobody needs."""
    crowd = list(quantities)
    for _ in range(between(rng, *size.distractors)):
        source = int(rng.random() * len(crowd))
        fresh = rng.random() < 0.4
        crowd.append(given(rng) if fresh else follow(rng, source, crowd[source], size.largest))
    return crowd


def pose(
    rng: random.Random, quantities: list[Quantity], cast: Cast, size: ProblemSize
) -> tuple[str, list[Quantity]]:
    """Return a prompt within its budget and the quantities it states, distractors last."""
    target = cast.names[len(quantities) - 1]
    room = min(size.prompt, size.together - shortest_solution(quantities))
    units = (f" {cast.item}", "", "")
    for _ in range(ATTEMPTS):
        crowd = distract(rng, quantities, size)
        parts = [
            state(cast, index, quantity, pick(rng, STATEMENTS[quantity.relation]), pick(rng, units))
            for index, quantity in enumerate(crowd)
        ]
        rng.shuffle(parts)
        parts.append(pick(rng, QUESTIONS).format(a=target, i=cast.item, u=pick(rng, units)))
        prompt = " ".join(parts)
        if size.shortest <= count_pieces(prompt) <= room:
            return prompt, crowd
    parts = [
        state(cast, k, stated, STATEMENTS[stated.relation][0], "")
        for k, stated in enumerate(quantities)
    ]
    rng.shuffle(parts)
    return " ".join([*parts, QUESTIONS[0].format(a=target, u="")]), quantities


def draw_author(rng: random.Random) -> Author:
    """Return someone's way to write."""
    return Author(
        step=pick(rng, STEPS),
        restated=pick(rng, RESTATED) if rng.random() < 0.4 else None,
        named_unit=rng.random() < 0.35,
        swapped=rng.random() < 0.3,
        closing=CLOSINGS[0],
        departure=DEPARTURE,
    )


TERSE = Author(STEPS[0], None, False, False, CLOSINGS[0], 0.0)


def in_some_order(rng: random.Random, quantities: Sequence[Quantity]) -> Iterator[int]:
    """Yield the indices so that each comes after its sources, otherwise at random."""
    waiting, placed = list(range(len(quantities))), set[int]()
    while waiting:
        ready = [k for k in waiting if all(s in placed for s in operands(quantities[k]))]
        chosen = pick(rng, ready)
        waiting.remove(chosen)
        placed.add(chosen)
        yield chosen


def write(rng: random.Random, quantities: Sequence[Quantity], cast: Cast, author: Author) -> str:
    """Return the author's solution."""
    parts = []
    unit = f" {cast.item}" if author.named_unit else ""
    for index in in_some_order(rng, quantities):
        quantity = quantities[index]
        departs = rng.random() < author.departure
        said = {"a": cast.names[index], "r": quantity.value, "u": unit}
        if quantity.relation != "given":
            wording = pick(rng, STEPS) if departs else author.step
            written = computations(quantities, quantity)[-1 if author.swapped else 0]
            parts.append(wording.format(e=written, **said))
        elif author.restated is not None:
            wording = pick(rng, RESTATED) if departs else author.restated
            parts.append(wording.format(**said))
    parts.append(author.closing.format(r=quantities[-1].value))
    return " ".join(parts)


def solve(rng: random.Random, quantities: Sequence[Quantity], cast: Cast, room: int) -> str:
    """Return a solution of at most `room` pieces."""
    for _ in range(ATTEMPTS):
        solution = write(rng, quantities, cast, draw_author(rng))
        if count_pieces(solution) <= room:
            return solution
    return write(rng, quantities, cast, TERSE)


STEP_READERS = tuple(reader(template) for template in STEPS)
RESTATED_READERS = tuple(reader(template) for template in RESTATED)
CLOSING_READERS = tuple(reader(template) for template in CLOSINGS)


def read(readers: Sequence[re.Pattern[str]], sentence: str) -> dict[str, str | None] | None:
    """Return the groups of the first reader that takes the whole sentence."""
    for known in readers:
        match = known.fullmatch(sentence)
        if match:
            return match.groupdict()
    return None


def right_step(facts: Mapping[str, Any], said: dict[str, str | None]) -> bool:
    """Say whether a step or a restated fact is true: value, unit and computation."""
    name = said["a"]
    if said["r"] != str(facts["values"].get(name)) or said.get("u") not in (None, facts["item"]):
        return False
    return "e" not in said or said["e"] in facts["steps"].get(name, ())


class WordMath(Generated):
    """Word problems of one to five computation steps."""

    name = "wordmath"
    canvases = tuple(size.canvas for size in SIZES.values())

    def make(self, identity: str, level: str, split: Split) -> Problem:
        size = SIZES[level]
        quantities, rng = draw(
            lambda source: structure(source, size), lambda drawn: drawn[-1].key, identity, split
        )
        names = rng.sample(NAMES, len(quantities) + max(size.distractors))
        cast = Cast(names, pick(rng, ITEMS))
        prompt, crowd = pose(rng, quantities, cast, size)
        room = min(size.solution, size.together - count_pieces(prompt))
        computed = [k for k, quantity in enumerate(crowd) if quantity.relation != "given"]
        return Problem(
            id=identity,
            task=self.name,
            level=level,
            prompt=prompt,
            gold=str(quantities[-1].value),
            solution=solve(rng, quantities, cast, room),
            facts={
                "key": quantities[-1].key,
                "item": cast.item,
                "values": {names[k]: quantity.value for k, quantity in enumerate(crowd)},
                "steps": {names[k]: computations(crowd, crowd[k]) for k in computed},
                "needed": [names[k] for k in computed if k < len(quantities)],
            },
        )

    def extract(self, text: str) -> str | None:
        """Return the final number of `text`."""
        return extract_number(text)

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the final number is right, and how that was found."""
        return compared(find_number(text), problem.gold, "number")

    def process_ok(self, problem: Problem, text: str) -> bool:
        """Say whether the answer and every step are right and no needed step is missing.

        A step is right when it gives the person the true value by the computation the problem
        states; a sentence in none of the known wordings makes the whole solution wrong.
        """
        *steps, closing = sentences(text)
        if read(CLOSING_READERS, closing) is None or not self.grade(problem, text):
            return False
        missing = set(problem.facts["needed"])
        for sentence in steps:
            computed = read(STEP_READERS, sentence)
            said = computed or read(RESTATED_READERS, sentence)
            if said is None or not right_step(problem.facts, said):
                return False
            if computed:
                missing.discard(str(said["a"]))
        return not missing
