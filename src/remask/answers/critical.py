"""Critical text: the places of an answer that decide whether it is right, by kind of answer.

A finder is a function of a text, its final answer as it was extracted, and the prompt ("" where it
is not known); it returns spans of the text. No text makes one raise. What a rebuild reads off its
surroundings decides nothing: a letter behind "C) Gus: yes" is given away, and so the verdicts on
options belong to a choice; what a variable is called is free, and so only its uses belong to a
program.

Names with an underscore are variants, of which validation data choose one for a kind.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from remask.answers.mathematics import symbol_spans
from remask.answers.number import number_spans
from remask.answers.option import (
    listed_options,
    prompt_words,
    telling_words,
    verdict_spans,
    word_spans,
)
from remask.answers.program import (
    condition_spans,
    constant_spans,
    name_spans,
    operator_spans,
    program_span,
)
from remask.errors import SettingsError

Span = tuple[int, int]
Finder = Callable[[str, str | None, str], list[Span]]  # text, final answer, prompt
_BETWEEN = re.compile(r"(?<=[0-9)])\s?([-+*/^×÷−])\s?(?=[0-9(])")


def critical_positions(
    pieces: Sequence[str], answer: str | None, *, prompt: str = "", kind: str = "number"
) -> list[bool]:
    """Say for each decoded token whether it has a part in critical text of this kind."""
    if kind not in CRITICAL:
        known = ", ".join(CRITICAL)
        raise SettingsError(f"critical text of kind {kind!r} is unknown; use one of {known}.")
    text = "".join(pieces)
    painted = bytearray(len(text))
    for start, end in CRITICAL[kind](text, answer, prompt):
        painted[start:end] = b"\x01" * (end - start)
    marked, place = [], 0
    for piece in pieces:
        marked.append(1 in painted[place : place + len(piece)])
        place += len(piece)
    return marked


def of_number(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return every number and the final answer.

    The answer is its last occurrence that stands by itself. Where its canonical form is not in
    the text (an expression, a fraction), its numbers are there all the same.
    """
    return [*number_spans(text), *last_occurrence(text, answer)]


def of_expression(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return numbers and the final answer, and the operators that stand between numbers."""
    operators = (match.span(1) for match in _BETWEEN.finditer(text))
    return [*of_number(text, answer, prompt), *operators]


def of_choice(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return the letter, the words of its option, numbers, and verdicts such as yes and no."""
    chosen = telling_words(listed_options(prompt)).get(answer or "", set())
    return [*_verdicts(text, answer), *word_spans(text, chosen)]


def of_choice_options(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return the same, with the words of every option in place of those of the chosen one."""
    offered = set[str]().union(*telling_words(listed_options(prompt)).values())
    return [*_verdicts(text, answer), *word_spans(text, offered)]


def of_choice_prompt(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return the same, with every word that the prompt is about, its options among them."""
    words = word_spans(text, prompt_words(prompt))
    return [*of_choice_options(text, answer, prompt), *words]


def _verdicts(text: str, answer: str | None) -> list[Span]:
    """Return the letter, which may be a small one, numbers, and verdicts."""
    letter = last_occurrence(text, answer) or last_occurrence(text, (answer or "").lower())
    return [*number_spans(text), *letter, *verdict_spans(text)]


def of_code(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return the names that a program uses, its operators and its constants."""
    return _in_program(text, name_spans, operator_spans, constant_spans)


def of_code_constants(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return the operators and constants of a program."""
    return _in_program(text, operator_spans, constant_spans)


def of_code_conditions(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return the tests and comparisons of a program, and what it returns."""
    return _in_program(text, condition_spans)


def of_formula(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return numbers and the final answer, and the variables and operators of formulas."""
    return [*of_number(text, answer, prompt), *symbol_spans(text)]


def of_text(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return nothing: where there is no final result, no words count more than others."""
    return []


def _in_program(text: str, *finders: Callable[[str], list[Span]]) -> list[Span]:
    """Return what is sought in the program of a text, by its place in the text."""
    first, last = program_span(text)
    source = text[first:last]
    return [(first + start, first + end) for find in finders for start, end in find(source)]


def last_occurrence(text: str, answer: str | None) -> list[Span]:
    """Return the span of the last occurrence of `answer` that is not part of a longer word."""
    start = text.rfind(answer) if answer else -1
    while answer and start >= 0:
        end = start + len(answer)
        if not text[start - 1 : start].isalnum() and not text[end : end + 1].isalnum():
            return [(start, end)]
        start = text.rfind(answer, 0, end - 1)
    return []


CRITICAL: Mapping[str, Finder] = {
    "number": of_number,
    "expression": of_expression,
    "choice": of_choice,
    "choice_letter": of_number,
    "choice_options": of_choice_options,
    "choice_prompt": of_choice_prompt,
    "code": of_code,
    "code_constants": of_code_constants,
    "code_conditions": of_code_conditions,
    "formula": of_formula,
    "text": of_text,
}
