"""Where answers are marked: boxes, tags and hashes, nested, joined and cut off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.answers.markup import marks

SIGNS = (
    "<answer>",
    "</answer>",
    "\\boxed{",
    "}",
    "{",
    "####",
    " 7 ",
    "\n",
    " and ",
    ",",
    "x",
    "\\}",
)
PIECES = st.lists(st.sampled_from(SIGNS)).map("".join)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"so $\boxed{42}$.", ["42"]),
        (r"\boxed{\frac{1}{\sqrt{2}}}", [r"\frac{1}{\sqrt{2}}"]),
        (r"\boxed{1} and \fbox{2}", ["1", "2"]),
        (r"\boxed{\{1, 2\}}", [r"\{1, 2\}"]),
        (r"\boxed{\left\{ x \right.}", [r"\left\{ x \right."]),
        (
            r"\boxed{\begin{pmatrix} 1 \\ 2 \end{pmatrix}}",
            [r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"],
        ),
        (r"\boxed 7 is it", ["7"]),
        (r"\boxed{a \boxed{b}}", ["b"]),
        (r"\boxed{cut off", []),
        ("nothing", []),
    ],
)
def test_boxes_are_read_with_their_braces_matched(text: str, found: list[str]) -> None:
    whole = [mark for mark in marks(text) if mark.kind == "box" and not mark.cut]
    assert [body for mark in whole for body in mark.bodies] == found


@pytest.mark.parametrize(
    ("text", "bodies"),
    [
        ("<answer>7</answer>", [("7",)]),
        (r"<answer>\boxed{7}</answer>", [("7",)]),
        (r"<answer>It is \boxed{7} cm</answer> #### 8", [("7",), ("8",)]),
        (r"#### \boxed{7}", [("7",)]),
        (r"<answer>#### 7</answer>", [("7",)]),
        (r"\boxed{1} and \boxed{2}", [("1", "2")]),
        (r"$\boxed{1}$, $\boxed{2}$ or $\boxed{3}$", [("1", "2", "3")]),
        (r"$x = \boxed{1}$ or $x_{2}=\boxed{2}$", [("1", "2")]),
        (r"\boxed{3} hours and \boxed{20} minutes", [("3", "20")]),
        (r"\boxed{1} and or and \boxed{2}", [("1", "2")]),
        (r"\boxed{1} then x and or so and \boxed{2}", [("1", "2")]),
        (r"\boxed{1} then so x and \boxed{2}", [("1",), ("2",)]),
        (r"\boxed{1}. Then we add, and get \boxed{2}", [("1",), ("2",)]),
        ("\\boxed{1}\n\\boxed{2}", [("1",), ("2",)]),
        ("boxed{7}", [("7",)]),
        ("##### 7", []),
        ("nothing", []),
    ],
)
def test_the_innermost_marks_count_and_joined_ones_are_one(
    text: str, bodies: list[tuple[str, ...]]
) -> None:
    assert [mark.bodies for mark in marks(text)] == bodies


@pytest.mark.parametrize(
    ("text", "body", "cut"),
    [
        (r"\boxed{12", "12", True),
        ("\\boxed{12\n</answer>", "12", False),
        ("\\boxed{12>", "12", False),
        ("\\boxed{\\frac{1}{2\n", "\\frac{1}{2", True),
        ("<answer>12", "12", True),
        ("<answer>\n12\nmore", "12", False),
        ("<answer>12</answer", "12", False),
    ],
)
def test_an_open_mark_ends_with_its_line_or_is_cut_off(text: str, body: str, cut: bool) -> None:
    mark = marks(text)[-1]
    assert (mark.bodies, mark.cut) == ((body,), cut)


@pytest.mark.parametrize(
    "text", [r"\boxed{}", r"\boxed{...}", "<answer> \n</answer>", r"\boxed{[]}"]
)
def test_points_and_blanks_are_empty(text: str) -> None:
    assert [mark.empty for mark in marks(text)] == [True]


@given(st.text(max_size=200) | PIECES)
def test_marks_are_in_order_and_hold_what_the_text_has(text: str) -> None:
    seen = marks(text)
    assert [mark.start for mark in seen] == sorted(mark.start for mark in seen)
    for mark in seen:
        assert 0 <= mark.start <= mark.end <= len(text)
        assert all(body in text for body in mark.bodies)


def test_boxes_among_many_joining_words_are_looked_through() -> None:
    """Where words could be joined in many ways, and each was tried, this would not end."""
    text = (r"\boxed{1}" + " and" * 19 + " x ") * 2_000
    assert [mark.bodies for mark in marks(text)] == [("1",)] * 2_000
