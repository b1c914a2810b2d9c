"""Numbers and final answers read out of text."""

import sys
from collections import Counter
from collections.abc import Callable
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
from remask.answers.number import value_of

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


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Claire will eat #### 7 dozen eggs in 4 weeks.", "7"),
        ("At 5:30 pm.\n#### 2:00 pm", "2"),
        ("#### 2:30 pm", None),
        ("It is 5.\n#### about 18 eggs", "18"),
        ("It is 5.\n#### more than 18 eggs", None),
        ("#### Step 3\nSo it is 5.", "5"),
        ("\\boxed{385\\,000}", "385000"),
        ("\\boxed{385\u202f000}", "385000"),
        ("\\boxed{2\\frac{1}{2}}", "5/2"),
        ("2 1/2 hours", "5/2"),
        ("\\boxed{\\frac12}", "1/2"),
        ("\\boxed{10^3}", "1000"),
        ("\\boxed{1.5 \\times 10^3}", "1500"),
        ("The answer is 1.5e-2.", "3/200"),
        ("The answer is 20% of 50, which is 10.", "10"),
        ("The answer is 18, which is 2 more than 16.", "18"),
        ("It is 5. The answer would be 12 eggs.", "12"),
        ("It is 5. The answer should be $12$.", "12"),
        ("<answer>\\boxed{2}</answer>", "2"),
        ("3 + 4 = 7. \\boxed{x + 4}", None),
        ("3 + 4 = 7. \\boxed{L - 8}", None),
        ("\\boxed{9 \\text{ hours and } 30 \\text{ minutes}}", None),
        ("\\boxed{4} red and \\boxed{6} blue", None),
        ("\\boxed{4} and \\boxed{4}", "4"),
        ("The answer is between 3 and 5.", None),
        ("The answer is not 5.", None),
        ("So 7 are left. \\boxed{7", None),
        ("So 7 are left. \\boxed{}", "7"),
        ("The answer is negative 5.", "-5"),
        ("The answer is twenty-five.", "25"),
        ("The answer is 3.5 million dollars.", "3500000"),
        ("It leaves at 9:45", None),
        ("She has 16-3", "3"),
        ("She has 16 + 3", "3"),
        ("The sum is 3.4.5", None),
        ("The answer is \u22127.", "-7"),
        ("The answer is US$18.", "18"),
        ("\\boxed{Rs. 18}", "18"),
        ("<answer>Total cost: $18</answer>", "18"),
        ("#### Final Answer: 18", "18"),
        ("<answer>#### 18</answer>", "18"),
        ("The answer is 1'234'567.", "1234567"),
        ("The answer is a total of 7.", "7"),
        ("The answer is not 16 but 18.", "18"),
        ("\\boxed{negative five}", "-5"),
        ("\\boxed{three hundred}", "300"),
        ("\\boxed{one hundred twenty}", None),
        ("Thus, \\[ 18\\text{ cm}^2 \\]", "18"),
        ("So the curve is y = x^2", None),
        ("<answer>\n\\boxed{70\\text{ minutes>\n", "70"),
        ("The answer is January 5.", None),
        ("The answer is a total of 7 and 8.", None),
        ("\\boxed{5!}", None),
        ("The answer is 5!", "5"),
        ("<answer>Ratio: 3:4</answer>", None),
        ("<answer>Step 2: 18</answer>", None),
        ("<answer>1</answer> no, <answer>2</answer>", "2"),
        ("\\boxed{3} then #### 4", "4"),
        ("The answer is 5. Wait, the answer is 6.", "6"),
        ("\\boxed{7} <answer> </answer> \\boxed{...}", "7"),
        ("\\boxed{7} <answer>none</answer>", None),
        ("#### 1. First step\nThe answer is 9.", "9"),
        ("So she ate 3 fifths.", "3/5"),
        ("So she ate 3 fifths of it.", None),
        ("So she teaches 25 fifth graders.", "25"),
        ("On the third day he has 12.", "12"),
        ("It took him 2 and a half.", None),
    ],
)
def test_a_value_is_read_whole_or_not_at_all(text: str, answer: str | None) -> None:
    assert extract_number(text) == answer


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


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is: A decrease in sunlight", None),
        ("The answer is: B decrease", "B"),
        ("Answer: A Vic", "A"),
        ("#### B. text", "B"),
        ("answer: b", "B"),
        ("The best answer is B. 21°C", "B"),
        ("It rose to 21°C", None),
        ("Lemons have vitamin C.", None),
        ("Option A is wrong. Therefore, D is the best answer.", "D"),
        ("The answer is B or C.", None),
        ("The correct answer is B: water. The best answer is []", "B"),
        ("To find the answer, look at each option:\n\nA. no\nB. no\n\nSo it is C.", "C"),
        ("\\boxed{\\text{(B) the moon}}", "B"),
        ("<answer>The answer is C, of course.</answer>", "C"),
        ("**The answer should be (d).**", "D"),
        ("B\n\nExplanation: option C is too hot, option D too cold.", "B"),
        ("**B. the moon**\n\nThis is because Option A does not hold.", "B"),
        ("A. false\nB. true\nOption B it is", "B"),
        ("### Answer\nB. the moon", "B"),
        ("### Answer\nA decrease in light", None),
        ("#### B - the moon", "B"),
        ("I would choose B: the moon.", "B"),
        ("I would not choose B.", None),
        ("We choose B and C", None),
        ("Option B is wrong; C is correct.", "C"),
        ("A is correct. B is correct. C is wrong.", None),
        ("B is not correct.", None),
        ("B is right next to the door.", None),
        ("The answer cannot be B.", None),
        ("The answer is not A but B.", "B"),
        ("The correct answer is likely B.", "B"),
        ("I think it's B.", "B"),
        ("A\nB\nC\nD", None),
    ],
)
def test_words_are_no_letter_and_two_letters_are_no_answer(text: str, answer: str | None) -> None:
    assert extract_choice(text, "ABCD") == answer


