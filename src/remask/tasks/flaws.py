"""Flaws written into right solutions: a wrong step on the way to the right answer.

The paper shows four kinds of spurious success (Figure 7), one case each. Here each kind is a rule:

    fabrication          a computation of invented numbers, a person nobody mentioned
    wrong_entity         what belongs to one person is said of another
    skipped_constraint   a step is left out, and what follows no longer mentions it
    token_drift          one digit, operator or word like "taller", "yes" is changed

Wordings stay those of right solutions, so that a flaw is not betrayed by its form. What comes back
has the right final answer and a wrong step by the task's own graders, or is None. Word problems are
here, deduction is in `choice_flaws`; other tasks have no steps to spoil.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from remask.answers import numbers
from remask.errors import TaskError
from remask.settings import unknown_name
from remask.tasks.base import Problem, Task
from remask.tasks.choice import Choice
from remask.tasks.choice_flaws import CHOICE_FLAWS
from remask.tasks.wordmath import RESTATED_READERS, STEP_READERS, WordMath, sentences

KINDS = ("fabrication", "wrong_entity", "skipped_constraint", "token_drift")
LARGEST = 99  # of an invented number: those of word problems have two digits
OPERATORS = "+-*/"

Maker = Callable[[Problem, Sequence[str]], Iterator[list[str]]]  # sentences -> flawed ones


def inject(problem: Problem, solution: str, kind: str, seed: int = 0) -> str | None:
    """Return `solution` with one flaw of a kind; None where it does not apply.

    It does not apply to a solution that is not right in every step, to tasks without steps, and
    where no flaw of this kind leaves the answer right. The same arguments give the same text.
    """
    if kind not in KINDS:
        raise unknown_name("flaw", kind, KINDS, error=TaskError)
    if problem.task not in MAKERS or not TASKS[problem.task].process_ok(problem, solution):
        return None
    flawed = MAKERS[problem.task][kind](problem, sentences(solution))
    made = [" ".join(each) for each in flawed]
    random.Random(f"{problem.id}/{kind}/{seed}").shuffle(made)
    return next((text for text in made if is_flawed(problem, text)), None)


def is_flawed(problem: Problem, text: str) -> bool:
    """Say whether `text` has the right answer and a wrong step."""
    task = TASKS[problem.task]
    return task.grade(problem, text) and not task.process_ok(problem, text)


def steps(solution: Sequence[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield the place of each computation or restated fact, and how it is read."""
    for place, sentence in enumerate(solution[:-1]):
        readings = (known.fullmatch(sentence) for known in (*STEP_READERS, *RESTATED_READERS))
        match = next(filter(None, readings), None)
        if match is not None:
            yield place, match


def put(
    solution: Sequence[str], place: int, match: re.Match[str], group: str, new: str
) -> list[str]:
    """Return the sentences with one group of one sentence replaced."""
    start, end = match.span(group)
    sentence = solution[place]
    return [*solution[:place], sentence[:start] + new + sentence[end:], *solution[place + 1 :]]


def fabricate(problem: Problem, solution: Sequence[str]) -> Iterator[list[str]]:
    """Yield solutions in which one result is computed from numbers found nowhere else."""
    known = {*numbers(problem.prompt), *map(str, problem.facts["values"].values())}
    free = [n for n in range(2, LARGEST + 1) if str(n) not in known]
    for place, match in steps(solution):
        if "e" not in match.groupdict():
            continue
        result = int(match["r"])
        for n in free:
            if result - n in free:
                yield put(solution, place, match, "e", f"{n}+{result - n}")
            if n - result in free:
                yield put(solution, place, match, "e", f"{n}-{n - result}")


def mistake_entity(problem: Problem, solution: Sequence[str]) -> Iterator[list[str]]:
    """Yield solutions in which one step is about another person of the problem."""
    for place, match in steps(solution):
        for name in problem.facts["values"]:
            if name != match["a"]:
                yield put(solution, place, match, "a", name)


def skip_constraint(problem: Problem, solution: Sequence[str]) -> Iterator[list[str]]:
    """Yield solutions in which one needed value is used and never computed; not the last one."""
    computed = [(place, match["a"]) for place, match in steps(solution) if "e" in match.groupdict()]
    for name in problem.facts["needed"][:-1]:
        dropped = {place for place, person in computed if person == name}
        yield [sentence for place, sentence in enumerate(solution) if place not in dropped]


def drift(problem: Problem, solution: Sequence[str]) -> Iterator[list[str]]:
    """Yield solutions in which one digit or operator of a step is another one."""
    for place, _ in steps(solution):
        sentence = solution[place]
        for match in re.finditer(r"\d|(?<=\d)[-+*/](?=\d)", sentence):
            is_first = not sentence[match.start() - 1 : match.start()].isdigit()
            others = OPERATORS if match[0] in OPERATORS else "123456789" + "0" * (not is_first)
            for new in others.replace(match[0], ""):
                changed = sentence[: match.start()] + new + sentence[match.end() :]
                yield [*solution[:place], changed, *solution[place + 1 :]]


TASKS: Mapping[str, Task] = {"wordmath": WordMath(), "choice": Choice()}
MAKERS: Mapping[str, Mapping[str, Maker]] = {
    "wordmath": {
        "fabrication": fabricate,
        "wrong_entity": mistake_entity,
        "skipped_constraint": skip_constraint,
        "token_drift": drift,
    },
    "choice": CHOICE_FLAWS,
}
