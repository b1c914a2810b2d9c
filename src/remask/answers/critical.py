"""Critical text: the spans of an answer that decide whether it is correct, by kind of answer.

A finder is a function of a text, its extracted final answer, and the prompt ("" if unknown); it
returns spans of the text. A token that the model can copy from its visible context is not a test.
So the critical text of a choice includes the verdicts on options, because "C) Gus: yes" reveals the
letter, and the critical text of a program includes only the uses of a name, because the name itself
is free.
"""

from collections.abc import Callable, Mapping, Sequence

from remask.answers.mathematics import symbol_spans
from remask.answers.number import number_spans
from remask.answers.option import listed_options, telling_words, verdict_spans, word_spans
from remask.answers.program import constant_spans, name_spans, operator_spans, program_span
from remask.settings import unknown_name

Span = tuple[int, int]
Finder = Callable[[str, str | None, str], list[Span]]  # text, final answer, prompt


def critical_positions(
    pieces: Sequence[str], answer: str | None, *, prompt: str = "", kind: str = "number"
) -> list[bool]:
    """Return for each decoded token whether it overlaps critical text of this kind."""
    if kind not in CRITICAL:
        raise unknown_name("kind", kind, CRITICAL)
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
    """Return every number, and the last occurrence of the final answer as a word of its own."""
    return [*number_spans(text), *last_occurrence(text, answer)]


def of_choice(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return the letter, the words of every option, numbers, and verdicts such as yes and no."""
    letter = last_occurrence(text, answer) or last_occurrence(text, (answer or "").lower())
    offered = set[str]().union(*telling_words(listed_options(prompt)).values())
    return [*number_spans(text), *letter, *verdict_spans(text), *word_spans(text, offered)]


def of_code(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return the used names, the operators and the constants of a program."""
    first, last = program_span(text)
    source = text[first:last]
    spans = [*name_spans(source), *operator_spans(source), *constant_spans(source)]
    return [(first + start, first + end) for start, end in spans]


def of_formula(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return numbers and the final answer, and the variables and operators of formulas."""
    return [*of_number(text, answer, prompt), *symbol_spans(text)]


def of_text(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return no span, because free text has no final result."""
    return []


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
    "choice": of_choice,
    "code": of_code,
    "formula": of_formula,
    "text": of_text,
}
OFFERED = ("choice",)  # kinds whose critical text is among the options of the prompt
