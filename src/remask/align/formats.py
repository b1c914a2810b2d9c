r"""Rewards for the form of an answer: tags around reasoning and result, a boxed result.

The public rewards of d1 and SPG have two faults that make some of them pay almost never. Their
expressions for the tags do not let a dot match a line break, so reasoning of more than one line has
no form; and they look for "\boxed" in a string where "\b" is a backspace. Here nothing is matched
with a dot, and what pays is worked out in tests.

Each is a function in TRL's convention (see `remask.align.rewards`); the sums paid are the public
ones. None of them looks at whether an answer is right: keep their sum below what that is worth.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

from remask.align.rewards import Turn, text_of

_TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")
_BOXED = "\\boxed{"


class _Parts(NamedTuple):
    """A text cut at the first of each tag, in their order."""

    before: str
    reasoning: str
    between: str
    answer: str
    behind: str


def of_text(worth: Callable[[str], float]) -> Callable[..., list[float]]:
    """Return the reward, in TRL's convention, of a function of one completion's text."""

    @wraps(worth)
    def reward(prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any) -> list[float]:
        return [worth(text_of(completion)) for completion in completions]

    return reward


@of_text
def soft_format(text: str) -> float:
    """Return 0.5 for reasoning and answer in their tags, one after the other, from the start."""
    parts = _cut(text)
    return 0.5 * (parts is not None and not parts.before.strip() and not parts.between.strip())


@of_text
def strict_format(text: str) -> float:
    """Return 0.5 where each tag also has a line to itself and nothing follows the last one."""
    return 0.5 * _is_strict(text)


@of_text
def tag_count(text: str) -> float:
    """Return 0.125 for each tag that stands there once, less 0.001 a character after the last."""
    value = 0.125 * sum(text.count(tag) == 1 for tag in _TAGS)
    _, closed, behind = text.rpartition(_TAGS[-1])
    return value - 0.001 * len(behind.strip()) if closed else value


@of_text
def whole_number_answer(text: str) -> float:
    """Return 0.5 where the last answer tag holds digits and nothing else."""
    digits = (_last_answer(text) or "").strip()
    return 0.5 * (digits.isascii() and digits.isdigit())


@of_text
def boxed_format(text: str) -> float:
    r"""Return 1 for a `\boxed{` in answer tags, 0.75 for tags alone, 0.5 for a box alone, or 0.25.

    That even nothing is paid does no harm: what all completions of a group have cancels out.
    """
    answer = _last_answer(text)
    if answer is not None:
        return 1.0 if _BOXED in answer else 0.75
    return 0.5 if _BOXED in text else 0.25


def _cut(text: str) -> _Parts | None:
    """Return the parts of a text between its tags, or None where one is missing."""
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
    """Return what stands in the last pair of answer tags, or None where there is none."""
    head, closed, _ = text.rpartition("</answer>")
    _, opened, answer = head.rpartition("<answer>")
    return answer if closed and opened else None
