import re
from itertools import product

import pytest
from by_hand import APPLES
from hypothesis import given
from hypothesis import strategies as st

from remask.tasks.base import count_pieces
from remask.tasks.quantities import SIZES
from remask.tasks.wordmath import CLOSINGS, ITEMS, NAMES, RESTATED, STEPS, WordMath

TASK = WordMath()
NUMBERS = range(200)
PROBLEM = APPLES


def test_every_quantity_of_the_prompt_has_two_digits_and_every_step_is_arithmetic():
    for level, index in product(TASK.levels, NUMBERS):
        facts = TASK.problem(index, level=level).facts
        assert all(10 <= value <= 99 for value in facts["values"].values())
        for name, ways in facts["steps"].items():
            for written in ways:
                left, operator, right = re.split(r"([-+*/])", written)
                results = {
                    "+": int(left) + int(right),
                    "-": int(left) - int(right),
                    "*": int(left) * int(right),
                    "/": int(left) / int(right),
                }
                assert results[operator] == facts["values"][name]


def test_the_number_of_steps_grows_with_the_level():
    steps = {
        level: {len(TASK.problem(i, level=level).facts["needed"]) for i in NUMBERS}
        for level in TASK.levels
    }
    assert steps == {"easy": {1, 2}, "medium": {3, 4, 5}, "hard": {5}}


def test_a_hard_tale_is_longer_than_anything_trained():
    trained = max(SIZES[level].prompt for level in ("easy", "medium"))
    hard = [count_pieces(TASK.problem(i, level="hard").prompt) for i in range(600)]
    assert trained < min(hard)


def test_one_key_comes_in_different_wordings():
    wordings: dict[str, set[str]] = {}
    for index in range(3000):
        problem = TASK.problem(index, split="train", level="easy")
        shape = re.sub("|".join((*NAMES, *ITEMS)), "X", problem.solution)
        wordings.setdefault(problem.facts["key"], set()).add(shape)
    assert max(map(len, wordings.values())) >= 3


def test_independent_steps_come_in_either_order():
    """Where two people follow from given facts alone, either may be computed first."""
    first = set()
    for index in range(800):
        problem = TASK.problem(index, split="train", level="medium")
        places = [problem.solution.find(name) for name in problem.facts["needed"]]
        first.add(places == sorted(places))
    assert first == {True, False}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("restated", RESTATED)
@pytest.mark.parametrize("unit", ["", " apples"])
@pytest.mark.parametrize("closing", CLOSINGS)
def test_every_wording_is_read_back(step, restated, unit, closing):
    parts = [
        restated.format(a="Ben", r=12, u=unit),
        step.format(a="Zoe", e="5+12", r=17, u=unit),
        step.format(a="Tom", e="17*3", r=51, u=unit),
        closing.format(r=51),
    ]
    assert TASK.process_ok(PROBLEM, " ".join(parts))
    wrong = step.format(a="Zoe", e="5+12", r=18, u=unit)
    assert not TASK.process_ok(PROBLEM, " ".join([parts[0], wrong, *parts[2:]]))


@pytest.mark.parametrize(
    "text",
    [
        "Zoe has 12+5=18. Tom has 17*3=51. The answer is 51.",  # wrong sum
        "Zoe has 12+6=18. Tom has 17*3=51. The answer is 51.",  # true sum, wrong value
        "Zoe has 10+7=17. Tom has 17*3=51. The answer is 51.",  # right value, wrong computation
        "12+5=17, so Zoe has 15. Tom has 17*3=51. The answer is 51.",  # says two values
        "Mia has 12+5=17. Tom has 17*3=51. The answer is 51.",  # somebody else's value
        "Tom has 17*3=51. The answer is 51.",  # skipped step
        "Zoe has 17. Tom has 17*3=51. The answer is 51.",  # stated, not computed
        "Ben has 11. Zoe has 12+5=17. Tom has 17*3=51. The answer is 51.",  # wrong given fact
        "Zoe has 12+5=17 pens. Tom has 17*3=51. The answer is 51.",  # wrong unit
        "Zoe has has 12+5=17. Tom has 17*3=51. The answer is 51.",  # garbled
        "Zoe has 12+5=17. Tom 17*3 51=. The answer is 51.",  # garbled
        "Zoe has 12+5=17. Tom has 17*3=51. So fine. The answer is 51.",  # unknown sentence
        "Zoe has 12+5=17. Tom has 17*3=51. 51",  # no closing sentence
    ],
)
def test_a_right_answer_with_a_wrong_step_is_found_out(text):
    assert TASK.grade(PROBLEM, text)
    assert not TASK.process_ok(PROBLEM, text)


@pytest.mark.parametrize(
    "text", ["", "The answer is 50.", "Zoe has 12+5=17. Tom has 17*3=51. The answer is 15."]
)
def test_a_wrong_answer_is_wrong(text):
    assert not TASK.grade(PROBLEM, text)
    assert not TASK.process_ok(PROBLEM, text)


def test_a_true_step_nobody_needs_does_no_harm():
    text = "Mia has 12/2=6. Zoe: 12+5=17. Tom=17*3=51. #### 51"
    assert TASK.process_ok(PROBLEM, text)


@given(st.text(alphabet=st.sampled_from("BenZoTm 0123456789+-*/=.,:#\n"), max_size=60))
def test_no_text_makes_the_grader_raise_and_noise_is_never_a_right_process(noise):
    assert not TASK.process_ok(PROBLEM, noise)
    assert not TASK.process_ok(PROBLEM, PROBLEM.solution.replace(" Tom", f" ~{noise} Tom"))
