r"""Rewards for the format of an answer: tags around reasoning and answer, or a boxed answer.

The values are those of the public rewards of d1 and SPG, which have two bugs: their tag patterns
do not match reasoning of several lines, and they search for "\boxed" in a string where "\b" is a
backspace. None of these rewards checks the answer: keep their sum below the reward of a right one.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

from remask.align.rewards import Turn, text_of

_TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")
_BOXED = "\\boxed{"


class _Parts(NamedTuple):
    """A text split at the first occurrence of each tag, in order."""

    before: str
    reasoning: str
    between: str
    answer: str
    behind: str


def of_text(worth: Callable[[str], float]) -> Callable[..., list[float]]:
    """Return a reward in TRL's convention from a function of one completion's text."""

    @wraps(worth)
    def reward(prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any) -> list[float]:
        return [worth(text_of(completion)) for completion in completions]

    return reward


@of_text
def soft_format(text: str) -> float:
    """Return 0.5 if the text starts with tagged reasoning, followed by a tagged answer."""
    parts = _cut(text)
    return 0.5 * (parts is not None and not parts.before.strip() and not parts.between.strip())


@of_text
def strict_format(text: str) -> float:
    """Return 0.5 if also each tag is on its own line and nothing follows the last one."""
    return 0.5 * _is_strict(text)


@of_text
def tag_count(text: str) -> float:
    """Return 0.125 per tag that occurs once, minus 0.001 per character after the last tag."""
    value = 0.125 * sum(text.count(tag) == 1 for tag in _TAGS)
    _, closed, behind = text.rpartition(_TAGS[-1])
    return value - 0.001 * len(behind.strip()) if closed else value


@of_text
def whole_number_answer(text: str) -> float:
    """Return 0.5 if the last answer tag contains only digits."""
    digits = (_last_answer(text) or "").strip()
    return 0.5 * (digits.isascii() and digits.isdigit())


@of_text
def boxed_format(text: str) -> float:
    r"""Return 1 for `\boxed{` in answer tags, 0.75 for tags, 0.5 for a box alone, else 0.25."""
    answer = _last_answer(text)
    if answer is not None:
        return 1.0 if _BOXED in answer else 0.75
    return 0.5 if _BOXED in text else 0.25


def _cut(text: str) -> _Parts | None:
    """Return the parts of a text between its tags, or None if a tag is missing."""
    pieces = [text]
    for tag in _TAGS:
        piece, separator, rest = pieces.pop().partition(tag)
        if not separator:
            return None
        pieces += [piece, rest]
    return _Parts._make(pieces)


def _is_strict(text: str) -> bool:
    parts = _cut(text)
    if parts is None:
        return False
    inside = all(
        len(part) > 1 and part.startswith("\n") and part.endswith("\n")
        for part in (parts.reasoning, parts.answer)
    )
    return inside and (parts.before, parts.between) == ("", "\n") and parts.behind in ("", "\n")


def _last_answer(text: str) -> str | None:
    """Return the content of the last pair of answer tags, or None."""
    head, closed, _ = text.rpartition("</answer>")
    _, opened, answer = head.rpartition("<answer>")
    return answer if closed and opened else None
