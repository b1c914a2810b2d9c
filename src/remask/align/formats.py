r"""Rewards for the form of an answer: tags around reasoning and result, a boxed result.

The public rewards of d1 and SPG have two faults that make some of them pay almost never. Their
expressions for the tags do not let a dot match a line break, so reasoning of more than one line has
no form; and they look for "\boxed" in a string where "\b" is a backspace. Here nothing is matched
with a dot, and what pays is worked out in tests.

Each is a function in TRL's convention (see `remask.align.reward`); the sums paid are the public
ones. None of them looks at whether an answer is right: keep their sum below what that is worth.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from remask.align.reward import Turn, text_of

_TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")
_BOXED = "\\boxed{"


class _Parts(NamedTuple):
    """A text cut at the first of each tag, in their order."""

    before: str
    reasoning: str
    between: str
    answer: str
    after: str


def soft_format(
    prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any
) -> list[float]:
    """Return 0.5 for reasoning and answer in their tags, one after the other, from the start."""
    return [0.5 * _is_soft(text_of(completion)) for completion in completions]


def strict_format(
    prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any
) -> list[float]:
    """Return 0.5 where each tag also has a line to itself and nothing follows the last one."""
    return [0.5 * _is_strict(text_of(completion)) for completion in completions]


def tag_count(prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any) -> list[float]:
    """Return 0.125 for each tag that stands there once, less 0.001 a character after the last."""
    return [_count(text_of(completion)) for completion in completions]


def whole_number_answer(
    prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any
) -> list[float]:
    """Return 0.5 where the last answer tag holds digits and nothing else."""
    return [0.5 * _is_whole(_last_answer(text_of(completion))) for completion in completions]


def boxed_format(
    prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any
) -> list[float]:
    r"""Return 1 for a `\boxed{` in answer tags, 0.75 for tags alone, 0.5 for a box alone, or 0.25.

    That even nothing is paid does no harm: what all completions of a group have cancels out.
    """
    return [_boxed(text_of(completion)) for completion in completions]


def _cut(text: str) -> _Parts | None:
    """Return the parts of a text between its tags, or None where one is missing."""
    pieces = [text]
    for tag in _TAGS:
        piece, separator, rest = pieces.pop().partition(tag)
        if not separator:
            return None
        pieces += [piece, rest]
    return _Parts._make(pieces)


def _is_soft(text: str) -> bool:
    parts = _cut(text)
    return parts is not None and not parts.before.strip() and not parts.between.strip()


def _is_strict(text: str) -> bool:
    parts = _cut(text)
    if parts is None:
        return False
    inside = all(
        len(part) > 1 and part.startswith("\n") and part.endswith("\n")
        for part in (parts.reasoning, parts.answer)
    )
    return inside and (parts.before, parts.between) == ("", "\n") and parts.after in ("", "\n")


def _count(text: str) -> float:
    value = 0.125 * sum(text.count(tag) == 1 for tag in _TAGS)
    _, closed, after = text.rpartition(_TAGS[-1])
    return value - 0.001 * len(after.strip()) if closed else value


def _last_answer(text: str) -> str | None:
    """Return what stands in the last pair of answer tags, or None where there is none."""
    head, closed, _ = text.rpartition("</answer>")
    _, opened, answer = head.rpartition("<answer>")
    return answer if closed and opened else None


def _is_whole(answer: str | None) -> bool:
    digits = "" if answer is None else answer.strip()
    return digits.isascii() and digits.isdigit()


def _boxed(text: str) -> float:
    answer = _last_answer(text)
    if answer is not None:
        return 1.0 if _BOXED in answer else 0.75
    return 0.5 if _BOXED in text else 0.25
