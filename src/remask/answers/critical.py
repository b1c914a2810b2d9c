"""Critical text: the places of an answer that decide whether it is right, by kind of answer.

A finder is a function of a text, its final answer as it was extracted, and the prompt ("" where it
is not known); it returns spans of the text. No text makes one raise.
"""

from collections.abc import Callable, Mapping, Sequence

from remask.answers.number import number_spans
from remask.errors import SettingsError

Span = tuple[int, int]
Finder = Callable[[str, str | None, str], list[Span]]  # text, final answer, prompt


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
    "choice": of_number,
    "code": of_number,
    "formula": of_number,
    "text": of_text,
}
