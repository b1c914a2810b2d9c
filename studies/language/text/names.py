"""Questions that are the same but for numbers and names: a variant whose people were renamed.

No rule of `studies.language.text.overlap` sees that. A name is a word with a capital that begins no
sentence, one that the tests never have in small letters, or one that stories here give to people.
Taking another word for a name can only find more.
"""

import re
from collections.abc import Iterable, Sequence

from studies.language.text.cast import BOYS, GIRLS
from studies.language.text.overlap import blinded, words_of

_WORD = re.compile(r"[^\W\d_]+")
_BEGINS = re.compile(r"(?:^|[.?!:\"“])\s*$")  # what stands before the first word of a sentence
_SOMEBODY = "somebody"
_PRONOUNS = {
    "she": "he", "her": "his", "hers": "his", "him": "his", "herself": "himself",
}  # fmt: skip
_PEOPLE = frozenset(name.lower() for name in (*GIRLS, *BOYS))


class NamelessIndex:
    """The questions of a test without numbers and names, ready to be looked up in."""

    def __init__(self, texts: Sequence[str]) -> None:
        found = (word for text in texts for word in _WORD.findall(text))
        self._small = frozenset(word for word in found if word == word.lower())
        self._texts = {self.nameless(text) for text in texts}

    def hits(self, text: str) -> bool:
        """Say whether a question is one of the test but for numbers and names."""
        return self.nameless(text) in self._texts

    def count(self, texts: Iterable[str]) -> int:
        """Return how many of some questions are."""
        return sum(map(self.hits, texts))

    def nameless(self, text: str) -> tuple[str, ...]:
        """Return the words of a text without its numbers and names; "she" is "he"."""
        inside = {match.group() for match in _WORD.finditer(text) if self._is_name(match)}
        return blinded(words_of(_WORD.sub(lambda match: _without(match.group(), inside), text)))

    def _is_name(self, match: re.Match[str]) -> bool:
        word = match.group()
        if word.lower() in _PEOPLE:
            return True
        if len(word) < 2 or word[0] == word[0].lower():
            return False
        begins = _BEGINS.search(match.string[: match.start()])
        return not begins or word.lower() not in self._small


def _without(word: str, names: set[str]) -> str:
    return _SOMEBODY if word in names else _PRONOUNS.get(word.lower(), word)
