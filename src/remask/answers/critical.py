"""Critical text: the places of an answer that decide whether it is right, by kind of answer.

A finder is a function of a text, its final answer as it was extracted, and the prompt ("" where it
is not known); it returns spans of the text. No text makes one raise. What a rebuild reads off its
surroundings decides nothing: a letter behind "C) Gus: yes" is given away, and so the verdicts on
options belong to a choice; what a variable is called is free, and so only its uses belong to a
program.
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
    """Say for each decoded token whether it has a part in critical text of this kind."""
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
    """Return every number and the final answer.

    The answer is its last occurrence that stands by itself. Where its canonical form is not in
    the text (an expression, a fraction), its numbers are there all the same.
    """
    return [*number_spans(text), *last_occurrence(text, answer)]


def of_choice(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return the letter, the words of every option, numbers, and verdicts such as yes and no.

    The letter may be a small one. Where the prompt lists no options, the rest is there still.
    """
    letter = last_occurrence(text, answer) or last_occurrence(text, (answer or "").lower())
    offered = set[str]().union(*telling_words(listed_options(prompt)).values())
    return [*number_spans(text), *letter, *verdict_spans(text), *word_spans(text, offered)]


def of_code(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return the names that a program uses, its operators and its constants."""
    first, last = program_span(text)
    source = text[first:last]
    spans = [*name_spans(source), *operator_spans(source), *constant_spans(source)]
    return [(first + start, first + end) for start, end in spans]


def of_formula(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return numbers and the final answer, and the variables and operators of formulas."""
    return [*of_number(text, answer, prompt), *symbol_spans(text)]


def of_text(text: str, answer: str | None, prompt: str) -> list[Span]:
    """Return nothing: where there is no final result, no words count more than others."""
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
OFFERED = ("choice",)  # kinds whose critical text stands in the prompt, to be chosen from
