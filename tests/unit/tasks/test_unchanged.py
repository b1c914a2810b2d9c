"""Generated tasks read their own answers as they always did: studies and pages rest on it.

The readers learnt what real models write. On texts in the wording of the generated tasks, right,
flawed or damaged, they must say what this one rule says: the last closing has the answer.
"""

import random
import re

import pytest

from remask.tasks import TASKS
from remask.tasks.flaws import KINDS, inject

CLOSED = {
    "wordmath": re.compile(r"(?:####|[Aa]nswer is|Answer:) ([0-9]+)"),
    "choice": re.compile(r"(?:[Aa]nswer is|Answer:) ([A-D])\b"),
    "countdown": re.compile(r"(?:[Aa]nswer is|Answer:) ([0-9(][0-9+\-*/() ]*)"),
}


def closing(task: str, text: str) -> str | None:
    """Return what stands after the last closing, by the one rule."""
    stated = CLOSED[task].findall(text)
    return stated[-1].strip() if stated else None


def same(task: str, text: str) -> bool:
    read, stated = TASKS[task].extract(text), closing(task, text)
    if task == "countdown":
        return read == TASKS[task].extract(f"Answer: {stated}")
    return read == (stated.lstrip("0") or stated if stated else None)


@pytest.mark.parametrize("task", CLOSED)
@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_solutions_are_read_as_before(task: str, level: str) -> None:
    for index in range(150):
        problem = TASKS[task].problem(index, level=level, seed=9)
        assert TASKS[task].extract(problem.solution) == problem.gold
        assert same(task, problem.solution), problem.solution


@pytest.mark.parametrize("task", CLOSED)
def test_flawed_and_damaged_solutions_are_read_as_before(task: str) -> None:
    """Flaws are injected; damage repeats words of the solution before its closing."""
    checked = 0
    for index in range(120):
        problem = TASKS[task].problem(index, level="medium", seed=10)
        texts = [inject(problem, problem.solution, kind) for kind in KINDS]
        rng = random.Random(index)
        words = problem.solution.split(" ")
        for _ in range(4):
            place = rng.randrange(max(1, len(words) - 3))
            damaged = [*words[:place], rng.choice(words[: len(words) - 3] or words), *words[place:]]
            texts.append(" ".join(damaged))
        for text in filter(None, texts):
            checked += 1
            assert same(task, text), text
    assert checked > 400


@pytest.mark.parametrize("task", CLOSED)
def test_a_solution_that_is_cut_before_its_closing_is_still_read(task: str) -> None:
    """What tier 3 reads of it: the last number, a letter at the end or the last expression."""
    for index in range(60):
        problem = TASKS[task].problem(index, level="easy", seed=11)
        head = re.split(r"####|(?:So |Therefore )?(?:[Tt]he a|A)nswer", problem.solution)[0].strip()
        read = TASKS[task].extract(head)
        if task == "wordmath":
            assert read == re.findall("[0-9]+", head)[-1].lstrip("0")
        elif task == "choice":
            assert read is None or read in "ABCD"
        else:
            last = [e for e in re.findall(r"[0-9(][0-9+\-*/() ]*", head) if re.search(r"[-+*/]", e)]
            assert read == TASKS[task].extract(f"Answer: {last[-1]}")
