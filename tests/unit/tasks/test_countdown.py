"""Countdown: the parser, the graders and the generator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.tasks.base import Problem, count_pieces
from remask.tasks.countdown import Countdown, parse

TASK = Countdown()
PROBLEM = Problem(
    id="hand",
    task="countdown",
    level="medium",
    prompt="Use 3, 7, 12 and 5 once each to make 26.",
    gold="(5-3)*7+12",
    solution="",
    facts={"numbers": (3, 7, 12, 5), "target": 26},
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3+7", "7+3"),
        ("3+(7-5)", "7-5+3"),
        ("9-(7-5)", "5+9-7"),
        ("2*(12/3)", "12*2/3"),
        ("12/(3/2)", "2*12/3"),
        ("(1+2)*(3+4)", "(4+3)*(2+1)"),
        ("((3))", "3"),
    ],
)
def test_equivalent_expressions_have_one_canonical_form(one: str, other: str) -> None:
    assert TASK.extract(f"Answer: {one}.") == TASK.extract(f"The answer is {other}")


@pytest.mark.parametrize(
    ("one", "other"), [("3-7", "7-3"), ("3+7*2", "(3+7)*2"), ("8/4", "4/8"), ("3+3", "3*3")]
)
def test_different_expressions_have_different_forms(one: str, other: str) -> None:
    assert TASK.extract(f"Answer: {one}") != TASK.extract(f"Answer: {other}")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("1+1=2. The answer is 3+4. So the answer is 5*6=30.", "5*6"),
        ("12-5=7 and then (7+1)*2", "(1+7)*2"),
        ("therefore THE ANSWER IS (2+1)*4.", "(1+2)*4"),
        ("The answer is 42.", "42"),
        ("The answer is unknown. 3+4=7", None),
        ("The answer is (3+4", None),
        ("The answer is 3**4", None),
        ("The answer is 3+", None),
        ("no numbers at all", None),
        ("", None),
        ("Answer: " + "(" * 1000 + "1" + ")" * 1000, None),
    ],
)
def test_the_expression_after_the_last_closing_is_the_answer(text: str, answer: str | None) -> None:
    assert TASK.extract(text) == answer


@given(st.text() | st.text("0123456789+-*/() =.") | st.text("()-1").map(lambda t: "Answer: " + t))
def test_nothing_makes_the_graders_raise(text: str) -> None:
    answer = TASK.extract(text)
    TASK.grade(PROBLEM, text)
    TASK.process_ok(PROBLEM, text)
    if answer is not None:
        assert parse(answer) is not None
        assert TASK.extract(f"Answer: {answer}") == answer


def test_a_division_by_zero_is_wrong_and_no_error() -> None:
    problem = Problem(
        id="", task="", level="", prompt="", gold="", solution="",
        facts={"numbers": (3, 5, 5), "target": 3},
    )  # fmt: skip
    assert not TASK.grade(problem, "The answer is 3/(5-5)")


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("(12-5)*3+7", False),  # 28
        ("12+7*(5-3)", True),  # 12+14
        ("(5-3)*7+12", True),
        ("12+14", False),  # 26, from other numbers
        ("12+7*(5-3)+7-7", False),  # 26, but 7 is used three times
        ("12+7*2", False),
        ("26", False),
    ],
)
def test_an_answer_uses_every_number_once_and_makes_the_target(answer: str, right: bool) -> None:
    """Of 3, 7, 12 and 5, 12+7*(5-3) makes 26."""
    assert TASK.grade(PROBLEM, f"So the answer is {answer}.") is right


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ("5-3=2. 7*2=14. 12+14=26.", True),
        ("First 5-3=2, then 2*7=14, then 14+12=26.", True),
        ("We need 26. 5-3=2, 7*2=14 and 12+14=26.", True),
        ("We need 27. 5-3=2, 7*2=14 and 12+14=26.", False),  # another target
        ("5-3=3. 7*2=14. 12+14=26.", False),  # a wrong result
        ("7*2=14. 5-3=2. 12+14=26.", False),  # 2 before it was made
        ("5-3=2. 7*2=14.", False),  # the last step is missing
        ("5-3=2. 7*2=14. 12+14=26. 5-3=2.", False),  # 5 and 3 are spent
        ("7+12=19. 19+5=24. 24+3=27.", False),  # another expression
        ("5-3=2. 7*2=14. bananas. 12+14=26.", False),
        ("5-3=2=2. 7*2=14. 12+14=26.", False),
        ("", False),
    ],
)
def test_every_step_must_hold_and_build_the_answer(body: str, right: bool) -> None:
    """The answer itself is right in each of these."""
    text = f"{body} The answer is 12+7*(5-3)."
    assert TASK.grade(PROBLEM, text)
    assert TASK.process_ok(PROBLEM, text) is right


def test_a_wrong_value_behind_the_answer_is_a_wrong_step() -> None:
    steps = "5-3=2. 7*2=14. 12+14=26. The answer is 12+7*(5-3)"
    assert TASK.process_ok(PROBLEM, f"{steps}=26.")
    assert not TASK.process_ok(PROBLEM, f"{steps}=25.")
    assert not TASK.process_ok(PROBLEM, f"{steps}. Or not.")


def test_steps_with_equal_numbers_may_stand_for_either() -> None:
    """6-2=4 and 4*4=16 with a given 4: which 4 is which does not matter."""
    problem = Problem(
        id="", task="", level="", prompt="", gold="", solution="",
        facts={"numbers": (4, 6, 2, 1), "target": 15},
    )  # fmt: skip
    assert TASK.process_ok(problem, "6-2=4. 4*4=16. 16-1=15. The answer is 4*(6-2)-1.")


@pytest.mark.parametrize("level", TASK.levels)
def test_generated_solutions_are_right_in_every_step_and_fit(level: str) -> None:
    longest = 94 if level == "hard" else 62
    for index in range(300):
        problem = TASK.problem(index, level=level, seed=3)
        assert TASK.extract(problem.solution) == problem.gold
        assert TASK.process_ok(problem, problem.solution), problem
        assert count_pieces(problem.prompt) <= 40
        assert count_pieces(problem.solution) <= longest < TASK.canvas_length(level)
        assert problem.solution.isascii()


def test_a_changed_digit_is_noticed() -> None:
    """Swapping one digit of the solution for another never leaves all steps right."""
    for index in range(100):
        problem = TASK.problem(index, level="medium")
        places = [i for i, c in enumerate(problem.solution) if c.isdigit()]
        at = places[index % len(places)]
        digit = str((int(problem.solution[at]) + 1) % 10)
        broken = problem.solution[:at] + digit + problem.solution[at + 1 :]
        assert not TASK.process_ok(problem, broken), (problem.solution, broken)


def test_hard_problems_are_longer_than_trained_ones() -> None:
    def mean(level: str) -> float:
        return sum(count_pieces(TASK.problem(i, level=level).solution) for i in range(100)) / 100

    assert mean("easy") < mean("medium") < mean("hard")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One way is $25 \\times 4 − 3$.", "25*4-3"),
        ("\\[ (8 + 4) \\div 6 \\cdot 7 = 14 \\]", "(4+8)*7/6"),
        ("$$\\frac{(8+4)}{6}\\times7=14$$", "(4+8)*7/6"),
        ("<answer>[(8 + 4) / 6] * 7</answer>", "(4+8)*7/6"),
        ("<answer>(8 + 4) / 6 x 7</answer>", "(4+8)*7/6"),
        ("<answer>7(8+4)/6</answer>", "(4+8)*7/6"),
        ("<answer>The expression is 25 * 4 - 3.</answer>", "25*4-3"),
        ("The answer is 7 * (8 + 4) / 6 (that is 14).", "(4+8)*7/6"),
        ("<answer>8 + 4 *</answer>", None),
        ("<answer>8 + 4 = 12, 12 - 3 = 9</answer>", None),
        ("<answer>8 + 4 = 12\n12 - 3 = 9</answer>", None),
        ("<answer>8 + 4 or 4 + 8 - 2</answer>", None),
        ("So x + 3 - 2", None),
        ("It is 8.5 + 4", None),
        ("It is 8 + 4.5", None),
        ("It is 8 + 4^2", None),
    ],
)
def test_an_expression_is_read_whole_wherever_it_stands(text: str, expected: str | None) -> None:
    assert Countdown().extract(text) == expected
