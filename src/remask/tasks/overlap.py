"""Overlap of questions: which of those that a model is trained on are in a test as well.

Questions are compared in lower case, as words and numbers only, in three ways: they are the same;
they are the same but for their numbers; `WINDOW` consecutive words of one stand in the other.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

WINDOW = 13
_APART = re.compile(r"\s+(?=['’]|n['’]t\b)")  # "did n't", "Ann 's", as some files have it
_WORD = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[^\W\d_]+")
_DECIMALS = re.compile(r"\.0+$")
_SPELLED = frozenset((
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    "hundred", "thousand", "million",
))  # fmt: skip
_NUMBER = "#"


@dataclass(frozen=True, kw_only=True)
class OverlapCount:
    """How many questions hit a test, in each of the three ways; one may count in all of them."""

    same: int
    same_but_numbers: int
    windows: int

    def __str__(self) -> str:
        return f"{self.same}, {self.same_but_numbers}, {self.windows}"


class OverlapIndex:
    """The questions of a test, ready to be looked up in."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._same: set[tuple[str, ...]] = set()
        self._blind: set[tuple[str, ...]] = set()
        self._windows: set[tuple[str, ...]] = set()
        for text in texts:
            words = words_of(text)
            self._same.add(words)
            self._blind.add(blinded(words))
            self._windows.update(windows(words))

    def ways(self, text: str) -> tuple[bool, bool, bool]:
        """Return in which of the three ways a question hits the test."""
        words = words_of(text)
        return (
            words in self._same,
            blinded(words) in self._blind,
            any(window in self._windows for window in windows(words)),
        )

    def hits(self, text: str) -> bool:
        """Say whether a question hits the test in any way."""
        return any(self.ways(text))

    def count(self, texts: Iterable[str]) -> OverlapCount:
        """Return how many of some questions hit the test."""
        sums = [0, 0, 0]
        for text in texts:
            for place, hit in enumerate(self.ways(text)):
                sums[place] += hit
        return OverlapCount(same=sums[0], same_but_numbers=sums[1], windows=sums[2])


def words_of(text: str) -> tuple[str, ...]:
    """Return the words and numbers of a text: "$1,200.00" is "1200", "Didn't" is "didnt"."""
    text = _APART.sub("", text.lower())
    text = text.replace("'", "").replace("’", "")
    return tuple(_plain(word) for word in _WORD.findall(text))


def _plain(word: str) -> str:
    return _DECIMALS.sub("", word.replace(",", "")) if word[0].isdigit() else word


def blinded(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words with every number, in digits or spelled, replaced by the same sign."""
    return tuple(_NUMBER if word[0] in "0123456789" or word in _SPELLED else word for word in words)


def windows(words: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    """Yield every run of `WINDOW` consecutive words; none of a shorter text."""
    return (words[start : start + WINDOW] for start in range(len(words) - WINDOW + 1))
