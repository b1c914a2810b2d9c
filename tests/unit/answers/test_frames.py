r"""Rules that hold for every frame, form of an answer and text after it, drawn with a seed."""

import random
from collections.abc import Callable

import pytest

from remask.answers import extract_choice, extract_number
from remask.tasks.public.equivalence import exactly
from remask.tasks.public.formula import find_expression

DRAWS = 1500
FRAMES = (
    "The answer is {}", "The answer is: {}", "Answer: {}", "**Answer:** {}",
    "So the final answer is {}",
    "The correct answer would be {}", "Therefore, the answer must be {}", "## Answer\n\n{}",
    "The answer to the question is {}", "Final answer:\n{}", "#### {}", "<answer>{}</answer>",
    "<answer>\n{}\n</answer>", "\\boxed{{{}}}", "So we get $\\boxed{{{}}}$",
    "<answer>\\boxed{{{}}}</answer>",
)  # fmt: skip
BEFORE = ("", "First, 2 + 3 = 9.\n", "Let us think. It may be many things.\n\n", "- one\n- two\n")
UNCOMMITTED = (
    "{a} or {b}", "either {a} or {b}", "{a} and {b}", "{a}, {b}", "{a}, or {b}", "{a} (or {b})",
    "{a} or maybe {b}", "{a} or possibly {b}", "{a}/{b}", "{a} & {b}", "both {a} and {b}",
    "one of {a} and {b}", "between {a} and {b}", "from {a} to {b}", "{a} to {b}", "{a} through {b}",
    "neither {a} nor {b}", "not {a}", "definitely not {a}", "anything but {a}",
    "anything except {a}",
    "{a}, {b}, and {c}", "{a}, {b} or {c}", "{a}; {b}", "{a} or else {b}", "any of {a}, {b}, {c}",
    "{a} or {b}, I am not sure", "not {a} or {b}", "{a} or something else",
)  # fmt: skip
BOUNDS = (
    "at least {a}",
    "at most {a}",
    "more than {a}",
    "up to {a}",
    "{a} or more",
    "no less than {a}",
)
COMMITTED = ("{a}", "{a}, not {b}", "not {b} but {a}", "{a} rather than {b}", "{a} because of {b}")
RUN_ONS = ("You are an AI assistant with 7 tools", "Question: What is 2 + 2?\nThe answer is {b}",
           "Human: And now?\n#### {b}")  # fmt: skip
NEXT = (
    "\n\nQuestion: What is 2 + 2?\nThe answer is {b}", "\nQ: And now?\nA: The answer is {b}.",
    "\n\nHuman: Go on.\nAssistant: \\boxed{{{b}}}", "<|eot_id|>The answer is {b}",
    "<|endoftext|>#### {b}",
    "\n\nI hope this helps!", "\n",
)  # fmt: skip
AROUND = {
    "number": ("{}", "**{}**", "${}$", "\\({}\\)", "*{}*", "`{}`", "\\text{{{}}}", "${} dollars"),
    "letter": ("{}", "**{}**", "({})", "**({})**", "\\text{{{}}}", "${}$", "[{}]", "option {}"),
    "formula": ("${}$", "\\({}\\)", "**${}$**", "$\\displaystyle {}$"),
}
INSIDE = ("\\boxed{", "<answer>")


def number(rng: random.Random) -> str:
    return rng.choice((str(rng.randint(10, 99)), f"{rng.randint(1, 9)}.{rng.randint(1, 9)}",
                       f"{rng.randint(1000, 99999):,}"))  # fmt: skip


def letter(rng: random.Random) -> str:
    return rng.choice("ABCD")


def formula(rng: random.Random) -> str:
    n = rng.randint(2, 99)
    return rng.choice((str(n), f"\\frac{{{n}}}{{101}}", f"\\sqrt{{{n}}}", f"{n}x^2", f"x+{n}"))


def three(rng: random.Random, draw: Callable[[random.Random], str]) -> tuple[str, str, str]:
    values: list[str] = []
    while len(values) < 3:
        value = draw(rng)
        values += [value] if value not in values else []
    return values[0], values[1], values[2]


DRAW = {"number": number, "letter": letter, "formula": formula}
READ: dict[str, Callable[[str], str | None]] = {
    "number": extract_number,
    "letter": lambda text: extract_choice(text, "ABCD"),
    "formula": lambda text: find_expression(text).answer,
}


def same(kind: str, found: str | None, value: str) -> bool:
    if found is None:
        return False
    if kind == "formula":
        return exactly(value, found) is True
    return found == (extract_number(value) if kind == "number" else value)


def around(rng: random.Random, kind: str, frame: str) -> str:
    """Return what stands around a value; a box holds a formula without dollars."""
    if kind == "formula" and "boxed" in frame:
        return "{}"
    return rng.choice(AROUND[kind])


@pytest.mark.parametrize("kind", list(DRAW))
def test_a_frame_with_two_answers_yields_neither(kind: str) -> None:
    rng = random.Random(f"two/{kind}")
    for _ in range(DRAWS):
        frame = rng.choice(FRAMES)
        values = three(rng, DRAW[kind])
        shape = around(rng, kind, frame)
        a, b, c = (shape.format(value) for value in values)
        forms = UNCOMMITTED if kind == "letter" else (*UNCOMMITTED, *BOUNDS)
        said = rng.choice(forms).format(a=a, b=b, c=c)
        if "boxed" in frame and kind == "formula":
            said = boxed_words(said, (a, b, c))
        text = rng.choice(BEFORE) + frame.format(said) + rng.choice(("", ".", "\n"))
        found = READ[kind](text)
        assert not any(same(kind, found, value) for value in values), (text, found)


def boxed_words(said: str, values: tuple[str, ...]) -> str:
    """Return what is said with its words in \\text{}, as models write them in a box."""
    for number, value in enumerate(values):
        said = said.replace(value, f"\x00{number}\x00")
    parts = said.split("\x00")
    return "".join(
        values[int(part)] if place % 2 else f"\\text{{{part}}}" * bool(part)
        for place, part in enumerate(parts)
    )


@pytest.mark.parametrize("kind", list(DRAW))
def test_what_stands_around_and_after_an_answer_does_not_change_it(kind: str) -> None:
    rng = random.Random(f"one/{kind}")
    for _ in range(DRAWS):
        frame = rng.choice(FRAMES)
        a, b, _ = three(rng, DRAW[kind])
        value = around(rng, kind, frame).format(a)
        before = rng.choice(BEFORE)
        is_glued = rng.random() < 0.4 and frame.endswith("{}")
        after = rng.choice(RUN_ONS if is_glued else NEXT).format(b=b)
        if is_glued and not value[-1].isalnum():
            after = "." + after if rng.random() < 0.5 else after
        text = before + frame.format(value) + after
        found = READ[kind](text)
        assert same(kind, found, a), (text, found)


@pytest.mark.parametrize("kind", list(DRAW))
def test_words_that_commit_to_one_answer_are_read(kind: str) -> None:
    rng = random.Random(f"words/{kind}")
    for _ in range(DRAWS):
        frame = rng.choice([frame for frame in FRAMES if "boxed" not in frame])
        values = three(rng, DRAW[kind])
        shape = AROUND[kind][0]
        a, b, _ = (shape.format(value) for value in values)
        text = frame.format(rng.choice(COMMITTED).format(a=a, b=b))
        found = READ[kind](text)
        assert same(kind, found, values[0]), (text, found)
