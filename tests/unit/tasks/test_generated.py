"""Generated tasks: an identity decides the problem, a key its split, and the solution is right."""

import json

import pytest

from remask.errors import TaskError
from remask.tasks import choice, quantities
from remask.tasks.base import SPLITS, Generated, Problem, count_pieces, split_of
from remask.tasks.choice import Choice
from remask.tasks.countdown import Countdown
from remask.tasks.wordmath import WordMath

NUMBERS = range(300)
SIZES = {"choice": choice.SIZES, "wordmath": quantities.SIZES}
LEVELS = ("easy", "medium", "hard")
each_task = pytest.mark.parametrize(
    "task", [Choice(), WordMath(), Countdown()], ids=lambda task: task.name
)


def key_of(problem: Problem) -> str:
    facts = problem.facts
    if problem.task == "countdown":
        return f"countdown {sorted(facts['numbers'])} {facts['target']}"
    return str(facts["key"])


@each_task
@pytest.mark.parametrize("level", LEVELS)
def test_splits_share_no_key_and_solutions_are_right_in_every_step(
    task: Generated, level: str
) -> None:
    for split in SPLITS:
        for index in NUMBERS:
            problem = task.problem(index, split=split, level=level)
            assert split_of(key_of(problem)) == split
            assert task.extract(problem.solution) == problem.gold
            assert task.process_ok(problem, problem.solution), problem


@each_task
def test_an_identity_decides_the_problem(task: Generated) -> None:
    assert task.problem(7, level="hard", seed=3) == task.problem(7, level="hard", seed=3)
    assert task.problem(7, level="hard", seed=3).prompt != task.problem(7, level="hard").prompt
    assert task.problem(0).level == "easy"


@pytest.mark.parametrize("task", [Choice(), WordMath()], ids=lambda task: task.name)
@pytest.mark.parametrize("level", LEVELS)
def test_prompts_and_solutions_keep_their_budgets(task: Generated, level: str) -> None:
    size = SIZES[task.name][level]
    for index in range(600):
        problem = task.problem(index, split="train", level=level, seed=1)
        prompt, solution = count_pieces(problem.prompt), count_pieces(problem.solution)
        assert prompt <= size.prompt
        assert solution <= size.solution < task.canvas_length(level)
        assert prompt + solution <= size.together


@pytest.mark.parametrize("task", [Choice(), WordMath()], ids=lambda task: task.name)
def test_facts_survive_json(task: Generated) -> None:
    facts = task.problem(0, level="hard").facts
    assert json.loads(json.dumps(facts)) == facts


@each_task
def test_an_unknown_level_is_named(task: Generated) -> None:
    with pytest.raises(TaskError, match="'extreme'"):
        task.problem(0, level="extreme")
