"""What two answers are compared by: values and behaviour, where spelling would tell them apart."""

from pathlib import Path

import pytest

from remask.tasks import TASKS
from remask.tasks import task as find_task
from remask.tasks.base import Problem, answer_key, compared_by
from remask.tasks.execution import watch_calls
from remask.tasks.public.sampled import calls_in, calls_of_tests

COUNTDOWN, PYCODE = TASKS["countdown"], TASKS["pycode"]
PUZZLE = Problem(
    id="countdown/easy/test/0/0", task="countdown", level="easy", prompt="", gold="", solution="",
    facts={"numbers": (2, 3, 4), "target": 14},
)  # fmt: skip
PROMPT = '''
def largest(xs, n=1):
    """Return the largest.
    >>> largest([1, 5], n=2)
    5
    largest([3, (2)]) returns 3, not_largest([9]), other.largest([8]), largest(xs), largest()
    """
'''


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Answer: 2+3*4", "14"),
        ("Answer: (4+3)*2", "14"),  # another expression, the same value
        ("Answer: 2*3+4", "10"),
        ("Answer: 14", "14 of other numbers"),
        ("Answer: 4*3+2+0", "14 of other numbers"),
        ("Answer: 3/4/2", "3/8"),
        ("Answer: 2/(4-4)", None),  # no value, no vote
        ("nothing", None),
    ],
)
def test_countdown_compares_what_the_expression_makes(text: str, key: str | None) -> None:
    assert answer_key(COUNTDOWN, PUZZLE, text) == key


def test_the_target_has_no_part_in_a_vote() -> None:
    other = Problem(**{**PUZZLE.__dict__, "facts": {"numbers": (2, 3, 4), "target": 10}})
    assert answer_key(COUNTDOWN, other, "Answer: 2+3*4") == "14"


def test_a_task_that_says_nothing_compares_what_it_reads() -> None:
    task = TASKS["wordmath"]
    problem = task.problem(0)
    assert compared_by(task) == "spelling"
    assert answer_key(task, problem, problem.solution) == problem.gold
    assert [compared_by(TASKS[name]) for name in ("countdown", "pycode")] == ["value", "behaviour"]


def test_programs_are_compared_by_what_they_do() -> None:
    problem = PYCODE.problem(0, level="medium")
    right = answer_key(PYCODE, problem, problem.solution)
    body = problem.solution.partition("\n")[2]
    renamed = problem.solution.replace("def f(", "def g(") + "\nf = g\nunused = 1"
    assert right is not None
    assert answer_key(PYCODE, problem, renamed) == right
    assert PYCODE.extract(renamed) != PYCODE.extract(problem.solution)
    assert answer_key(PYCODE, problem, "def f(*a):\n    return None") not in (None, right)
    for broken in ("def f(", body, "def f(*a):\n    return 1 / 0", "import sys; sys.exit()"):
        assert answer_key(PYCODE, problem, broken) is None


def test_every_hidden_difference_is_not_in_sight_of_a_vote() -> None:
    """The sample inputs are drawn apart from those of the tests."""
    from remask.tasks.pycode import reference_tests, sample_calls

    problem = PYCODE.problem(3, level="hard")
    calls = sample_calls(problem)
    tests = " ".join(reference_tests(problem, 40))
    assert calls == sample_calls(problem)
    assert len(calls) == 8
    assert any(f"repr({call})" not in tests for call in calls)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", "1.0", True),
        ("0.1 + 0.2", "0.3", True),
        ("{'a', 'b', 'c'}", "frozenset('cab')", True),
        ("{1: 2, 3: 4}", "{3: 4, 1: 2}", True),
        ("[1, 2]", "[2, 1]", False),
        ("[1, 2]", "(1, 2)", False),
        ("1", "True", False),
        ("1", "'1'", False),
        ("object()", "object()", True),
        ("float('nan')", "float('nan')", True),
    ],
)
def test_equal_values_are_one_behaviour(one: str, other: str, same: bool) -> None:
    found = [watch_calls(f"def f():\n    return {value}", ["f()"]) for value in (one, other)]
    assert None not in found
    assert (found[0] == found[1]) is same


def test_one_failing_call_is_a_behaviour_too() -> None:
    calls = ["f(1)", "f(0)"]
    found = [
        watch_calls(f"def f(x):\n    {body}", calls)
        for body in ("return 1 // x", "return 1 / x", "return 1 if x else None")
    ]
    assert found[0] == found[1] != found[2]
    assert watch_calls("def f(x):\n    while True: pass", ["f(1)"], seconds=0.3) is None


def test_the_calls_of_a_prompt_are_those_with_plain_values() -> None:
    assert calls_in(PROMPT, "largest") == ["largest([1, 5], n=2)", "largest([3, (2)])"]
    assert calls_in("f(" * 3000, "f") == []


def test_the_calls_of_tests_are_their_left_sides() -> None:
    tests = [
        "assert f(1, [2]) == 3",
        "assert set(f((1,), 2)) == {1}",
        "assert not f('x')",
        "assert 1 == 1",
        "assert f(",
    ]
    assert calls_of_tests(tests) == ["f(1, [2])", "set(f((1,), 2))", "not f('x')"]


@pytest.fixture
def mbpp_file(tmp_path: Path) -> Path:
    path = tmp_path / "mbpp.jsonl"
    path.write_text(
        '{"text": "Add one.", "code": "def add(x): return x + 1", "task_id": 11, '
        '"test_setup_code": "", "test_list": ["assert add(1) == 2", "assert add(5) == 6"]}\n'
    )
    return path


def test_a_benchmark_of_programs_says_how_it_compares(mbpp_file: Path) -> None:
    ways = ("def add(x): return x + 1", "def add(y):\n    y += 1\n    return y")
    allowed = find_task("mbpp", path=mbpp_file, allow_execution=True)
    found = [answer_key(allowed, allowed.problem(0), text) for text in ways]
    assert compared_by(allowed) == "behaviour"
    assert found[0] == found[1] is not None
    careful = find_task("mbpp", path=mbpp_file)
    assert compared_by(careful) == "spelling"
    assert [answer_key(careful, careful.problem(0), text) for text in ways] == [
        careful.extract(text) for text in ways
    ]
