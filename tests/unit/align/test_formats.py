"""Rewards for form: what pays and what does not, on texts of more than one line."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.align import formats
from remask.align.combined import combine

GOOD = "<reasoning>\nfirst 2 + 3 = 5\nthen 5 * 2 = 10\n</reasoning>\n<answer>\n10\n</answer>\n"
ONE_LINE = "<reasoning>2 + 3</reasoning> <answer>5</answer>"
FORMS = (
    formats.soft_format, formats.strict_format, formats.tag_count, formats.whole_number_answer,
    formats.boxed_format,
)  # fmt: skip


def paid(reward: Any, text: str) -> float:
    value: float = reward(prompts=["p"], completions=[text], completion_ids=[[1]])[0]
    assert reward(prompts=["p"], completions=[[{"role": "assistant", "content": text}]]) == [value]
    return value


def test_reasoning_of_several_lines_has_the_form() -> None:
    assert paid(formats.soft_format, GOOD) == 0.5
    assert paid(formats.strict_format, GOOD) == 0.5
    assert paid(formats.strict_format, GOOD.rstrip("\n")) == 0.5


def test_the_soft_form_lets_lines_be_and_the_strict_one_does_not() -> None:
    assert paid(formats.soft_format, ONE_LINE) == 0.5
    assert paid(formats.strict_format, ONE_LINE) == 0


@pytest.mark.parametrize(
    "text",
    [
        "", "10", "so <reasoning>\na\n</reasoning>\n<answer>\n10\n</answer>",
        "<answer>\n10\n</answer>\n<reasoning>\na\n</reasoning>", GOOD.replace("</answer>", ""),
        GOOD.replace("</reasoning>\n", "</reasoning>\nso\n"),
    ],
)  # fmt: skip
def test_other_forms_do_not_pay(text: str) -> None:
    assert paid(formats.soft_format, text) == 0
    assert paid(formats.strict_format, text) == 0


def test_tags_are_counted_and_a_tail_costs() -> None:
    """Four tags 0.5, two of them 0.25; a tail of 9 letters costs 0.009, a tag twice its 0.125."""
    assert paid(formats.tag_count, GOOD) == 0.5
    assert paid(formats.tag_count, "<answer>10</answer>") == 0.25
    assert paid(formats.tag_count, GOOD + "and so on") == pytest.approx(0.491)
    assert paid(formats.tag_count, "<answer>" + GOOD) == 0.375
    assert paid(formats.tag_count, "nothing") == 0


@pytest.mark.parametrize(
    ("answer", "value"), [("10", 0.5), ("\n 10 \n", 0.5), ("ten", 0), ("1.5", 0), ("²", 0), ("", 0)]
)
def test_a_whole_number_is_digits_alone(answer: str, value: float) -> None:
    assert paid(formats.whole_number_answer, f"so\n<answer>{answer}</answer>") == value


def test_a_number_without_tags_is_no_answer() -> None:
    assert paid(formats.whole_number_answer, "10") == 0
    assert paid(formats.whole_number_answer, "</answer>10<answer>") == 0


def test_the_box_is_seen() -> None:
    assert paid(formats.boxed_format, "<answer>\nit is\n\\boxed{10}\n</answer>") == 1
    assert paid(formats.boxed_format, "<answer>\n10\n</answer>") == 0.75
    assert paid(formats.boxed_format, "so \\boxed{10}") == 0.5
    assert paid(formats.boxed_format, "so 10") == 0.25
    assert paid(formats.boxed_format, "<answer>\boxed{10}</answer>") == 0.75  # a backspace


@given(
    st.lists(st.sampled_from(["<reasoning>", "</reasoning>", "<answer>", "</answer>", "\n", "1"]))
    | st.text()
)
def test_every_text_has_a_finite_reward(pieces: list[str] | str) -> None:
    text = "".join(pieces)
    total = combine(FORMS)(prompts=["p"], completions=[text], completion_ids=[[1]])[0]
    assert total is not None
    assert math.isfinite(total)
    assert total <= 3.0
    if paid(formats.strict_format, text):
        assert paid(formats.soft_format, text)
