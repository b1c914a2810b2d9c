"""Where an answer ends: what a canvas was filled up with is no part of it, in any task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.answers import extract_choice, extract_number
from remask.answers.markup import answer_of
from remask.tasks.countdown import Countdown
from remask.tasks.public.choices import find_letter
from remask.tasks.public.formula import find_expression
from remask.tasks.public.listing import find_program

ENDS = (
    "<|eot_id|><|endoftext|>", "<|im_end|>", "<|role_end|>", "<|fim_pad|>", "</s></s>", "<eos>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|endoftext|>\n\nHuman: what is 5?", "[EOS] 7",
)  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_every_task_reads_up_to_the_token_that_ends_the_text(end: str) -> None:
    assert extract_number(f"#### 18{end}") == "18"
    assert extract_number(f"\\boxed{{18{end}") == "18"
    assert extract_choice(f"The answer is B{end}") == "B"
    assert find_letter(f"B{end}").answer == "B"
    assert find_expression(f"The answer is 3/4{end}").answer == "3/4"
    assert Countdown().extract(f"The answer is (80 - 82) + 47{end}") == "47+80-82"
    program = "def f(x):\n    return x"
    assert find_program(f"{program}{end}", ["f"]).source == program


def test_what_stands_after_the_first_end_was_never_said() -> None:
    assert extract_number("\\boxed{20}\n</answer><|eot_id|>\n\\boxed{0}<|endoftext|>") == "20"


def test_ends_before_the_first_word_mean_nothing_and_a_mask_is_no_end() -> None:
    assert extract_number("<|endoftext|> <|im_start|>The answer is 4.") == "4"
    assert extract_number("The answer is 18<|mdm_mask|>") is None
    assert extract_number("The answer is 1<|mask|>8") is None


@pytest.mark.parametrize("text", ["a < b | c > d", "<s>old</s> price 5", "if x <|> y", "<answer>"])
def test_a_text_without_such_a_token_is_left_alone(text: str) -> None:
    assert answer_of(text) == text


@given(st.text(st.sampled_from("<|>/s eos\uff5c[]EOSmask\n"), max_size=60))
def test_no_text_makes_it_raise(text: str) -> None:
    assert len(answer_of(text)) <= len(text)
