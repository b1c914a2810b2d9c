"""Equivalence of answers: what spelling decides, what algebra decides, and what is not decided."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.tasks.public.equivalence import compare, exactly
from remask.tasks.public.symbolic import SymbolicChecker, SymbolicVerdict


class Refusing(SymbolicChecker):
    """A checker that must not be asked."""

    def compare(self, gold: str, answer: str) -> SymbolicVerdict:
        raise AssertionError((gold, answer))


class Undecided(SymbolicChecker):
    def compare(self, gold: str, answer: str) -> SymbolicVerdict:
        return SymbolicVerdict(equal=None, reason="not decided in 5 s")


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
    ("gold", "answer", "equal"),
    [
        (r"\frac{1}{12}", "0.0833333333333333", True),
        (r"\frac{1}{12}", "0.083", False),
        (r"\frac{2}{3}", "0.666666", True),  # cut
        (r"\frac{2}{3}", "0.666667", True),  # rounded
        (r"\frac{2}{3}", "0.666668", False),
        ("0.0833333", r"\frac{1}{12}", True),
        (r"\frac{3}{10}", "0.30000000000000004", True),  # a computer's digits
        ("2516_8", "2516_9", False),
        ("12", "3 + 9 = 12", True),
        ("(1,2)", "[1,2]", False),
        (r"\{1,2\}", "(1,2)", False),
        ("7", r"\textbf{7}", True),
        (r"\frac{180}{3}", r"\frac{180^\circ}{3}", True),
    ],
)
def test_decimals_bases_and_brackets_are_decided_by_rule(
    gold: str, answer: str, equal: bool
) -> None:
    assert compare(gold, answer, Refusing()).equal is equal


class Computing(SymbolicChecker):
    """A checker that knows what the root of 2 is worth."""

    def worth(self, text: str) -> Fraction | None:
        return Fraction("1.4142135623730950488016887242096980785697") if "sqrt" in text else None

    def compare(self, gold: str, answer: str) -> SymbolicVerdict:
        raise AssertionError((gold, answer))


@pytest.mark.parametrize(
    ("answer", "equal"),
    [("1.41421356", True), ("1.41421", True), ("1.414", False), ("1.41422356", False)],
)
def test_a_decimal_stands_for_a_root_by_the_same_rule(answer: str, equal: bool) -> None:
    assert compare(r"\sqrt{2}", answer, Computing()).equal is equal
    assert compare(answer, r"\sqrt{2}", Computing()).equal is equal


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


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("1,-2", "x=1, x=-2", True),
        ("1,-2", r"x = -2 \text{ or } x = 1", True),
        ("1,-2", "x_1 = 1, x_2 = -2", True),
        ("-2", "x=1, x=-2", False),
        ("(1,2)", "y=2, x=1", True),
        ("(1,2)", "y=1, x=2", False),
        ("1000", "x=1,000", True),
        ("10", "10_2", False),
        ("10", "10_{10}", True),
        ("2516_8", "(2516)_8", True),
        (r"11\frac{1}{2}", "11 1/2", True),
        (r"\frac{\pi}{4}", r"\frac\pi4", True),
        (r"\sqrt{2}", "\u221a2", True),
        (r"x \leq 3", "x <= 3", True),
        (r"x \geq 3", "x >= 3", True),
        (r"x \neq 3", "x != 3", True),
        (r"-1 \le x < 2", "-1 <= x < 2", True),
        (r"[3, \infty)", "x >= 3", True),
        ("3", "x != 3", False),
        ("3", "x >= 3", False),
        (r"x \leq 3", "x >= 3", False),
    ],
)
def test_named_values_bases_and_loose_spellings(gold: str, answer: str, equal: bool) -> None:
    assert compare(gold, answer).equal is equal
