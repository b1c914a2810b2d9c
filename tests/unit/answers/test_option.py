"""Options as prompts list them, and the words by which they differ."""

import pytest

from remask.answers.option import listed_options, telling_words, word_spans
from remask.tasks import TASKS
from remask.tasks.public.choices import ARC, GPQA, listed

METALS = {"A": "tin", "B": "iron ore", "C": "zinc"}


@pytest.mark.parametrize(
    "prompt",
    [
        "Which? A) tin B) iron ore C) zinc",
        "Which?\n(A) tin\n(B) iron ore\n(C) zinc\nAnswer:",
        "Which?\nA. tin\nB. iron ore\nC. zinc",
        "Which? A: tin, B: iron ore, C: zinc",
        "which ? a ) tin , b ) iron ore , c ) zinc",
        "Which?\nA)tin\nB)iron ore\nC)zinc",
        "Which? [A] tin; [B] iron ore; [C] zinc",
        "First? A) red B) blue\nSecond? A) tin B) iron ore C) zinc",  # an example in front
        "Vitamin A. or B.? Which?\nA. tin\nB. iron ore\nC. zinc",
    ],
)
def test_lists_of_every_spelling_are_read(prompt: str) -> None:
    assert listed_options(prompt) == METALS


@pytest.mark.parametrize(
    "prompt", ["", "Q: how many?\nA:", "B) tin C) zinc", "A) tin C) zinc", "A) tin (B) zinc"]
)
def test_what_does_not_go_from_a_to_b_is_no_list(prompt: str) -> None:
    assert listed_options(prompt) == {}


def test_a_time_of_day_within_an_option_begins_no_list() -> None:
    prompt = "When?\nA. 6:00 A.M.\nB. 1:00 P.M.\nAnswer:"
    assert listed_options(prompt) == {"A": "6:00 A.M.", "B": "1:00 P.M."}


def test_the_prompts_of_the_tasks_are_read() -> None:
    task = TASKS["choice"]
    for level in task.levels:
        problem = task.problem(0, split="validation", level=level)
        assert list(listed_options(problem.prompt).values()) == problem.facts["options"]
    fields = {"question": "Is it A or B?", "options": listed(["one", "both. A lot", "none"])}
    for spec in (ARC, GPQA):
        prompt = spec.wordings["llada"].fill(fields)
        assert listed_options(prompt) == {"A": "one", "B": "both. A lot", "C": "none"}


def test_words_that_all_options_share_do_not_tell_them_apart() -> None:
    days = {"A": "The days will become shorter.", "B": "The years will become longer."}
    assert telling_words(days) == {"A": {"days", "shorter"}, "B": {"years", "longer"}}


def test_an_option_of_idle_words_alone_has_them() -> None:
    assert telling_words({"A": "Will", "B": "the x", "C": "of a"}) == {
        "A": {"will"},
        "B": {"the", "x"},
        "C": {"of", "a"},
    }


def test_words_are_sought_whole_and_in_either_case() -> None:
    assert word_spans("A map, no mapping: MAP", {"map"}) == [(2, 5), (19, 22)]
