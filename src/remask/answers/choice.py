r"""The letter that a text settles on.

Tier 1: `<answer>B</answer>`, `\boxed{B}`, `#### B`. Tier 2: "the answer is B", "Answer: (b)", "B is
the best answer"; without such a sentence, "option B". Tier 3: a letter alone at the end. The last
match of the best tier decides. The option's words may follow the letter. Words alone are no letter,
"A" before a word is an article, and where two letters are named there is no answer.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from remask.answers.markup import NOTHING, Extraction, Mark, Statement, answer_of, marks, statements

_NOUNS = "option|choice"
_AROUND = re.compile(  # what may stand around a letter and means nothing
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|rm|bf)\s*(?=\{)|[{}$*`\"_]|\\[()\[\],;!]|\[\s*\]"
)
_LISTED = re.compile(r"\n[\s*_(-]*([A-Z])[.):]")
_LONE = re.compile(r"(?:\A|\n)[\s*(\[]{0,8}[A-Z][).\]*]{0,3}[ \t]*\n$")  # a line with one letter
_NOT_BUT = re.compile(r"^\s*not\s[^.;\n]{1,40}?\bbut\s+(?:rather\s+)?", re.IGNORECASE)
_LIST = 1000  # characters after a letter in which others may be listed
_END = 64  # characters at the end of a text in which a letter may stand alone


@dataclass(frozen=True, kw_only=True)
class _Shapes:
    """The patterns that find one of a set of letters."""

    first: re.Pattern[str]  # at the front of what is stated
    marked: re.Pattern[str]  # the same, with a sign or nothing after it
    another: re.Pattern[str]  # after a letter: a second one
    verdict: re.Pattern[str]  # "B is the best answer"
    right: re.Pattern[str]  # "B is correct"
    opening: re.Pattern[str]  # a letter on the first line, with lines after it
    option: re.Pattern[str]
    ending: re.Pattern[str]


@lru_cache(maxsize=32)
def _shapes(letters: str) -> _Shapes:
    """Return the patterns for this set of letters."""
    upper = "[" + re.escape(letters.upper()) + "]"
    either = "[" + re.escape(letters.upper() + letters.lower()) + "]"
    noun = r"\s*(?:(?i:the\s+)?(?i:option|choice|letter|answer)\b[\s:]*)?"
    remark = r"\s+(?:[-–—(]|(?i:because|since)\b)"
    signed = rf"[(\[]\s*(?P<bracketed>{either})\s*[)\]]|(?P<bare>{upper})(?=\s*$|[.:;,)\]])"
    small = rf"(?P<small>{either})(?=[\s.)\]:]*$|[.):]\s)"
    reason = r"\s+(?:[-–—=(\[]|(?i:because|since|as|is|for|due|and|or)\b)"
    # "A" before a small word is an article; before one capital word that ends it all, a letter.
    named = rf"(?P<named>(?!A){upper})(?=\s)|(?P<article>A)(?=\s+[A-Z]\w*[\s.]*$)"
    worded = rf"(?P<worded>{upper})(?={reason})|{named}"
    ended = r"[^A-Za-z0-9]{0,8}\Z"
    concluding = (
        r"(?<!not )\b(?i:(?:it|that)['’]s|ans|is|be|so|thus|therefore|hence|choose|pick|select|with"
        r"|answer)[\s,:*]+"
    )
    return _Shapes(
        first=re.compile(rf"{noun}(?:{signed}|{small}|{worded})"),
        marked=re.compile(rf"{noun}(?:{signed}|{small}|(?P<remarked>{upper})(?={remark}))"),
        another=re.compile(
            rf"[\s.)\]]*(?:,|/|&|,?\s*\b(?i:and|or)\b)[\s(]*(?:(?i:option)\s+)?{upper}(?![A-Za-z])"
        ),
        verdict=re.compile(
            rf"(?<![\w°'’])[(\[]?(?P<bare>{upper})[)\]]?\s+(?i:is|would be)\s+(?i:the)\s+"
            r"(?:[A-Za-z]+\s+){0,3}(?i:answer|option|choice)\b"
        ),
        right=re.compile(
            rf"(?<![\w°'’])[(\[*]{{0,3}}(?P<bare>{upper})[)\]*]{{0,3}}\s+is\s+"
            r"(?:(?:therefore|thus|clearly|indeed|the only)\s+)?(?:correct|right)"
            r"(?=[.,;:!]|\s*$|\s+(?:because|since|as|one)\b)"
        ),
        opening=re.compile(rf"[\s*_]*[(\[]?(?P<bare>{upper})(?:[)\].:*][^\n]*)?\s*\n"),
        option=re.compile(
            rf"(?<!not )(?:\b(?i:{_NOUNS})(?:\s(?i:is)\b)?"
            r"|\b(?i:choose|pick|select|go\s+with)\b(?![\s:*_]*A\s+(?!because|since|as\b)[a-z]))"
            rf"[\s:*_]{{0,4}}[(\[\"'*$`]{{0,4}}(?P<bare>{upper})(?![A-Za-z0-9'’])"
        ),
        ending=re.compile(
            rf"(?:\A[\s*(\[]*(?P<bare>{either})|\n[\s*(\[]*(?P<line>{upper})"
            rf"|\((?P<bracketed>{either})\)|{concluding}[(\[]?(?P<named>{upper})){ended}"
        ),
    )


def extract_choice(text: str, letters: str = "ABCDE") -> str | None:
    """Return the letter that `text` settles on, or None where there is none."""
    return find_choice(text, letters).answer


def find_choice(text: str, letters: str = "ABCDE") -> Extraction:
    """Return the letter that `text` settles on and its tier."""
    text = answer_of(text)
    marked = marks(text)
    for mark in reversed(marked):
        letter = _read_mark(mark, letters)
        if letter is not None:
            return Extraction(answer=letter, tier=1, matched=mark.bodies[-1])
        if not mark.empty and mark.kind != "hashes":
            return NOTHING
    return _unmarked(text, letters)


def _read_mark(mark: Mark, letters: str) -> str | None:
    """Return the letter in a mark; hashes also open headings, so there no sentence is read."""
    if mark.cut:
        return None
    shape = _shapes(letters).marked if mark.kind == "hashes" else None
    read = {_letter_of(body, letters, shape) for body in mark.bodies if body.strip()}
    if read == {None} and mark.kind != "hashes":
        read = {_unmarked(body, letters).answer for body in mark.bodies}
    return read.pop() if len(read) == 1 else None


def _unmarked(text: str, letters: str) -> Extraction:
    """Return the letter that the sentences of a text settle on."""
    shapes, words = _shapes(letters), 0
    verdict = _last(shapes.verdict.finditer(text))
    for statement in statements(text, _NOUNS):
        if verdict is not None and verdict.start() > statement.start:
            break
        letter = _letter_of(statement.said, letters)
        if letter is not None and not _lists(text, statement, letter):
            return Extraction(answer=letter, tier=2, matched=statement.cue + statement.said)
        said = _AROUND.sub("", statement.said).strip(" []().:")
        words = max(words, statement.start if said else 0)
    verdict = verdict or _agreed(shapes.right.finditer(text))
    if verdict is not None:
        return _extraction(verdict, letters, 2)
    return _by_place(text, letters, words)


def _by_place(text: str, letters: str, words: int) -> Extraction:
    """Return the option that is named, the letter that opens a text, or the one that ends it.

    Before `words` an option is only talked about: an answer in words was stated there.
    """
    shapes = _shapes(letters)
    option, opening = _last(shapes.option.finditer(text)), shapes.opening.match(text)
    if opening and option and not set(_LISTED.findall(text)) - {opening["bare"]}:
        return _extraction(opening, letters, 3)  # and then the options are talked about
    end = len(text.rstrip())
    ending = shapes.ending.search(text, max(0, end - _END), end)
    if option is not None and option.start() >= words:
        if shapes.another.match(text, option.end()):
            return NOTHING
        if ending is None or ending.start() < option.end():
            return _extraction(option, letters, 2)
    if ending is None:
        return NOTHING
    before = text[max(0, ending.start() - 16) : ending.start() + 1]
    listed = ending["line"] and _LONE.search(before)
    return NOTHING if listed else _extraction(ending, letters, 3)


def _letter_of(said: str, letters: str, shape: re.Pattern[str] | None = None) -> str | None:
    """Return the one letter at the front of what is said; None where there is none, or two."""
    said = _NOT_BUT.sub("", _AROUND.sub("", said))
    match = (shape or _shapes(letters).first).match(said)
    if match is None or _shapes(letters).another.match(said, match.end()):
        return None
    return _letter(match, letters)


def _lists(text: str, statement: Statement, letter: str) -> bool:
    """Say whether a line after a cue opens a list of the options, and settles on none."""
    if "\n" not in statement.cue:
        return False
    after = statement.start + len(statement.cue)
    lines = _LISTED.findall(text[after : after + _LIST])
    return any(other != letter for other in lines)


def _letter(match: re.Match[str], letters: str) -> str:
    """Return the letter a pattern caught, in the case that `letters` has it in."""
    letter = next(filter(None, match.groupdict().values()))
    return letters[letters.upper().index(letter.upper())]


def _extraction(match: re.Match[str], letters: str, tier: Literal[2, 3]) -> Extraction:
    return Extraction(answer=_letter(match, letters), tier=tier, matched=match.group().strip())


def _agreed(matches: Iterable[re.Match[str]]) -> re.Match[str] | None:
    """Return the last match where all name one letter, or None."""
    every = list(matches)
    return every[-1] if len({match["bare"] for match in every}) == 1 else None


def _last(matches: Iterable[re.Match[str]]) -> re.Match[str] | None:
    """Return the last match, or None."""
    last = None
    for match in matches:
        last = match
    return last
