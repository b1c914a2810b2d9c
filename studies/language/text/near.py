"""Questions that are nearly those of a test: in these rows another word or two stand in them.

The rule of what is not trained on (`realtext.corpus`) does not see that. Numbers count as one word,
and the similarity of two questions is twice the words that they have in common, in the same order,
over the words of both.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

from studies.language.text.overlap import blinded, words_of

NEAR = 0.8
_ROUNDING = 1e-6  # of what is as similar as that
_AT_ONCE = 8_192  # rows compared with all tests at a time
_FIRST = 0x10000  # characters that stand for words: behind all that are something else


def nearness(tests: Sequence[str], rows: Iterable[str]) -> list[float]:
    """Return how similar the nearest row is to each test question; 0 where less than `NEAR`."""
    spelled = _Spelling()
    asked = [spelled(text) for text in tests]
    known = list(dict.fromkeys(map(spelled, rows)))  # rows that differ in numbers alone are one
    found = np.zeros(len(asked), np.float32)
    for start in range(0, len(known), _AT_ONCE):
        near = cdist(
            asked, known[start : start + _AT_ONCE], scorer=Indel.normalized_similarity,
            score_cutoff=NEAR - _ROUNDING, workers=-1, dtype=np.float32,
        )  # fmt: skip
        found = np.maximum(found, near.max(1))
    return [float(one) for one in found]


class _Spelling:
    """Turns questions into texts of one character a word, which compare fast."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, question: str) -> str:
        return "".join(self._letters(blinded(words_of(question))))

    def _letters(self, words: Sequence[str]) -> Iterator[str]:
        for word in words:
            yield self._known.setdefault(word, chr(_FIRST + len(self._known)))
