"""Equivalence of answers: what spelling decides, what algebra decides, and what is not decided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.tasks.public.equivalence import compare, exactly
from remask.tasks.public.symbolic import Verdict, Verifier


class Refusing(Verifier):
    """A verifier that must not be asked."""

    def compare(self, gold: str, answer: str) -> Verdict:
        raise AssertionError((gold, answer))


class Undecided(Verifier):
    def compare(self, gold: str, answer: str) -> Verdict:
        return Verdict(equal=None, reason="not decided in 5 s")


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("18", "18.0", True),
        ("18", "19", False),
        (r"\frac{1}{3}", "0.333", False),
        (r"\text{Evelyn}", "Evelyn", True),
        (r"\text{Evelyn}", "Carla", False),
        (r"\text{(C)}", "C", True),
        (r"\text{(C)}", r"\text{(D)}", False),
        ("52_8", "52_{8}", True),
        ("52_8", "52_9", False),
        ("52_8", "52", True),
        ("52_8", "42", False),
        ("C", "D", False),
        ("7", r"\text{seven}", False),
        ("7", "", False),
        ("(1,2)", r"\left(1, 2\right)", True),
    ],
)
def test_spelling_decides_without_asking(gold: str, answer: str, equal: bool) -> None:
    found = compare(gold, answer, Refusing())
    assert (found.equal, found.method) == (equal, "exact")
    assert (found.reason == "") == equal


@pytest.mark.parametrize(
    ("gold", "answer"), [("x+1", "1+x"), ("(1,2)", "(1,3)"), (r"2\sqrt{3}", r"\sqrt{12}")]
)
def test_formulas_are_left_to_algebra(gold: str, answer: str) -> None:
    assert exactly(gold, answer) is None


def test_what_is_not_decided_is_not_equal_and_says_so() -> None:
    found = compare("x+1", "1+x", Undecided())
    assert found == (False, "math-verify", "'1+x' against 'x+1': not decided in 5 s")


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_pair_of_texts_makes_the_exact_path_raise(gold: str, answer: str) -> None:
    assert exactly(gold, answer) in (True, False, None)
    assert exactly(gold, gold) is True
