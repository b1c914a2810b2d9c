"""Programs found in texts, completed, and run against their tests."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remask.tasks.base import Problem
from remask.tasks.public.listing import compiles, completed, find_program
from remask.tasks.public.programs import HumanEval, Mbpp
from remask.tasks.public.source import BenchmarkRow

CODE = "def inc(x):\n    return x + 1"


@pytest.mark.parametrize(
    ("text", "program", "tier"),
    [
        (CODE, CODE, "fallback"),
        (f"```python\n{CODE}\n```", CODE, "markup"),
        (f"Sure!\n```\n{CODE}\n```\nIt adds one.", CODE, "markup"),
        (f"```python\n{CODE}", CODE, "markup"),
        (f"```\npip install x\n```\nthen\n```py\n{CODE}\n```", CODE, "markup"),
        (f"[BEGIN]\n{CODE}\n[DONE]\nmore", CODE, "markup"),
        (f"[BEGIN]\n '{CODE}' \n[DONE]", CODE, "markup"),
        (f"Here it is:\n\n{CODE}\n\nThis adds one to x.", CODE, "fallback"),
        (f"STEP = 1\n{CODE}", f"STEP = 1\n{CODE}", "fallback"),
        ("    return x", "    return x", "fallback"),
        ("def inc(x:", "def inc(x:", "fallback"),
        ("  \n", "", "none"),
    ],
)
def test_a_program_is_found_wherever_it_stands(text: str, program: str, tier: str) -> None:
    assert find_program(text) == (program, tier)


@given(st.text(max_size=200) | st.text(alphabet="`\n def():x[BEGIN]", max_size=200))
@example("\x00")
@example("\ud800")
@example("def f(x):\n" + "(" * 500)
@example("def f(x):\n    pass\n" + "word word\n" * 3000)
def test_no_text_makes_the_search_raise(text: str) -> None:
    found = find_program(text)
    assert found.tier in ("markup", "fallback", "none")
    assert (found.tier == "none") == (not found.source.strip())


def test_a_return_outside_of_a_function_does_not_compile() -> None:
    assert compiles(CODE)
    assert not compiles("return 3")


PROMPT = 'from math import floor\n\ndef half(x):\n    return x / 2\n\ndef low(x):\n    """Do."""\n'


@pytest.mark.parametrize(
    "answer",
    [
        "    y = half(x)\n    return floor(y)",
        "y = half(x)\n    return floor(y)",
        "y = half(x)\nreturn floor(y)",
        "return floor(half(x))",
        "def down(y):\n    return floor(y)\nreturn down(half(x))",
        "    y = half(x)\n    return floor(y)\n```\nThis halves it, and that's all.",
        "    return floor(half(x))\nIt's done.",
        "def low(x):\n    return floor(half(x))",
        "    def low(x):\n        return floor(half(x))",
        "import math\ndef low(x):\n    return math.floor(half(x))",
    ],
)
def test_a_completion_and_a_whole_function_both_become_programs(answer: str) -> None:
    space: dict[str, object] = {}
    exec(completed(PROMPT, "low", answer), space)
    assert space["low"](5) == 2  # type: ignore[operator]


def mbpp(**changes: object) -> Problem:
    fields = {
        "task_id": 11, "text": "Add one.", "code": CODE, "test_setup_code": "",
        "test_list": ["assert inc(1) == 2", "assert inc(5) == 6"], **changes,
    }  # fmt: skip
    entry = Mbpp().read(BenchmarkRow(fields=fields, where="here"), 0)
    return Problem(
        id="p", task="mbpp", level="all", prompt="", gold="", solution="", facts=entry.facts
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CODE, "passed"),
        ("def inc(x):\n    return 2", "wrong answer in test 2 of 2"),
        ("def inc(x):\n    return y", "crashed: NameError"),
        ("def dec(x):\n    return x", "crashed: NameError"),
        ("import os\nos._exit(0)", "left before the tests ended"),
        ("nothing of the kind", "crashed: SyntaxError"),
    ],
)
def test_a_program_is_judged_by_its_tests(text: str, reason: str) -> None:
    graded = Mbpp(allow_execution=True).judge(mbpp(), text)
    assert (graded.right, graded.method, graded.reason) == (reason == "passed", "tests", reason)
    assert graded.extracted == text


def test_what_the_tests_build_on_comes_after_the_program() -> None:
    """The setup uses a class that the program must define."""
    problem = mbpp(test_setup_code="root = Node(3)", test_list=["assert root.value == 3"])
    program = "class Node:\r\n    def __init__(self, value):\r\n        self.value = value"
    assert Mbpp(allow_execution=True).judge(problem, program).right


def test_a_body_with_an_import_in_it_is_run_whole() -> None:
    row = BenchmarkRow(
        fields={
            "prompt": 'def low(x):\n    """Do."""\n', "entry_point": "low",
            "canonical_solution": "    return int(x)\n",
            "test": "def check(candidate):\n    assert candidate(2.5) == 2\n",
        },
        where="here",
    )  # fmt: skip
    task = HumanEval(allow_execution=True)
    facts = task.read(row, 0).facts
    problem = Problem(
        id="p", task="humaneval", level="all", prompt="", gold="", solution="", facts=facts
    )
    assert task.judge(problem, "y = x\nimport math\nreturn math.floor(y)").right
    assert task.judge(problem, "return x").reason == "wrong answer in test 1 of 1"


@pytest.mark.parametrize(
    "text",
    [
        "1. A loop:\n\n   ```python\n   def f(x):\n       return x\n   ```\n",
        "<answer>def f(x):\n    return x</answer>",
        "Sure!\nf = lambda x: x\n\nThis works, since it's the same.",
        "A stub:\n```python\ndef f(x):\n    pass\n```\nNow whole:\n```python\nf = lambda x: x\n```",
        "Sure! Here it is:\nBASE = 0\n\ndef f(x):\n    return x + BASE\n\nThis is all.",
    ],
)
def test_a_program_may_be_indented_tagged_or_bound_to_its_name(text: str) -> None:
    space: dict[str, Any] = {}
    exec(find_program(text, ["f"]).source, space)
    assert space["f"](7) == 7


@pytest.mark.parametrize(
    "earlier",
    [
        "import math",
        "from math import floor\nimport math as m, os",
        "import math\n\ndef floor(x):\n    return math.floor(x)\n\nprint(floor(2.5))",
    ],
)
def test_a_later_fence_keeps_what_it_uses_of_an_earlier_one(earlier: str) -> None:
    call = "math.floor(x)" if earlier == "import math" else "floor(x)"
    text = f"```python\n{earlier}\n```\nThen:\n```python\ndef f(x):\n    return {call}\n```"
    source = find_program(text, ["f"]).source
    space: dict[str, Any] = {}
    exec(source, space)
    assert space["f"](2.5) == 2
    assert "os" not in source
    assert "print" not in source
