"""Example problems with right, flawed and wrong answers.

By default, problems come first whose solution the embedded model accepts by round trips and by the
verifier; `tests/test_embedded.py` verifies them.
"""

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Literal

from remask.serve.responses import Response
from remask.tasks import TASKS
from remask.tasks.base import Problem
from remask.tasks.flaws import KINDS, inject

Label = Literal["right", "flawed", "wrong"]
ACCEPTED: dict[str, dict[str, tuple[int, ...]]] = {  # numbers of problems, by task and level
    "wordmath": {"easy": (2, 6, 8, 10), "medium": (0, 2, 3, 4), "hard": (1, 2, 4, 6)},
    "countdown": {"easy": (5, 15, 17, 21), "medium": (4, 22, 46, 68)},  # none of 90 hard ones
    "choice": {"easy": (1, 6, 8, 9), "medium": (0, 3, 4, 5), "hard": (2, 3, 4, 9)},
    "pycode": {"easy": (0, 5, 6, 7), "medium": (1, 3, 7, 13), "hard": (26, 54)},
}


class ExampleAnswer(Response):
    """An example answer."""

    label: Label
    text: str


class ExampleProblem(Response):
    """An example problem."""

    id: str
    task: str
    level: str
    seed: int
    kind: str
    prompt: str
    gold: str
    answers: list[ExampleAnswer]


class ExampleList(Response):
    """Response of GET /v1/examples."""

    object: Literal["list"]
    data: list[ExampleProblem]


def example_list(names: Sequence[str], level: str, num: int, seed: int | None) -> ExampleList:
    """Return `num` problems of each task, from number `seed` on, or accepted ones first."""
    data = []
    for name in names:
        numbers = _inviting(name, level or TASKS[name].levels[0]) if seed is None else count(seed)
        data += [_example(name, level, number) for number in islice(numbers, num)]
    return ExampleList(object="list", data=data)


def _inviting(name: str, level: str) -> Iterator[int]:
    """Yield all problem numbers, those with an accepted solution first."""
    first = ACCEPTED.get(name, {}).get(level, ())
    yield from first
    yield from (number for number in count() if number not in first)


def _example(name: str, level: str, seed: int) -> ExampleProblem:
    task = TASKS[name]
    problem = task.problem(seed, split="test", level=level)
    other = task.problem(seed + 1, split="test", level=level)
    texts: list[tuple[Label, str | None]] = [
        ("right", problem.solution),
        ("flawed", _flawed(problem)),
        ("wrong", other.solution),
    ]
    return ExampleProblem(
        id=problem.id,
        task=name,
        level=problem.level,
        seed=seed,
        kind=name,
        prompt=problem.prompt,
        gold=problem.gold,
        answers=[ExampleAnswer(label=label, text=text) for label, text in texts if text],
    )


def _flawed(problem: Problem) -> str | None:
    """Return the right result with a wrong step, if the task has steps."""
    flawed = (inject(problem, problem.solution, kind) for kind in KINDS)
    return next((text for text in flawed if text is not None), None)
