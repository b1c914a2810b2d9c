"""Flaws in the deductions of `choice`: sentences in, sentences with one flaw out.

A ranking is given in links between two people or in chains of more; a thing goes along a path of
hands, move by move or as one route. Sentences are read back with the templates that word them
and worded again with other people. Which flaws there are, and whether one was made: see `flaws`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from remask.tasks.base import Problem
from remask.tasks.choice import (
    CHAINS,
    CHAINS_UP,
    CHECK_READERS,
    COMPARISONS,
    FLIPPED,
    LINKS,
    LINKS_UP,
    MOVES,
    ORDER_READERS,
    PASSES,
    ROUTES,
    STARTS,
    TRACK_READERS,
    ranked,
)
from remask.tasks.puzzle import OBJECTS
from remask.tasks.wordmath import NAMES

ORDER_TEMPLATES = (*LINKS, *LINKS_UP, *CHAINS, *CHAINS_UP, *COMPARISONS, *FLIPPED)
CHAIN = {"down": " > ", "up": " < ", "list": ", ", "route": " to "}  # what stands between names
FLIPS = {">": "<", "above": "below", "yes": "no"}

Solutions = Iterator[list[str]]  # solutions as sentences
Maker = Callable[[Problem, Sequence[str]], Solutions]
Path = tuple[list[str], Sequence[str]]  # hands, and the wordings of the moves between them


class Sentence(NamedTuple):
    """A sentence as its template and what fills it."""

    template: str
    said: Mapping[str, str]

    @property
    def chain(self) -> str | None:
        """The field that holds several names; None for a link or a single move."""
        return next((field for field in CHAIN if field in self.said), None)

    def again(self, **changed: str) -> str:
        """Return it in other words."""
        return self.template.format(**{**self.said, **changed})


class Deduction(NamedTuple):
    """A right solution, taken apart."""

    steps: list[Sentence]  # what is derived from the prompt
    rest: list[str]  # the verdict, the options that were checked, the closing


def take_apart(problem: Problem, solution: Sequence[str]) -> Deduction:
    """Return the steps of a right solution as sentences that can be worded again, and the rest."""
    end = len(solution) - 1
    while CHECK_READERS[0].fullmatch(solution[end - 1]):
        end -= 1
    kind = problem.facts["kind"]
    if kind == "order":
        known = list(zip(ORDER_TEMPLATES, ORDER_READERS, strict=True))
    else:
        templates = (*STARTS, *PASSES, MOVES[kind], *ROUTES)
        known = list(zip(templates, TRACK_READERS[kind], strict=True))
    steps = []
    for sentence in solution[: end - 1]:
        reads = ((template, reader.fullmatch(sentence)) for template, reader in known)
        template, match = next((t, m) for t, m in reads if m)
        steps.append(Sentence(template, match.groupdict()))
    return Deduction(steps, list(solution[end - 1 :]))


def strangers(problem: Problem) -> list[str]:
    """Return the names that the prompt does not have."""
    present = set(re.findall(r"[A-Z][a-z]+", problem.prompt))
    return [name for name in NAMES if name not in present]


def by_kind(
    order: Callable[[Problem, Deduction], Solutions], track: Callable[..., Solutions]
) -> Maker:
    """Return the maker that uses one function for rankings and the other for paths."""

    def make(problem: Problem, solution: Sequence[str]) -> Solutions:
        own = order if problem.facts["kind"] == "order" else track
        return own(problem, take_apart(problem, solution))

    return make


def replaced(deduction: Deduction, place: int, *sentences: str) -> list[str]:
    """Return the solution with one step worded otherwise."""
    solution = [step.again() for step in deduction.steps]
    return [*solution[:place], *sentences, *solution[place + 1 :], *deduction.rest]


def invent_rank(problem: Problem, deduction: Deduction) -> Solutions:
    """Yield rankings that place somebody whom the problem does not know."""
    for place, step in enumerate(deduction.steps):
        for name in strangers(problem):
            if step.chain is None:
                yield replaced(deduction, place, step.again(), step.again(b=name))
            else:
                between = CHAIN[step.chain]
                names = step.said[step.chain].split(between)
                for k in range(1, len(names)):
                    crowd = between.join([*names[:k], name, *names[k:]])
                    yield replaced(deduction, place, step.again(**{step.chain: crowd}))


def misplace(problem: Problem, deduction: Deduction) -> Solutions:
    """Yield rankings in which one person stands where another does."""
    people = problem.facts["people"]
    for place, step in enumerate(deduction.steps):
        if step.chain is not None:
            between = CHAIN[step.chain]
            names = step.said[step.chain].split(between)
            for k in range(len(names) - 1):
                crossed = [*names[:k], names[k + 1], names[k], *names[k + 2 :]]
                yield replaced(deduction, place, step.again(**{step.chain: between.join(crossed)}))
            continue
        high, low = people.index(step.said["a"]), people.index(step.said["b"])
        for name in people[:high]:
            yield replaced(deduction, place, step.again(b=name))
        for name in people[low + 1 :]:
            yield replaced(deduction, place, step.again(a=name))


def leave_out(problem: Problem, deduction: Deduction) -> Solutions:
    """Yield rankings without one person, whose neighbours are then linked to each other."""
    facts = problem.facts
    for name in facts["people"]:
        if name in (facts["answer"], facts["asked"]):
            continue
        solution = list(_without(facts["people"], name, deduction.steps))
        if solution:
            yield [*solution, *deduction.rest]


def _without(people: Sequence[str], name: str, steps: Sequence[Sentence]) -> Iterator[str]:
    where = people.index(name)
    around = [*people[max(where - 1, 0) : where], *people[where + 1 : where + 2]]
    bridged = len(around) < 2
    for step in steps:
        if name not in ranked(dict(step.said)):
            yield step.again()
        elif step.chain is not None:
            between = CHAIN[step.chain]
            names = [n for n in step.said[step.chain].split(between) if n != name]
            if len(names) > 1:
                yield step.again(**{step.chain: between.join(names)})
        elif not bridged:
            bridged = True
            yield step.again(a=around[0], b=around[1])


class Route(NamedTuple):
    """The wordings of a path."""

    start: str
    moves: tuple[str, ...]  # one per move; none where the start tells the whole route
    thing: str

    def along(self, path: Sequence[str], moves: Sequence[str]) -> list[str]:
        """Return another path in these wordings; `moves` are those of its moves."""
        first = self.start.format(a=path[0], o=self.thing, route=" to ".join(path))
        if not self.moves:
            return [first]
        passes = zip(moves, pairwise(path), strict=True)
        return [first, *(move.format(a=a, b=b, o=self.thing) for move, (a, b) in passes)]


def route_of(deduction: Deduction, path: Sequence[str], thing: str) -> Route | None:
    """Return how the path is worded; None where no known wording fits."""
    first = deduction.steps[0]
    if len(deduction.steps) == 1 and first.chain == "route":
        return Route(first.template, (), thing)
    moves = deduction.steps[1:]
    if first.template not in STARTS or [move.said.get("b") for move in moves] != list(path[1:]):
        return None
    return Route(first.template, tuple(move.template for move in moves), thing)


def retold(
    problem: Problem, deduction: Deduction, change: Callable[..., Iterator[Path]]
) -> Solutions:
    """Yield the solution along every path that `change` makes of the true one."""
    true = problem.facts["path"]
    route = route_of(deduction, true, problem.facts["asked"])
    if route is not None:
        for path, moves in change(problem, true, route.moves):
            yield [*route.along(path, moves), *deduction.rest]


def _detours(problem: Problem, path: list[str], moves: Sequence[str]) -> Iterator[Path]:
    for k in range(1, len(path)):
        doubled = [*moves[:k], *moves[k - 1 :]]
        for name in strangers(problem):
            yield [*path[:k], name, *path[k:]], doubled


def _mistaken(problem: Problem, path: list[str], moves: Sequence[str]) -> Iterator[Path]:
    for k in range(len(path) - 1):
        for name in problem.facts["people"]:
            if name not in path[max(k - 1, 0) : k + 2]:
                yield [*path[:k], name, *path[k + 1 :]], moves


def _shortened(problem: Problem, path: list[str], moves: Sequence[str]) -> Iterator[Path]:
    for k in range(1, len(path) - 1):
        if path[k - 1] != path[k + 1]:
            yield [*path[:k], *path[k + 1 :]], [*moves[: k - 1], *moves[k:]]


def drift(problem: Problem, solution: Sequence[str]) -> Solutions:
    """Yield solutions in which one word or sign that decides is its opposite, or another thing."""
    words = problem.facts["words"]
    pairs = {**FLIPS}
    if "more" in words:
        pairs |= {words["more"]: words["less"], words["most"]: words["least"]}
    options = {a: [b] for a, b in (*pairs.items(), *((b, a) for a, b in pairs.items()))}
    if "o" in words:
        options[words["o"]] = [thing for thing in OBJECTS if thing != words["o"]]
    known = "|".join(map(re.escape, options))
    for place, sentence in enumerate(solution[:-1]):
        for match in re.finditer(rf"(?<!\w)({known})(?!\w)", sentence):
            for new in options[match[0]]:
                changed = sentence[: match.start()] + new + sentence[match.end() :]
                yield [*solution[:place], changed, *solution[place + 1 :]]


CHOICE_FLAWS: Mapping[str, Maker] = {
    "fabrication": by_kind(invent_rank, lambda p, d: retold(p, d, _detours)),
    "wrong_entity": by_kind(misplace, lambda p, d: retold(p, d, _mistaken)),
    "skipped_constraint": by_kind(leave_out, lambda p, d: retold(p, d, _shortened)),
    "token_drift": drift,
}
