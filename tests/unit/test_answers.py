"""Numbers and final answers read out of text."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.answers import (
    canonical_number,
    extract_choice,
    extract_number,
    find_choice,
    find_number,
    number_spans,
    numbers,
)

MEGABYTE = 1_000_000
NOISE = (
    "<answer>",
    "\\boxed{",
    "\\boxed{{}",
    "#",
    "#### 1 2 ",
    "answer is ",
    "Answer: option ",
    "1,234,",
    "9,",
    "1 ",
    "1",
    "1/",
    "- ",
    "\\frac{1}{",
    "\\text{",
    " ",
    "(",
    "é∂漢🦆٣",
)


def test_numbers_are_a_multiset_in_canonical_form() -> None:
    """Written out: $1,234.00 -> 1234; 18.0 and 18 are the same number, twice; 50% -> 50."""
    text = "She pays $1,234.00, gets 18.0 eggs, sells 18 and keeps 50%."
    assert numbers(text) == Counter({"1234": 1, "18": 2, "50": 1})


def test_a_fraction_in_a_chain_is_two_numbers() -> None:
    assert numbers("3/4 of \\frac{1}{2}") == Counter({"3": 1, "4": 1, "1": 1, "2": 1})


def test_separators_of_latex_are_read() -> None:
    assert numbers("1{,}234 and \\$5,\\!678") == Counter({"1234": 1, "5678": 1})


@pytest.mark.parametrize(
    "text", ["16 - 3", "16-3", "16 -3", "(16)-3", "x-3", "pages 1-3", "- 3 eggs"]
)
def test_a_minus_between_operands_or_before_a_blank_is_no_sign(text: str) -> None:
    assert "3" in numbers(text)
    assert "-3" not in numbers(text)


@pytest.mark.parametrize(
    "text", ["-3", "= -3", "(-3)", "is -3", "5 - -3", "−3", "= - 3", "-$3", "$-3$"]
)
def test_a_minus_with_nothing_to_subtract_from_is_a_sign(text: str) -> None:
    assert numbers(text)["-3"] == 1


def test_spans_cover_digits_and_separators() -> None:
    """ "pay $1,234.50 or -7": the first literal is characters 5 to 13, the second is 18."""
    assert number_spans("pay $1,234.50 or -7") == [(5, 13), (18, 19)]


def test_a_literal_too_long_for_arithmetic_is_kept_as_text() -> None:
    long = "7" * 300
    assert numbers(long + ".0") == Counter({long + ".0": 1})


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("18", "18"),
        ("018.00", "18"),
        ("$18$", "18"),
        ("\\$1,200.50", "2401/2"),
        ("18 dollars", "18"),
        ("50\\%", "50"),
        ("-$5", "-5"),
        ("−5", "-5"),
        ("-0", "0"),
        ("0.5", "1/2"),
        ("2/4", "1/2"),
        ("\\frac{1}{2}", "1/2"),
        ("-\\dfrac{6}{3}", "-2"),
        ("\\text{18}", "18"),
        ("3/0", None),
        ("2x", None),
        ("\\sqrt{2}", None),
        ("18 of 20", None),
        ("", None),
    ],
)
def test_canonical_number_reads_one_number_and_nothing_else(
    text: str, canonical: str | None
) -> None:
    assert canonical_number(text) == canonical


@pytest.mark.parametrize(
    ("text", "answer", "tier"),
    [
        ("<answer>42</answer> and 7 more. The answer is 8.", "42", 1),
        ("16 - 7 = 9\n#### 1,042", "1042", 1),
        ("So \\boxed{\\frac{1}{2}}, not 3.", "1/2", 1),
        ("\\boxed{x = -4}", "-4", 1),
        ("\\boxed{\\text{\\$18}}", "18", 1),
        ("<ANSWER> $18 per day </ANSWER>", "18", 1),
        ("The final answer is 42. I checked 3 times.", "42", 2),
        ("**Final Answer:** $18$ dollars", "18", 2),
        ("Answer: -3", "-3", 2),
        ("The answer is 16 - 7 = 9 (of 16).", "9", 2),
        ("The answer is $\\frac{3}{4}$.", "3/4", 2),
        ("16 - 7 = 9. Also, 9 × 100 = 900. But the answer is 9.", "9", 2),
        ("She has 16 eggs and sells 9.", "9", 3),
        ("The answer is unknown.\nWe counted 7", "7", 3),
        ("no number at all", None, None),
    ],
)
def test_the_best_tier_decides_the_number(text: str, answer: str | None, tier: int | None) -> None:
    found = find_number(text)
    assert (found.answer, found.tier) == (answer, tier)


def test_the_last_match_of_a_tier_wins() -> None:
    assert extract_number("<answer>1</answer> no, <answer>2</answer>") == "2"
    assert extract_number("\\boxed{3} then #### 4") == "4"
    assert extract_number("The answer is 5. Wait, the answer is 6.") == "6"


def test_markup_without_a_number_falls_back_to_the_one_before() -> None:
    assert extract_number("\\boxed{7} <answer>none</answer>") == "7"


def test_a_markdown_heading_is_not_an_answer() -> None:
    assert extract_number("#### 1. First step\nThe answer is 9.") == "9"


def test_the_matched_text_is_kept() -> None:
    assert find_number("Well, answer: 42 eggs. Done").matched == "answer: 42 eggs"


@pytest.mark.parametrize(
    ("text", "answer", "tier"),
    [
        ("\\boxed{A}, although the answer is B", "A", 1),
        ("<answer>(D) a dog</answer>", "D", 1),
        ("\\boxed{\\text{c}} or \\boxed{c}", "C", 1),
        ("#### B", "B", 1),
        ("The answer is A because B is wrong", "A", 2),
        ("Answer: (b)", "B", 2),
        ("**Answer:** **C**", "C", 2),
        ("The answer is option E", "E", 2),
        ("I take option C here", "C", 2),
        ("The answer is B. Option A is wrong.", "B", 2),
        ("The answer is A. No: the answer is D.", "D", 2),
        ("So it must be B.", "B", 3),
        ("All point at (c)", "C", 3),
        ("The answer is a dog", None, None),
        ("#### A closer look at cats", None, None),
        ("CAB", None, None),
        ("", None, None),
    ],
)
def test_the_best_tier_decides_the_letter(text: str, answer: str | None, tier: int | None) -> None:
    found = find_choice(text)
    assert (found.answer, found.tier) == (answer, tier)


def test_only_the_given_letters_are_choices() -> None:
    assert extract_choice("The answer is E", "ABCD") is None
    assert extract_choice("The answer is J", "ABCDEFGHIJ") == "J"


@given(st.text())
def test_no_text_makes_extraction_raise(text: str) -> None:
    assert sum(numbers(text).values()) <= len(text)
    assert canonical_number(text) is None or numbers(text)
    found = find_number(text)
    assert (found.answer is None) == (found.tier is None)
    assert extract_choice(text) in {None, *"ABCDE"}


@given(
    st.lists(st.sampled_from([*NOISE, "</answer>", "}", "\n", "A", "-", "$", ".", "="])).map(
        "".join
    )
)
def test_no_fragment_of_markup_makes_extraction_raise(text: str) -> None:
    assert extract_number(text) is None or numbers(text)
    assert extract_choice(text) in {None, *"ABCDE"}


@given(st.integers(-(10**12), 10**12))
def test_a_stated_integer_is_read_back(number: int) -> None:
    for text in (f"The answer is {number}.", f"#### {number:,}", f"\\boxed{{{number}}}"):
        assert extract_number(f"First 1 + 2 = 3. {text}") == str(number)


@given(st.fractions(max_denominator=1000))
def test_a_stated_fraction_is_read_back(number: Fraction) -> None:
    stated = f"\\frac{{{abs(number.numerator) * 2}}}{{{number.denominator * 2}}}"
    sign = "-" if number < 0 else ""
    assert extract_number(f"The answer is ${sign}{stated}$.") == str(number)


@given(st.decimals(-(10**6), 10**6, places=3), st.integers(0, 4))
def test_idle_zeros_do_not_change_a_number(number: object, zeros: int) -> None:
    assert canonical_number(f"{number}" + "0" * zeros) == str(Fraction(str(number)))


@pytest.mark.parametrize("piece", NOISE)
def test_a_megabyte_of_noise_is_read_to_its_end(piece: str) -> None:
    """Where reading grew faster than its text, this would not end; no clock is asked."""
    text = piece * (MEGABYTE // len(piece))
    for read in (numbers, canonical_number, extract_number, extract_choice):
        read(text)
