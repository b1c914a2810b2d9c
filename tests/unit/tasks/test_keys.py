"""Tasks whose problems have a key: it decides the split, and an identity decides the problem."""

import pytest

from remask.tasks.base import SPLITS, split_of
from remask.tasks.choice import Choice
from remask.tasks.wordmath import WordMath

TASKS = (Choice(), WordMath())
NUMBERS = range(300)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_splits_share_no_key(task: Choice | WordMath, level: str) -> None:
    keys = {
        split: {task.problem(i, split=split, level=level).facts["key"] for i in NUMBERS}
        for split in SPLITS
    }
    assert not keys["train"] & keys["test"]
    assert not keys["train"] & keys["validation"]
    assert not keys["validation"] & keys["test"]
    assert all(split_of(key) == split for split in SPLITS for key in keys[split])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_same_identity_gives_the_same_problem_and_another_seed_another(
    task: Choice | WordMath,
) -> None:
    assert task.problem(7, level="hard", seed=3) == task.problem(7, level="hard", seed=3)
    assert task.problem(7, level="hard", seed=3).prompt != task.problem(7, level="hard").prompt
