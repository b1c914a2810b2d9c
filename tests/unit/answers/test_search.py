"""The search for answers: no text makes it raise or take long."""

import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remask.answers import extract_choice, extract_number
from remask.tasks.arithmetic import find_arithmetic
from remask.tasks.public.choices import find_letter
from remask.tasks.public.formula import find_expression

LENGTH = 20_000
SECONDS = 20.0  # of processor time; a reading takes about 0.05
PIECES = (
    "The answer is ", "answers: ", "#### ", "\\boxed{", "}", "<answer>", "</answer>", " A", " or ",
    " and ", "(B)", ", ", "5", "1,", "not ", "$", "\\(", "\\text{", " 3 dollars", "\n", "Question:",
    "\nQuestion:", ". Wait, no: ", "Actually, it is ", "**", "`", "(", "[", ";", "-", " to ", "if ",
    " x",
    "=", "/", "\\frac{1}{", "option ", "A is the best answer", "B is correct. ", "two ", " thirds",
    "nor ",
    "any ", "but ", "</think>", "é", "²", "7" * 50, "million ", "%", " " * 20, "A, A or B is ", "½",
)  # fmt: skip
READERS: tuple[Callable[[str], object], ...] = (
    extract_number, extract_choice, find_letter, find_expression, find_arithmetic,
)  # fmt: skip


def repeated(*pieces: str) -> str:
    whole = "".join(pieces)
    return (whole * (LENGTH // len(whole) + 1))[:LENGTH]


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_text_of_one_or_two_pieces_is_read_in_time(piece: str) -> None:
    other = random.Random(piece).choice(PIECES)
    for text in (repeated(piece), repeated(piece, other)):
        for read in READERS:
            begun = time.process_time()
            read(text)
            assert time.process_time() - begun < SECONDS, read


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=300))
def test_no_text_makes_a_reader_raise(text: str) -> None:
    for read in READERS:
        read(text)


def test_a_number_too_long_to_scale_is_no_answer() -> None:
    assert extract_number("7" * 5000) == "7" * 5000
    assert extract_number("7" * 5000 + " million") is None


def test_a_list_below_a_statement_and_a_denied_statement_end_in_the_right_place() -> None:
    assert extract_number("The answer is:\n- 18You are an AI\n- 5") == "18"
    assert extract_number("I don't think the answer is 5. It is 7.") == "7"
    assert extract_number("\\boxed{}The answer is 18.") == "18"


def test_a_negation_excludes_the_mark_behind_it_and_not_one_on_the_next_line() -> None:
    assert extract_number("The answer is not \\boxed{5}.") is None
    assert extract_number("So 22 more float than not\n#### 22") == "22"


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The answer is (A) H_{2}O -> H + O + H", "A"),
        ("B. 2H_{2}O(l) -> 2H_{2}(g) + O_{2}(g)", "B"),
        ("D. unacceptable because this is not the usual way", "D"),
        ("C. fluorine (F)", "C"),
        ("The answer is (B) two or more", "B"),
    ],
)
def test_letters_and_words_in_an_option_do_not_refuse_its_letter(text: str, letter: str) -> None:
    assert find_letter(text, "ABCD").answer == letter