def test_only_the_given_letters_are_choices() -> None:
    assert extract_choice("The answer is E", "ABCD") is None
    assert extract_choice("The answer is J", "ABCDEFGHIJ") == "J"


FRAGMENTS = [*NOISE, "</answer>", "}", "\n", "A", "-", "$", ".", "="]


@given(st.text() | st.lists(st.sampled_from(FRAGMENTS)).map("".join))
def test_no_text_makes_extraction_raise(text: str) -> None:
    assert sum(numbers(text).values()) <= len(text)
    assert canonical_number(text) is None or numbers(text)
    found = find_number(text)
    assert (found.answer is None) == (found.tier is None)
    assert extract_choice(text) in {None, *"ABCDE"}


STATED = st.sampled_from(
    ["The answer is 42.", "#### 42", "\\boxed{42}", "<answer>42 eggs</answer>", "So it is 42",
     "Answer: B", "\\boxed{\\text{C}}", "The answer is 2:30 pm", "The answer is D) frogs"]
)  # fmt: skip


@given(st.text(max_size=60), STATED, st.sampled_from(["\n", " \n\n", "\n\t"]))
def test_blanks_at_the_end_do_not_count(before: str, stated: str, blanks: str) -> None:
    text = f"{before}\n{stated}"
    assert extract_number(text) == extract_number(text + blanks)
    assert extract_choice(text) == extract_choice(text + blanks)


@given(st.fractions(max_denominator=1000))
def test_a_stated_fraction_is_read_back(number: Fraction) -> None:
    stated = f"\\frac{{{abs(number.numerator) * 2}}}{{{number.denominator * 2}}}"
    sign = "-" if number < 0 else ""
    assert extract_number(f"The answer is ${sign}{stated}$.") == str(number)


@given(st.decimals(-(10**6), 10**6, places=3), st.integers(0, 4))
def test_idle_zeros_do_not_change_a_number(number: object, zeros: int) -> None:
    assert canonical_number(f"{number}" + "0" * zeros) == str(Fraction(str(number)))


def calls(read: Callable[[str], object], text: str) -> int:
    """Return how many functions are called to read a text."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        read(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "piece", [*NOISE, "#### 1. a\n", "\\boxed{1}, ", "The answer is x. ", "**"]
)
def test_twice_the_text_takes_no_more_than_twice_the_calls(piece: str) -> None:
    for read in (extract_number, extract_choice, numbers):
        read(piece)  # what is made once
        few, many = (calls(read, piece * repeats) for repeats in (200, 400))
        assert many <= 2 * few + 50, read.__name__


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two thirds", "2/3"),
        ("one-third", "1/3"),
        ("3 fifths", "3/5"),
        ("three fourths", "3/4"),
        ("one half", "1/2"),
        ("1 half", "1/2"),
        ("twenty-five hundredths", "1/4"),
        ("9 tenths miles", "9/10"),
        ("5 thirds", "5/3"),
        ("twenty thirds", "20/3"),
        # Quarters and halves are counted, too.
        ("3 quarters", "3"),
        ("three-quarters", "3/4"),
        ("three quarters", None),
        ("two halves", None),
        # Ordinals: of what is counted, of a day, or of a share; where it may be both, none.
        ("two fifth graders", "2"),
        ("25 fifth graders", "25"),
        ("one fifth grader", None),
        ("one-third cup", None),
        ("twenty-third", None),
        ("20 third graders", "20"),
        ("twenty third graders", None),
        ("5 miles on the third day", "5"),
        ("the third day", None),
        # A share of something, and the part of a value.
        ("two thirds of a cup", None),
        ("2 thirds of a cup", None),
        ("2 and a third", None),
        ("2 and two thirds", None),
        ("4 dollars and a half", None),
        ("12 apples and a third of them are red", "12"),
        ("three hours half", None),
    ],
)
def test_parts_in_words_are_read_whole_or_not_at_all(text: str, expected: str | None) -> None:
    assert value_of(text) == expected
    assert extract_number(f"#### {text}") == expected
    assert extract_number(f"\\boxed{{{text}}}") == expected
    assert extract_number(f"The answer is {text}.") == expected


def said(count: int) -> str:
    """Return a number below a hundred in words."""
    small = (
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
    )  # fmt: skip
    tens = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
    if count < 20:
        return small[count - 1]
    return tens[count // 10 - 2] + (f"-{small[count % 10 - 1]}" if count % 10 else "")


@given(st.integers(1, 99), st.sampled_from(["third", "fifth", "eighth", "tenth", "hundredth"]))
def test_any_number_of_parts_is_their_fraction(count: int, part: str) -> None:
    """In digits and in words alike, by another hand: n times one over what the part is of."""
    bottom = {"third": 3, "fifth": 5, "eighth": 8, "tenth": 10, "hundredth": 100}[part]
    many = part + "s" * (count != 1)
    expected = str(Fraction(count, bottom))
    assert value_of(f"{count} {many}") == expected
    assert value_of(f"{said(count)} {many}") == expected
    assert value_of(f"{said(count)}-{many}") == expected
