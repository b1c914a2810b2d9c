"""Answers in a sentence: "the answer is 42", "Answer: B", "the final answer would be 7".

A cue is the word "answer" with a verb or a colon after it; what follows, up to the end of the
sentence, is what is stated.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_WINDOW = 400  # characters after a cue in which its answer must stand
_VERB = (
    r"(?:is|are|equals?|(?:would|should|will|must|has to|have to)\s+be|comes\s+(?:out\s+)?to"
    r"|turns\s+out\s+to\s+be)\b"
)
# Words between the two say what is asked, "the answer to the question is", and hold no number.
_BETWEEN = (
    r"(?:[,][^.!?\n:=0-9]{0,60},|\s+(?:to|for|in|of|here|then|therefore)\b[^.!?\n:=0-9]{0,100}?)?"
)
_NOUN = r"(?<!to )\banswer(?:\s*\([^()\n]{0,30}\))?"
_AFTER = r"(?:[\s:*_]|(?:therefore|thus|simply|clearly|definitely|probably|(?:most )?likely)\b)*"
# "### Final Answer", and the answer below it.
_TITLE = r"(?m:^)[#*_][#*_ ]{0,7}(?:(?:the|final|correct) ){0,3}answer[*_ ]*\n"
_VERBAL = rf"{_BETWEEN}[\s*_]{{0,4}}\b{_VERB}"
_CUE = re.compile(rf"{_NOUN}(?:{_VERBAL}|[\s*_]{{0,4}}[:=]){_AFTER}|{_TITLE}\s*", re.IGNORECASE)
_OPENING = re.compile(r"(?:\s|\\\[|\\\(|\$\$?(?=\s)|\*\*|#+\s)*")
# "5! - 3" goes on after its mark, which is no end of a sentence.
_SENTENCE_END = re.compile(r"[.!?;](?<!!(?=[\s]{0,2}[-+*/=^]))(?:[*_\"')\]]{0,3}(?:\s|$))|\n")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What is said to be the answer."""

    start: int  # of the cue
    cue: str
    said: str  # up to the end of the sentence
    end: int  # of the cue, where what is said begins, LaTeX's brackets included


def statements(text: str, nouns: str = "") -> Iterator[Statement]:
    """Yield what the text states, the last first.

    `nouns` are further words for an answer; with a colon alone they open a list ("each option:").
    """
    for cue in reversed(list(_cue(nouns).finditer(text))):
        opening = _OPENING.match(text, cue.end())
        start = opening.end() if opening else cue.end()
        window = text[start : start + _WINDOW]
        end = _SENTENCE_END.search(window)
        said = window[: end.start() if end else None]
        said = "" if _CUE.search(said) else said  # "the answer is:", and then another statement
        words = text[cue.start() : start]
        yield Statement(start=cue.start(), cue=words, said=said, end=cue.end())


@lru_cache(maxsize=8)
def _cue(nouns: str) -> re.Pattern[str]:
    if not nouns:
        return _CUE
    return re.compile(rf"{_CUE.pattern}|\b(?:{nouns}){_VERBAL}{_AFTER}", re.IGNORECASE)
