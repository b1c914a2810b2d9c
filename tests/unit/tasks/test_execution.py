"""Candidates run in children: what passes, what is stopped, and what is said about it."""

import time
from functools import partial
from pathlib import Path

import pytest

from remask.tasks.execution import Outcome, ProgramRun, run_many, run_tests

SQUARE = ("assert f(2) == 4", "assert f(3) == 9", "assert f(-1) == 1")
RIGHT = "def f(x):\n    return x * x"
PATIENCE = 120.0  # seconds: a busy machine is no reason to stop a candidate
run = partial(run_tests, seconds=PATIENCE)


def test_right_code_passes() -> None:
    assert run(RIGHT, SQUARE) == Outcome(passed=True, reason="passed")


def test_the_first_failing_test_is_named() -> None:
    """abs(x) + 2 gives 4 for 2, but 5 for 3: the second test fails."""
    outcome = run("def f(x):\n    return abs(x) + 2", SQUARE)
    assert outcome == Outcome(passed=False, reason="wrong answer in test 2")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f(x:\n    return x", "crashed: SyntaxError"),
        ("def f(x):\n    return y", "crashed: NameError"),
        ("def f(x):\n    return f(x)", "crashed: RecursionError"),
        ("assert False", "crashed: AssertionError"),
        ("\ud800", "crashed: SyntaxError"),
        ("import sys\nsys.exit(0)", "crashed: SystemExit"),
        ("def f(x):\n    raise SystemExit", "crashed: SystemExit"),
        ("import os\nos._exit(0)", "left before the tests ended"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", "crashed: signal 15"),
        ("f = [0] * 10 ** 10", "memory"),
        ("while True:\n    print('x' * 1000)", "output limit"),
    ],
)
def test_a_failure_is_called_by_its_name(source: str, reason: str) -> None:
    assert run(source, SQUARE) == Outcome(passed=False, reason=reason)


def test_a_null_byte_is_a_crash() -> None:
    """Python calls it a ValueError before 3.11.4 and a SyntaxError since."""
    outcome = run("\x00", SQUARE)
    assert not outcome.passed
    assert outcome.reason in ("crashed: ValueError", "crashed: SyntaxError")


@pytest.mark.parametrize(
    "source",
    [
        "while True:\n    pass",
        "import time\ntime.sleep(600)",
        "import os\nos.close(1)\nwhile True:\n    pass",
        "import os, time\nif os.fork():\n    os._exit(0)\ntime.sleep(600)",
    ],
)
def test_what_does_not_end_is_stopped_at_the_deadline(source: str) -> None:
    """A fork that outlives its parent holds the output open; where forks are refused it crashes.

    60 s are 15 times what is allowed: a candidate that was waited for would take longer.
    """
    start = time.monotonic()
    outcome = run_tests(source, SQUARE, seconds=0.4)
    assert not outcome.passed
    assert outcome.reason in ("timeout", "crashed: BlockingIOError")
    assert time.monotonic() - start < 60


def test_a_busy_machine_makes_no_right_program_wrong() -> None:
    """Asleep, a candidate is as one that has to wait for a core: its own time does not pass."""
    source = f"import time\ntime.sleep(2.2)\n{RIGHT}"
    assert run_tests(source, SQUARE, seconds=2).passed


def test_a_memory_bomb_that_grows_is_stopped() -> None:
    source = "rows = []\nwhile True:\n    rows.append('x' * 10 ** 6)"
    assert run(source, SQUARE, memory_mb=128).reason == "memory"


@pytest.mark.parametrize("printed", ["passed", "0 passed\\n", "\\xff" * 50])
def test_printing_is_allowed_but_proves_nothing(printed: str) -> None:
    assert run(f"print('{printed}')\n{RIGHT}", SQUARE).passed
    assert not run(f"print('{printed}')\nimport os\nos._exit(0)", SQUARE).passed


def test_right_code_that_takes_the_output_away_still_passes() -> None:
    assert run(f"import sys\nsys.stdout = None\n{RIGHT}", SQUARE).passed


def test_a_child_sees_neither_environment_nor_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "1")
    source = "import os\ndef f():\n    return os.environ.get('SECRET_OF_THE_PARENT'), os.listdir()"
    assert run(source, ["assert f() == (None, [])"]).passed


def test_many_jobs_keep_their_order_and_leave_no_child_behind() -> None:
    jobs = [
        ProgramRun(
            source=f"def f():\n    return {i % 3}", tests=("assert f() == 1",), seconds=PATIENCE
        )
        for i in range(12)
    ]
    before = children()
    outcomes = run_many(jobs, workers=3)
    assert [o.passed for o in outcomes] == [i % 3 == 1 for i in range(12)]
    assert children() == before


def children() -> set[str]:
    """Return the ids of this process's children; other tests may have left a helper running."""
    listed = Path("/proc/self/task").glob("*/children")
    return {child for path in listed for child in path.read_text().split()}
