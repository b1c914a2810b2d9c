"""The grammar of answers: the same for a seed, and true to itself. It knows no reader."""

import ast
import re
from fractions import Fraction
from pathlib import Path

import grammar
import pytest

COUNT = 400


@pytest.mark.parametrize("task", grammar.TASKS)
def test_a_seed_gives_the_same_answers_and_another_others(task: str) -> None:
    drawn = list(grammar.items(task, COUNT, seed=3))
    assert drawn == list(grammar.items(task, COUNT, seed=3))
    assert drawn != list(grammar.items(task, COUNT, seed=4))
    assert drawn[:50] == list(grammar.items(task, 50, seed=3)), "a longer draw begins alike"


@pytest.mark.parametrize("task", grammar.TASKS)
def test_there_are_at_least_thirty_forms_and_some_are_unreadable(task: str) -> None:
    drawn = list(grammar.items(task, 2000))
    assert len({item.form for item in drawn}) >= 30
    unreadable = [item for item in drawn if item.truth is None]
    assert 0.03 < len(unreadable) / len(drawn) < 0.3
    assert len({item.form for item in unreadable}) >= 5


def test_truths_are_of_their_kind() -> None:
    for item in grammar.items("gsm8k", COUNT):
        assert item.truth is None or str(Fraction(item.truth)) == item.truth
    for item in grammar.items("arc", COUNT):
        assert item.truth is None or item.truth in item.facts["letters"]
    for item in grammar.items("countdown", COUNT):
        assert item.truth is None or re.fullmatch(r"[0-9 ()+*/-]+", item.truth)
    for task in ("mbpp", "humaneval"):
        for item in grammar.items(task, COUNT):
            names = [node.name for node in ast.parse(item.truth or "").body]  # type: ignore[attr-defined]
            assert names == ([] if item.truth is None else [item.facts["name"]])
    for item in grammar.items("math500", COUNT):
        assert item.truth not in item.others


def test_the_grammar_knows_nothing_of_the_readers() -> None:
    for path in Path(grammar.__file__).parent.glob("*.py"):
        imported = [
            n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)
        ]
        assert not [n.module for n in imported if (n.module or "").startswith("remask")]
