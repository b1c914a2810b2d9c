"""Symbolic comparison in workers: what they find, and that none of them can hold us up."""

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from remask.errors import MissingExtra
from remask.tasks.public import symbolic
from remask.tasks.public.symbolic import SymbolicChecker

# A worker that hangs, dies or floods when told to, and otherwise says its number of comparisons.
SCRIPT = """
import json, os, sys, time
print("ready", flush=True)
for number, line in enumerate(sys.stdin):
    seconds, patience, gold, answer = json.loads(line)
    if answer == "hang":
        time.sleep(600)
    if answer == "die":
        os._exit(3)
    print("failed: %d %d" % (os.getpid(), number), flush=True)
"""


@pytest.fixture(scope="module")
def checker() -> Iterator[SymbolicChecker]:
    found = SymbolicChecker(seconds=120.0)
    yield found
    found.close()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[SymbolicChecker]:
    monkeypatch.setattr(symbolic, "_WORKER", SCRIPT)
    found = SymbolicChecker(seconds=120.0)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("x^2+2x+1", "(x+1)^2", True),
        (r"2\sqrt{3}", r"\sqrt{12}", True),
        (r"1 \pm \sqrt{19}", r"1-\sqrt{19}, 1+\sqrt{19}", True),
        (r"(3,4]", r"3 < x \le 4", True),
        (r"\cot x", r"\frac{1}{\tan x}", True),
        (r"\begin{pmatrix} -1/3 \\ 2 \end{pmatrix}",
         r"\begin{pmatrix} -\frac13 \\ 2 \end{pmatrix}", True),
        ("p - q", "q - p", False),
        ("(1,2)", "(2,1)", False),
        (r"\pi", "3.14", False),
        ("2x+3", "2x-3", False),
    ],
)  # fmt: skip
def test_algebra_finds_what_spelling_cannot(
    checker: SymbolicChecker, gold: str, answer: str, equal: bool
) -> None:
    verdict = checker.compare(gold, answer)
    assert verdict.equal is equal
    assert (verdict.reason == "") == equal


def test_what_cannot_be_read_is_different_and_says_so(checker: SymbolicChecker) -> None:
    verdict = checker.compare("x+1", "}}{{")
    assert (verdict.equal, verdict.reason) == (False, "math-verify cannot read one of them")


def test_a_comparison_that_hangs_is_cut_at_the_deadline(scripted: SymbolicChecker) -> None:
    """The worker would sleep for ten minutes; 60 s are twenty times what it is allowed."""
    scripted.seconds = 0.3
    started = time.monotonic()
    verdict = scripted.compare("a", "hang")
    assert time.monotonic() - started < 60
    assert verdict.equal is None
    assert verdict.reason == "not decided in 0.3 s"
    scripted.seconds = 120.0
    assert scripted.compare("a", "b").reason.endswith(" 0"), "the next one has a fresh worker"


def test_real_algebra_that_explodes_is_cut_as_well() -> None:
    """Multiplied out, the second power has eleven million terms."""
    checker = SymbolicChecker(seconds=0.5)
    verdict = checker.compare("(x+y+z+1)^{400}", "(x+y+z)^{400}+1")
    checker.close()
    assert (verdict.equal, verdict.reason) == (None, "not decided in 0.5 s")


def test_a_worker_that_dies_leaves_its_comparison_undecided(scripted: SymbolicChecker) -> None:
    assert scripted.compare("a", "die").equal is None
    assert scripted.compare("a", "b").reason.endswith(" 0")


def test_a_worker_is_kept_between_comparisons(scripted: SymbolicChecker) -> None:
    first, second = (scripted.compare("a", "b").reason.split() for _ in range(2))
    assert first[:-1] == second[:-1]
    assert (first[-1], second[-1]) == ("0", "1")


def test_threads_have_a_worker_each(scripted: SymbolicChecker) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda n: scripted.compare("a", f"b{n}").reason, range(9)))
    pids = [reason.split()[-2] for reason in found]
    assert 1 <= len(set(pids)) <= 3
    numbers = [tuple(reason.split()[-2:]) for reason in found]
    assert len(set(numbers)) == 9, "no answer was given twice"


def test_workers_of_another_process_are_not_used(scripted: SymbolicChecker) -> None:
    scripted.compare("a", "b")
    scripted._owner = os.getpid() + 1  # as if we were the child of a fork
    assert scripted.compare("a", "b").reason.endswith(" 0")


def test_closing_ends_the_workers(scripted: SymbolicChecker) -> None:
    scripted.compare("a", "b")
    [worker] = scripted._idle
    scripted.close()
    assert worker.child.poll() is not None
    assert scripted._idle == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x" * 1001, "longer than 1000"),
        ("9" * 257, "256 digits"),
        ("(" * 65, "nested more than 64"),
    ],
)
def test_what_is_too_large_is_not_handed_over(
    scripted: SymbolicChecker, text: str, why: str
) -> None:
    for pair in (("1", text), (text, "1")):
        verdict = scripted.compare(*pair)
        assert verdict.equal is None
        assert why in verdict.reason
    assert scripted._idle == [], "no worker was started for it"


def test_without_math_verify_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "math_verify", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"math-verify is not installed; pip install 'remask\[m"):
        SymbolicChecker().compare("x+1", "1+x")


def test_a_worker_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolic, "_WORKER", "raise SystemExit(1)")
    with pytest.raises(MissingExtra, match="math-verify that can be imported"):
        SymbolicChecker().compare("x+1", "1+x")
