"""Critical text of each kind, by hand; and that no text upsets a finder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.answers.critical import CRITICAL, critical_positions
from remask.errors import SettingsError
from remask.tasks import TASKS

KINDS = sorted(CRITICAL)
HAT = (
    "The hat is with Zoe. Sam has the map. Zoe and Tom swap. Who has the hat? A) Tom B) Sam C) Zoe"
)
FOLLOWED = "Zoe has it. Then Tom. So it is Tom. A) Tom: yes. B) Sam: no. Answer: A"
LOOP = """def f(xs, k=2):
    \"\"\"Double the 3 largest.\"\"\"
    total = 0
    for x in xs:
        if x not in seen and x >= k:
            total += abs(x) - 10  # keep 5
    return total"""


def critical(kind: str, text: str, answer: str | None = None, prompt: str = "") -> list[str]:
    """Return the critical stretches of a text, in its order; those that touch are one."""
    flags = critical_positions(list(text), answer, prompt=prompt, kind=kind)
    shown = "".join(sign if flag else "\0" for sign, flag in zip(text, flags, strict=True))
    return [stretch for stretch in shown.split("\0") if stretch]


def test_tokens_of_numbers_are_critical() -> None:
    pieces = ["She", " pays", " $", "1", ",", "2", "34", ".", " Then", " 5", "", "."]
    expected = ["1", ",", "2", "34", " 5"]
    marked = critical_positions(pieces, None)
    assert [p for p, critical in zip(pieces, marked, strict=True) if critical] == expected


def test_tokens_of_the_last_lone_occurrence_of_the_answer_are_critical() -> None:
    pieces = ["B", "ob", " says", " B", ",", " so", " B", " it", " is", " CAB", "."]
    assert critical_positions(pieces, "B") == [i == 6 for i in range(11)]
    assert critical_positions(["BB", "B"], "B") == [False, False]
    assert critical_positions(["B"], "B") == [True]


def test_of_an_expression_that_is_not_in_the_text_the_numbers_are_critical() -> None:
    """Countdown: the answer's canonical form, (11-8)*16, is not in the text."""
    text, task = "So 11-8=3; 16 * 3=48. The answer is 16*(11-8).", TASKS["countdown"]
    answer = task.extract(text)
    assert answer == "(11-8)*16"
    numbers = ["11", "8", "3", "16", "3", "48", "16", "11", "8"]
    assert critical(task.critical, text, answer) == numbers


def test_of_a_choice_the_letter_the_words_of_options_and_the_verdicts_are_critical() -> None:
    """Not what else the prompt is about, the hat and the map."""
    expected = ["Zoe", "Tom", "Tom", "Tom", "yes", "Sam", "no", "A"]
    assert critical("choice", FOLLOWED, "A", HAT) == expected
    text = "Sam has the map, and Zoe the hat. Answer: C"
    assert critical("choice", text, "C", HAT) == ["Sam", "Zoe", "C"]


def test_a_choice_without_a_list_or_an_answer_has_its_numbers_and_verdicts() -> None:
    text = "No, it takes 3 days, so (b)."
    assert critical("choice", text, "B", "How long does it take?") == ["No", "3", "b"]
    assert critical("choice", text, None, HAT) == ["No", "3"]


def test_of_a_program_uses_of_names_operators_and_constants_are_critical() -> None:
    """Not where names are bound, the docstring, the comment and the `in` of the loop."""
    names = ["2", "0", "xs", "x", "not", "in", "seen", "and", "x", ">=", "k"]
    assert critical("code", LOOP) == [*names, "total", "+=", "abs", "x", "-", "10", "total"]


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("def f(n):\n  if n > 3\n    return n -", ["n", ">", "3", "n", "-"]),
        ("    return n ** 'a", ["n", "**", "'a"]),
        ("def f(n:\n    return n\n    return", ["n"]),
    ],
)
def test_programs_that_do_not_parse_have_critical_text(text: str, uses: list[str]) -> None:
    assert critical("code", text) == uses


def test_a_program_is_looked_for_in_its_fence_and_not_beyond_the_end() -> None:
    fenced = "With 2 lines:\n```python\nx = 3\n```\nThat is 4."
    assert critical("code", fenced) == ["3"]
    assert critical("code", "Here it is.\nimport os\nx = 5\n[DONE] and 6") == ["5"]
    assert critical("code", "y = 7<|endoftext|><|endoftext|>") == ["7"]


def test_of_formulas_numbers_variables_and_operators_are_critical() -> None:
    text = r"The $3$ roots of $x^2 - 5x$ cost $4 and \(\frac{y}{\pi} \le z\) is \boxed{n!}."
    symbols = ["3", "x^2", "-", "5x", "4", r"\frac", "y", r"\pi", r"\le", "z", "n!"]
    assert critical("formula", text) == symbols


def test_of_formulas_words_brackets_and_layout_are_not_critical() -> None:
    text = "\\[\\left( a \\text{ is a side} \\right) \\quad \\\\ \\begin{matrix} b \\end{matrix}\\]"
    assert critical("formula", text) == ["a", "b"]
    assert critical("formula", r"so \boxed{\text{Ann}}", "Ann") == ["Ann"]


def test_nothing_is_critical_in_plain_text() -> None:
    assert critical("text", "It is 5.", "5") == []


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"Unknown kind 'poem'. Known: number, "):
        critical_positions(["a"], None, kind="poem")


# Texts near those that mean something to a finder.
SNIPPETS = st.sampled_from(
    ["A) ", "(b) ", "\nC. ", "Tom", "yes", "if x", " for ", " in ", "def f(", "):\n", "'", '"""',
     "```", "$", "$$", "\\[", "\\boxed{", "}", "\\text{", "\\", "1.5", "e-", "==", "#", "\n  ",
     "\r", "\x0c", "\ufeff", "ü", "🦆", "\ud800", "\0", "<|endoftext|>", "[DONE]", "return ", ":="]
)  # fmt: skip
TEXTS = st.lists(SNIPPETS | st.text(max_size=4), max_size=12).map("".join)


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXTS, answer=st.none() | st.text(max_size=3), prompt=TEXTS)
def test_no_text_upsets_a_finder_and_spans_lie_inside(
    kind: str, text: str, answer: str | None, prompt: str
) -> None:
    for start, end in CRITICAL[kind](text, answer, prompt):
        assert 0 <= start < end <= len(text)


@given(st.lists(st.text(max_size=5)), st.none() | st.text(max_size=3), st.sampled_from(KINDS))
def test_there_is_one_critical_flag_per_piece(
    pieces: list[str], answer: str | None, kind: str
) -> None:
    assert len(critical_positions(pieces, answer, kind=kind)) == len(pieces)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "piece", ["A) a ", "$", "\\(", "```", '"""', "for ", "\\boxed{", "x<1 ", "("]
)
def test_a_long_text_of_one_piece_is_looked_through(kind: str, piece: str) -> None:
    """Where a finder took quadratic time, this would not end."""
    pieces = [piece] * 20_000
    assert len(critical_positions(pieces, "A", prompt="".join(pieces), kind=kind)) == 20_000


def test_strings_behind_a_long_indent_are_looked_through() -> None:
    """One is a docstring, which begins its line, and the others are none."""
    strings = "''" * 50_000
    assert critical("code", " " * 100_000 + "'''a'''" + strings) == [strings]


def test_a_formula_is_found_behind_signs_that_nothing_closes() -> None:
    assert critical("formula", r"\[" * 10_000 + r"\(x\) costs $$5") == ["x", "5"]
