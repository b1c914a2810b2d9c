"""Pycode: programs, their descriptions, and judging by hidden tests."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.tasks.base import Problem, count_pieces
from remask.tasks.program import Program, draw_program, key_of
from remask.tasks.pycode import PyCode, reference_tests

TASK = PyCode()
PROBLEM = Problem(
    id="hand",
    task="pycode",
    level="medium",
    prompt="Write a Python function f(xs) that returns the sum of the numbers above 7.",
    gold="",
    solution="",
    facts={"source": "list", "ops": (("above", 7), ("sum", 0))},
)
RIGHT = "def f(xs):\n    return sum(x for x in xs if x > 7)"


@pytest.mark.parametrize(
    ("source", "ops", "arguments", "expected"),
    [
        ("list", (("even", 0), ("square", 0)), ([1, 2, -4], ), [4, 16]),
        ("list", (("square", 0), ("below", 9)), ([1, 2, -4],), [1, 4]),
        ("list", (("largest", 0), ("plus", 3)), ([],), 3),
        ("list", (("last", 2), ("product", 0)), ([5, 6, 7],), 42),
        ("list", (("unique", 0),), ([3, 1, 3],), [3, 1]),
        ("list", (("each positive", 0),), ([],), True),
        ("list", (("any above", 2),), ([1, 2],), False),
        ("range", (("divisible", 3), ("count", 0)), (10,), 3),
        ("span", (("odd", 0), ("sum", 0)), (-3, 3), 0),
        ("text", (("remove", "a"), ("length", 0)), ("banana",), 3),
        ("number", (("squared", 0), ("minus", 1)), (5,), 24),
    ],
)  # fmt: skip
def test_the_reference_does_what_the_operations_say(
    source: str,
    ops: tuple[tuple[str, object], ...],
    arguments: tuple[object, ...],
    expected: object,
) -> None:
    assert Program(source=source, ops=ops).run(arguments) == expected


@pytest.mark.parametrize("level", TASK.levels)
@pytest.mark.parametrize("split", ["train", "test"])
def test_generated_solutions_agree_with_the_reference(level: str, split: str) -> None:
    for index in range(300):
        problem = TASK.problem(index, level=level, split=split)  # type: ignore[arg-type]
        space: dict[str, object] = {}
        exec(problem.solution, space)
        tests = reference_tests(problem, 25)
        assert all(test.startswith("assert ") for test in tests)
        assert tests
        for test in tests:
            exec(test, space)


@pytest.mark.parametrize("level", TASK.levels)
def test_generated_solutions_pass_in_the_child(level: str) -> None:
    problems = [TASK.problem(i, level=level, seed=5) for i in range(10)]
    assert all(TASK.grade_many(problems, [p.solution for p in problems]))
    assert TASK.process_ok(problems[0], problems[0].solution)


@pytest.mark.parametrize(
    "code",
    [
        RIGHT,
        "def f(a):\n  t = 0\n  for b in a:\n    if not b <= 7:\n      t += b\n  return t",
        "f = lambda xs: sum(filter((7).__lt__, xs))",
    ],
)
def test_any_right_function_is_right(code: str) -> None:
    assert TASK.grade(PROBLEM, code)
    assert TASK.process_ok(PROBLEM, code)


@pytest.mark.parametrize(
    "code",
    [
        "def f(xs):\n    return sum(x for x in xs if x >= 7)",
        "def f(xs):\n    return sum(x for x in xs if x > 8)",
        "def f(xs):\n    return sum(xs)",
        "def f(xs):\n    return max(x for x in xs if x > 7)",
        "def f(xs):\n    return [x for x in xs if x > 7]",
        "def g(xs):\n    return sum(x for x in xs if x > 7)",
        "def f(xs):\n    print(sum(x for x in xs if x > 7))",
        "def f(xs)\n    return 0",
        "import os\nos._exit(0)",
        "",
    ],
)
def test_a_wrong_function_is_wrong(code: str) -> None:
    assert not TASK.grade(PROBLEM, code)
    assert not TASK.process_ok(PROBLEM, code)


def test_a_bound_that_is_off_by_one_is_noticed() -> None:
    """The hidden inputs hold the constant itself and its neighbours."""
    problems = [
        Problem(
            id=f"hand/{k}", task="pycode", level="easy", prompt="", gold="", solution="",
            facts={"source": "list", "ops": (("above", k),)},
        )
        for k in range(1, 9)
    ]  # fmt: skip
    codes = [f"def f(xs):\n    return [x for x in xs if x >= {k}]" for k in range(1, 9)]
    assert not any(TASK.grade_many(problems, codes))


def test_names_and_layout_do_not_change_the_form() -> None:
    one = TASK.extract(RIGHT)
    other = TASK.extract("def f(values):\n  return sum( v for v in values if v>7 )")
    assert one is not None
    assert one == other
    assert one != TASK.extract(RIGHT.replace("7", "8"))
    assert one != TASK.extract(RIGHT.replace("if x", "if xs"))


@pytest.mark.parametrize("text", ["", "hello", "def f(:", "x = 1", "\x00", "-" * 1999 + "1"])
def test_what_is_no_function_has_no_form(text: str) -> None:
    assert TASK.extract(text) is None


@given(st.text() | st.text("def(x):\n +-[]\\'\"1"))
def test_extraction_never_raises(text: str) -> None:
    TASK.extract(text)
    TASK.extract("def f(x):\n    return " + text)


@pytest.mark.parametrize("level", TASK.levels)
def test_prompts_and_solutions_fit(level: str) -> None:
    longest_prompt, longest = (84, 94) if level == "hard" else (80, 62)
    for index in range(400):
        problem = TASK.problem(index, level=level, split="train", seed=2)
        assert count_pieces(problem.prompt) <= longest_prompt
        assert count_pieces(problem.solution) <= longest < TASK.canvas_length(level)
        assert problem.gold == TASK.extract(problem.solution) != ""
        assert (problem.prompt + problem.solution).isascii()


def test_one_function_is_written_in_many_ways() -> None:
    written: dict[str, set[str]] = {}
    for index in range(3000):
        problem = TASK.problem(index, split="train", level="easy")
        written.setdefault(str(problem.facts), set()).add(problem.gold)
    assert max(map(len, written.values())) >= 4


def test_bounds_and_the_order_of_filters_share_a_key() -> None:
    """x >= 5 is x > 4 over integers, and two filters commute."""
    one = Program(source="list", ops=(("even", 0), ("least", 5)))
    other = Program(source="list", ops=(("above", 4), ("even", 0)))
    third = Program(source="list", ops=(("above", 5), ("even", 0)))
    assert key_of(one) == key_of(other) != key_of(third)


def test_the_splits_share_no_function() -> None:
    def keys(split: str) -> set[str]:
        problems = [TASK.problem(i, split=split, level="easy") for i in range(400)]  # type: ignore[arg-type]
        return {key_of(Program(**p.facts)) for p in problems}

    train, validation, test = keys("train"), keys("validation"), keys("test")
    assert not train & test
    assert not train & validation
    assert not validation & test
    assert min(len(validation), len(test)) >= 30


def test_no_program_fills_a_split() -> None:
    """A function drawn often would be most of the five per cent it falls into."""
    rng = random.Random(0)
    for level in TASK.levels:
        keys = [key_of(draw_program(rng, level)) for _ in range(4000)]
        assert max(map(keys.count, set(keys))) <= 40


def test_hard_problems_are_longer_than_trained_ones() -> None:
    def mean(level: str) -> float:
        return sum(count_pieces(TASK.problem(i, level=level).solution) for i in range(100)) / 100

    assert mean("easy") < mean("medium") < mean("hard")


def test_a_problem_is_named_by_its_identity_alone() -> None:
    assert TASK.problem(7, level="hard", seed=1) == TASK.problem(7, level="hard", seed=1)
    assert TASK.problem(7, level="hard", seed=1) != TASK.problem(7, level="hard", seed=2)
