"""Stop texts: an answer is cut at the first one, and a stream never sends the start of one."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StopTexts:
    """Texts that end an answer and are not part of it."""

    texts: tuple[str, ...] = ()

    def cut(self, text: str) -> str | None:
        """Return the text before the first stop, or None without a stop.

        The first stop is the one that ends first, and of these the longest. So a cut made while
        the text was being written stays valid, whatever follows.
        """
        ends = [(place + len(t), place) for t in self.texts if (place := text.find(t)) >= 0]
        return text[: min(ends)[1]] if ends else None

    def settled(self, text: str) -> str:
        """Return the part of an unfinished text without stops that no later stop can cut."""
        return text[: len(text) - max((_overlap(text, stop) for stop in self.texts), default=0)]


def _overlap(text: str, stop: str) -> int:
    """Return the number of characters at the end of a text that may begin `stop`."""
    longest = min(len(stop) - 1, len(text))
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
