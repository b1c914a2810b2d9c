"""Overlap of questions: which of those that a model is trained on are in a test as well.

Questions are compared in lower case, as words and numbers only, in three ways: they are the same;
they are the same but for their numbers; `WINDOW` consecutive words of one stand in the other. How
a sign is encoded is no difference, nor whether a number is spelled: "twenty-five" is "25".
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

WINDOW = 13
_APOSTROPHE = re.compile("[’‘ʼ`´]")
# "did n't", "Ann 's", as some files have it; a quotation mark is not part of the word before it.
_APART = re.compile(r"\s+(?='(?:s|t|re|ll|ve|d|m)\b|n't\b)")
_WORD = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[^\W\d_]+")
_DECIMALS = re.compile(r"\.0+$")
_UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SPELLED = {word: value for value, word in enumerate(_UNITS)}
_SPELLED |= {word: 10 * value for value, word in enumerate(_TENS, 2)}
_FACTORS = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_SMALL = rf"(?:(?:{'|'.join(_TENS)})(?: (?:{'|'.join(_UNITS[1:10])}))?|{'|'.join(_UNITS)})(?!\S)"
_HUNDREDS = rf"(?:(?:{_SMALL} )?hundred(?!\S)(?: (?:and )?{_SMALL})?|{_SMALL})"
_MANY = rf"(?:{'|'.join(_FACTORS)})(?!\S)(?: (?:and )?{_HUNDREDS})?"
_NUMERAL = re.compile(rf"(?<!\S)(?:{_HUNDREDS}(?: {_MANY})*|{_MANY})")
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
            self._same.add(in_digits(words))
            self._blind.add(blinded(words))
            self._windows.update(_windows(words))

    def ways(self, text: str) -> tuple[bool, bool, bool]:
        """Return in which of the three ways a question hits the test."""
        words = words_of(text)
        return (
            in_digits(words) in self._same,
            blinded(words) in self._blind,
            any(window in self._windows for window in _windows(words)),
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
    text = unicodedata.normalize("NFKC", _APOSTROPHE.sub("'", text)).lower()
    text = _APART.sub("", text).replace("'", "")
    return tuple(_plain(word) for word in _WORD.findall(text))


def _plain(word: str) -> str:
    return _DECIMALS.sub("", word.replace(",", "")) if word[0].isdigit() else word


def in_digits(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words with each spelled number, of one word or several, as digits."""
    return tuple(_NUMERAL.sub(lambda match: str(_value(match.group())), " ".join(words)).split())


def _value(numeral: str) -> int:
    total, part = 0, 0
    for word in numeral.split():
        if word == "hundred":
            part = (part or 1) * 100
        elif word in _FACTORS:
            total, part = total + (part or 1) * _FACTORS[word], 0
        elif word != "and":
            part += _SPELLED[word]
    return total + part


def blinded(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words with every number, in digits or spelled, replaced by the same sign."""
    return tuple(_NUMBER if word[0] in "0123456789" else word for word in in_digits(words))


def windows(words: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    """Yield every run of `WINDOW` consecutive words; none of a shorter text."""
    return (words[start : start + WINDOW] for start in range(len(words) - WINDOW + 1))


def _windows(words: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    """Yield the runs of the words as they stand and, where a number is spelled, in digits."""
    yield from windows(words)
    if (digits := in_digits(words)) != words:
        yield from windows(digits)
