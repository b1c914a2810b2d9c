"""Overlap of questions: what counts as the same word, and the three ways to hit a test."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.language.text.overlap import (
    WINDOW,
    OverlapCount,
    OverlapIndex,
    blinded,
    in_digits,
    windows,
    words_of,
)

TEST = "Ann had 12 red pens and lost 5 of them on her way home. How many pens does she have left?"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann's 3 pens cost $1,200.50.", ("anns", "3", "pens", "cost", "1200.50")),
        ("She did n't pay $ 7.00 , did she ?", ("she", "didnt", "pay", "7", "did", "she")),
        ("T-shirts: 1/2 off!", ("t", "shirts", "1", "2", "off")),
        ("Ann 's and Bo’s", ("anns", "and", "bos")),
        # Any sign for an apostrophe, at the word or apart from it; a quotation mark joins nothing.
        ("Ann ‘s, Ann`s, Annʼs, Ann´s", ("anns",) * 4),
        ("They play ' dunk ' and 'hide'", ("they", "play", "dunk", "and", "hide")),
        ("the boys ' toys, I 'm in", ("the", "boys", "toys", "im", "in")),
        # One letter or two, full width or not.
        ("Cafe\u0301 １２ ½", ("café", "12", "1", "2")),
        ("", ()),
        ("ÉTÉ 3.", ("été", "3")),
    ],
)
def test_words_and_numbers_are_what_is_compared(text: str, words: tuple[str, ...]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("spelled", "digits"),
    [
        ("twenty-five", "25"),
        ("two hundred cars and five", "200 cars and 5"),
        ("two hundred and five", "205"),
        ("a thousand and one nights", "a 1001 nights"),
        ("one hundred twenty-three thousand four hundred", "123400"),
        ("two million three hundred thousand", "2300000"),
        ("one, two, three and four", "1 2 3 and 4"),  # four numbers, not one
        ("twenty ten sixteen sixty", "20 10 16 60"),
        ("someone sold a tenth", "someone sold a tenth"),
    ],
)
def test_a_run_of_number_words_is_one_number(spelled: str, digits: str) -> None:
    assert in_digits(words_of(spelled)) == tuple(digits.split())


@given(st.integers(0, 999), st.integers(0, 999), st.booleans())
def test_every_number_below_a_million_is_read(high: int, low: int, joined: bool) -> None:
    """Spelled by another hand: hundreds, tens and units, with and without "and"."""
    small = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
        "nineteen",
    ]  # fmt: skip
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905

    def said(value: int) -> str:
        if value >= 100:
            rest = f"{' and' * joined} {said(value % 100)}" if value % 100 else ""
            return f"{small[value // 100]} hundred{rest}"
        if value < 20:
            return small[value]
        return tens[value // 10 - 2] + (f"-{small[value % 10]}" if value % 10 else "")

    text = f"{said(high)} thousand {said(low)}" if high and low else said(high or low)
    value = 1000 * high + low if high and low else high or low
    assert in_digits(words_of(text)) == (str(value),)


def test_a_number_in_words_hits_the_same_in_digits_in_every_way() -> None:
    spelled = TEST.replace("12", "twelve").replace("5", "one hundred and five")
    assert OverlapIndex([TEST.replace("5", "105")]).ways(spelled) == (True, True, True)
    # Words are counted as they stand, too: thirteen of them with "twenty five" as two.
    thirteen = "a b c d e f g h i j k twenty five"
    assert OverlapIndex([f"x {thirteen} y"]).ways(f"{thirteen} z") == (False, False, True)


def test_numbers_are_blinded_in_digits_and_in_words() -> None:
    assert blinded(words_of("She has 12 or twelve, not one dozen.")) == (
        "she", "has", "#", "or", "#", "not", "#", "dozen",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("question", "ways"),
    [
        (TEST, (True, True, True)),
        (TEST.upper().replace(".", " ;"), (True, True, True)),
        # Other numbers: the same 13 words stand behind the second one.
        (TEST.replace("12", "31").replace("5", "9"), (False, True, True)),
        # Twelve words in a row are the same here, and thirteen below.
        ("Bo had 12 red pens and lost 5 of them on her way to town.", (False, False, False)),
        ("Bo had 12 red pens and lost 5 of them on her way home.", (False, False, True)),
        ("Ann had 12 red pens.", (False, False, False)),
    ],
)
def test_the_three_ways_worked_by_hand(question: str, ways: tuple[bool, bool, bool]) -> None:
    assert OverlapIndex([TEST]).ways(question) == ways


def test_counts_add_up_by_way() -> None:
    index = OverlapIndex([TEST, "How many?"])
    counted = index.count([TEST, TEST.replace("12", "7"), "How many", "Nothing of it."])
    assert counted == OverlapCount(same=2, same_but_numbers=3, windows=2)
    assert str(counted) == "2, 3, 2"


def test_an_index_without_questions_is_hit_by_nothing() -> None:
    assert not OverlapIndex([]).hits(TEST)


def test_a_short_question_has_no_window() -> None:
    assert list(windows(("a",) * (WINDOW - 1))) == []
    assert len(list(windows(("a",) * (WINDOW + 2)))) == 3


WORDS = st.lists(
    st.sampled_from(["ann", "has", "3", "17", "pens", "and", "bo", "lost"]), max_size=30
)


@given(WORDS, WORDS)
def test_the_ways_are_what_they_say(ours: list[str], theirs: list[str]) -> None:
    """Compared with the plain reading: equal lists, equal texts without digits, shared runs."""
    same, blind, run = OverlapIndex([" ".join(theirs)]).ways(" ".join(ours))
    assert same == (ours == theirs)
    hidden = [re.sub(r"\d+", "#", " ".join(words)) for words in (ours, theirs)]
    assert blind == (hidden[0] == hidden[1])
    joined = f" {' '.join(theirs)} "
    runs = (" ".join(ours[k : k + WINDOW]) for k in range(len(ours) - WINDOW + 1))
    assert run == any(f" {part} " in joined for part in runs)


@given(st.text(max_size=200))
def test_any_text_hits_itself_and_no_text_crashes(text: str) -> None:
    index = OverlapIndex([text])
    assert index.ways(text)[:2] == (True, True)
    assert index.ways(f"  {text.lower()} ")[0] or text.lower() != text
