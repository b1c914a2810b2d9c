"""The texts that an answer is cut at.

A diffusion model knows none of them: it writes on, and what follows the first is not sent. What is
sent of an answer in the making must not hold the beginning of one either.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class StopTexts:
    """Texts that end an answer, without being a part of it."""

    texts: tuple[str, ...] = ()

    def cut(self, text: str) -> str | None:
        """Return what stands before the first of them; None where there is none.

        The first is the one that is complete first, the longest of such: what was cut while the
        text was being written stays as it is, whatever follows.
        """
        ends = [(place + len(t), place) for t in self.texts if (place := text.find(t)) >= 0]
        return text[: min(ends)[1]] if ends else None

    def settled(self, text: str) -> str:
        """Return what stays in an unfinished answer without any of them, whatever comes next."""
        return text[: len(text) - max((_begun(text, stop) for stop in self.texts), default=0)]


def _begun(text: str, stop: str) -> int:
    """Return how many characters at the end of a text may be the beginning of `stop`."""
    longest = min(len(stop) - 1, len(text))
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
