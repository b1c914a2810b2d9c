"""Answers in LaTeX: which spellings are one."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remask.tasks.public.latex import (
    MAX_ANSWER,
    bare,
    normalise,
    number_of,
    words,
)

TEXTS = st.one_of(
    st.text(max_size=300),
    st.text(alphabet="\\{}$()[],;.=^_ 0123frac sqrtboxedleftrightcuptextpi", max_size=300),
)


@pytest.mark.parametrize(
    "spellings",
    [
        ["1/2", r"\frac{1}{2}", r"\dfrac12", r"\frac 1 2", "0.5", ".5", "$0.50$", r"\tfrac{2}{4}"],
        ["10080", r"10,\!080", "10,080", "10{,}080", r"\$10,080", "10080.0", r"10,\! 080"],
        ["9/5", r"1\frac{4}{5}", r"1 \frac45", "1.8"],
        ["-3", "−3", r"\frac{-3}{1}", r"-\frac{6}{2}", "x = -3", "$x=-3$."],
        ["90", r"90^\circ", r"90^{\circ}", "90°", r"90 \text{ degrees}", "90 degrees"],
        ["15", r"15\mbox{ cm}^2", r"15 \text{ square cm}", "15 cm^2", r"15\%", r"\$15"],
        [r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})", r"(3, \dfrac{\pi}{2})"],
        ["1,2,3", "3, 1, 2", r"1, 2 \text{ and } 3"],
        [r"\{1,2\}", r"\left\{2, 1\right\}", r"\lbrace 1, 2 \rbrace"],
        [r"(-\infty, 0.5]", r"(-\infty,\frac{1}{2}]", r"x \in \left(-\infty, \frac12\right]"],
        [r"(0,1)\cup(2,3)", r"(2, 3) \cup (0, 1)"],
        [r"\text{Evelyn}", r"\text{evelyn}.", r"\mathrm{ Evelyn }"],
        [r"\text{(C)}", r"\textbf{(C)}", "(C)", r"\text{C}"],
        ["52_8", "52_{8}"],
        ["x^2", "x^{2}", "$x^2$"],
        [r"3\sqrt{2}", r"3\sqrt2", r"3 \sqrt 2"],
        ["110, 220", "220,  110"],
        ["1,000, 2", "2, 1,000"],
    ],
)
def test_spellings_of_one_answer_are_one(spellings: list[str]) -> None:
    assert len({normalise(spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1/2", "1/3"),
        ("110, 220", "110220"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", "[1,2]"),
        ("52_8", "52_9"),
        ("2 pi", "2"),
        ("2k", "2"),
        (r"\text{even}", r"\text{odd}"),
        ("(a+5)(b+2)", "a+5"),
        ("x^2", "x_2"),
    ],
)
def test_different_answers_stay_different(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", Fraction(3)),
        ("-0.25", Fraction(-1, 4)),
        ("12,345.5", Fraction(24691, 2)),
        ("3/4", Fraction(3, 4)),
        (r"-2\frac{1}{4}", Fraction(-9, 4)),
        ("3/0", None),
        (r"\frac{3}{0}", None),
        ("1,23", None),
        ("x", None),
        ("9" * 300, None),
    ],
)
def test_plain_numbers_are_read_exactly(text: str, value: Fraction | None) -> None:
    assert number_of(text) == value


def test_words_are_told_from_formulas() -> None:
    assert words(r"\text{(C)}") == "c"
    assert words(r"\text{Monday} \text{morning}") == "monday morning"
    assert words(r"5\text{ cm}") is None
    assert words("Evelyn") is None
    assert bare(r"\text{Evelyn}.") == bare("  evelyn ") == "evelyn"


@given(TEXTS)
@example("\\boxed{" * 200)
@example("(" * 900)
@example("{" * 5000)
@example("$" * 999)
@example("," * 999)
@example("\\frac" * 190)
@example("answer is " * 500)
@example("0" * 999 + "/" + "0")
def test_no_text_makes_a_function_raise(text: str) -> None:
    canonical = normalise(text)
    assert len(canonical) <= max(len(text), MAX_ANSWER) + 20
    number_of(text)
    words(text)
    bare(text)


@given(st.fractions(max_denominator=1000), st.sampled_from(["frac", "dfrac", "tfrac"]))
def test_every_fraction_is_read_back(value: Fraction, name: str) -> None:
    text = rf"\{name}{{{value.numerator}}}{{{value.denominator}}}"
    assert normalise(text) == normalise(str(value)) == str(value)


@given(st.integers(-(10**12), 10**12))
def test_thousands_separators_do_not_count(value: int) -> None:
    assert normalise(f"{value:,}") == normalise(f"{value:,}".replace(",", r",\!")) == str(value)
