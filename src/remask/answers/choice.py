r"""Find the final letter of a text, by the tiers of `search`.

"B is the best answer" is a statement as well; without a statement, "option B" and "B is correct"
count. Tier 3 is a letter alone at the end and, with `leading`, the first letter of the text. The
words of the option may follow the letter. "A" before a lower-case word is an article.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from remask.answers.markup import NOTHING, Extraction
from remask.answers.search import (
    Candidate,
    Kind,
    Statement,
    Token,
    find_answer,
    joined,
    last_match,
    statements,
)
from remask.errors import InputError
from remask.settings import checked, shown

_NOUNS = "option|choice"
_AROUND = re.compile(  # what may stand around a letter and means nothing
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|rm|bf)\s*(?=\{)|[{}$*`\"_“”]"
    r"|\\[()\[\],;!]|\[\s*\]|(?<![A-Za-z])['‘’]|['’](?![A-Za-z])"
)
_BRACKETS = re.compile(r"^\s*\[(?=[A-Z](?:[.:]\s|\s*$))")  # "[C. 11/23/2002]"
_LISTED = re.compile(r"\n[\s*_(-]*([A-Z])[.):]")
_LONE = re.compile(r"(?:\A|\n)[\s*(\[]{0,8}[A-Z][).\]*]{0,3}[ \t]*\n$")  # a line with one letter
_LEADING = re.compile(
    r"^[\s*_]{0,8}\(?(?P<bare>[A-H])(?:\)|[.:](?=[\s*]|$)|\s[-–—]\s)", re.MULTILINE
)
_SENTENCE = re.compile(r"[.!?;:](?=\s)|\n")
_WRONG = r"\W{0,2}(?:\s\w+){0,3}\s(?:is|are)\s(?:not|wrong|incorrect|false)\b"
_OR_ELSE = re.compile(
    r"\W*\b(?:or|and)\s+(?:something|another|none|neither|both|all|else)\b", re.IGNORECASE
)
_IS_WRONG = re.compile(
    r"[)\]*]{0,3}\s(?:(?:is|are)\s(?:not(?=\W*$|[.,;]|\s(?:the|it|correct|right|true|an?)\b)|wrong"
    r"|incorrect|false)|can(?:not|['’]t|\snever)\sbe\s(?:true|correct|right|the))\b"
)
_OTHERS = "ABCDEFGHJ"  # letters that name an option, on offer or not; "I" is a pronoun
_END = 64  # characters at the end of a text in which a letter may stand alone
_NEAR = 120  # characters before a letter in which others may be joined to it


@dataclass(frozen=True, kw_only=True)
class _Shapes:
    any: re.Pattern[str]  # a letter as it may be listed with others
    first: re.Pattern[str]  # at the front of what is stated
    marked: re.Pattern[str]  # the same, with a sign or nothing after it
    verdict: re.Pattern[str]  # "B is the best answer"
    right: re.Pattern[str]  # "B is correct"
    opening: re.Pattern[str]  # a letter on the first line, with lines after it
    option: re.Pattern[str]
    ending: re.Pattern[str]


@lru_cache(maxsize=32)
def _shapes(letters: str) -> _Shapes:
    upper = "[" + re.escape(letters.upper()) + "]"
    either = "[" + re.escape(letters.upper() + letters.lower()) + "]"
    noun = (
        r"\s*(?:(?:only|just|exactly|[a-z]+\s+(?:to|by|in|as))\s+)?"
        r"(?:(?i:the\s+)?(?i:option|choice|letter|answer|statement|number)\b[\s:]*)?"
    )
    remark = r"\s+(?:[-–—(]|(?i:because|since|rather|not)\b)|[-–—]+(?=[A-Za-z]{2})"
    signed = rf"[(\[]\s*(?P<bracketed>{either})\s*[)\]]|(?P<bare>{upper})(?=\s*$|[.:;,)\]/&\\])"
    small = rf"(?P<small>{either})(?=[\s.)\]:]*$|[.):]\s)"
    reason = (
        r"\s+(?:[-–—=(\[&/]|(?i:because|since|as|is|for|due|and|or|to|through|rather|not|only"
        r"|alone)\b)|[-–—]+(?=[A-Za-z(])"
    )
    # "A" before a small word is an article; before one capital word that ends it all, a letter.
    named = rf"(?P<named>(?!A){upper})(?=\s)|(?P<article>A)(?=\s+[A-Z]\w*[\s.]*$)"
    worded = rf"(?P<worded>{upper})(?={reason})|{named}"
    ended = r"[^A-Za-z0-9]{0,8}\Z"
    concluding = (
        r"\b(?i:(?:it|that)['’]s|ans|is|be|so|thus|therefore|hence|choose|pick|select|with|answer"
        r"|not)[\s,:*]+"
    )
    run = rf"(?:[(\[]?{upper}[)\]]?\s*(?:,|/|&|,?\s*(?i:and|or|nor)\b)\s*(?i:option\s+)?){{0,8}}"
    return _Shapes(
        any=re.compile(
            rf"(?<![\w'’°])(?:\(\s*({either})\s*\)|\[\s*({either})\s*\]|({upper}))(?![\w'’])"
            r"(?<!A(?=\s(?!and|or|nor|to|through|is|are|because|since|rather|not|but|in|as|along|together)[a-z]))"
            rf"(?!{_WRONG})"
        ),
        first=re.compile(rf"{noun}(?:{signed}|{small}|{worded})"),
        marked=re.compile(rf"{noun}(?:{signed}|{small}|(?P<remarked>{upper})(?={remark}))"),
        verdict=re.compile(
            rf"(?<![\w°'’])(?P<run>{run}[(\[]?{upper}[)\]]?)\**\s+(?i:is|are|would be)\s+"
            r"(?i:the|my)\s+\**(?:[A-Za-z]+\s+){0,3}(?i:answer|option|choice)\b"
        ),
        right=re.compile(
            rf"(?<![\w°'’])[(\[*]{{0,3}}(?P<bare>{upper})[)\]*]{{0,3}}\s+is\s+"
            r"(?:(?:therefore|thus|clearly|indeed|the only)\s+)?(?:correct|right)"
            r"(?=[.,;:!]|\s*$|\s+(?:because|since|as|one|and|but)\b)"
        ),
        opening=re.compile(rf"[\s*_]*[(\[]?(?P<bare>{upper})(?:[)\].:*][^\n]*)?\s*\n"),
        option=re.compile(
            rf"(?:\b(?i:{_NOUNS})(?:\s(?i:is)\b)?"
            r"|\b(?i:choose|pick|select|go\s+with)\b(?![\s:*_]*A\s+(?!because|since|as\b)[a-z]))"
            rf"[\s:*_\"']{{0,4}}[(\[\"'*$`]{{0,4}}(?P<bare>{upper})(?!['’]?[A-Za-z0-9])"
        ),
        ending=re.compile(
            rf"(?:\A[\s*(\[\"'`“]*(?P<bare>{either})|\n[\s*(\[]*(?P<line>{upper})"
            rf"|\((?P<bracketed>{either})\)|{concluding}[(\[]?(?P<named>{upper})){ended}"
        ),
    )


@checked
def extract_choice(text: str, letters: str = "ABCDE") -> str | None:
    """Return the final letter of `text`, or None."""
    return find_choice(text, letters).answer


@checked
def find_choice(text: str, letters: str = "ABCDE", *, leading: bool = False) -> Extraction:
    """Return the final letter of `text` and its tier.

    With `leading`, the first letter of a text counts too, unless its lines begin with different
    letters.
    """
    if not letters.isalpha():
        raise InputError(f"letters must be letters, got {shown(letters)}.")
    return find_answer(text, _LetterKind(letters, leading))


@dataclass(frozen=True)
class _LetterKind(Kind):
    """Recognises all letters, and reads only those in `letters`."""

    letters: str
    leading: bool = False

    @property
    def _known(self) -> str:
        known = self.letters.upper()
        return known + "".join(letter for letter in _OTHERS if letter not in known)

    def speaks(self, candidate: Candidate) -> bool:
        if isinstance(candidate, Statement):
            return bool(self._run(candidate.said)) and not self._opens_list(candidate)
        return candidate.kind != "hashes" or bool(self._run(candidate.bodies[0], marked=True))

    def read(self, candidate: Candidate) -> str | None:
        if isinstance(candidate, Statement):
            return self._one(candidate.said)
        marked = candidate.kind == "hashes"
        read = {self._one(body, marked=marked) for body in candidate.bodies if body.strip()}
        if read == {None} and not marked and not any(map(self._run, candidate.bodies)):
            plain = replace(self, leading=False)
            read = {find_answer(body, plain).answer for body in candidate.bodies}
            if read == {None}:
                return ""
        return read.pop() if len(read) == 1 else None

    def stated(self, text: str) -> list[Statement]:
        verdicts = (
            Statement(start=one.start(), cue="", said=one.group(), window="", end=one.end())
            for one in _shapes(self._known).verdict.finditer(text)
        )
        return sorted((*statements(text, _NOUNS), *verdicts), key=lambda one: one.start)

    def last(self, text: str, *, after_mark: bool) -> Extraction:
        """Return the named option, or the first or last letter of a text."""
        shapes = _shapes(self.letters)
        right = list(shapes.right.finditer(text))
        if right and len({match["bare"] for match in right}) == 1:
            return self._extraction(text, right[-1], 2)
        option, opening = last_match(shapes.option, text), shapes.opening.match(text)
        if opening and option and not set(_LISTED.findall(text)) - {opening["bare"]}:
            return self._extraction(text, opening, 3)  # and then the options are talked about
        end = len(text.rstrip())
        ending = shapes.ending.search(text, max(0, end - _END), end)
        is_named = option is not None and option.start() >= self._worded(text)
        if option is not None and is_named and not (ending and ending.start() >= option.end()):
            return self._extraction(text, option, 2)
        if ending is not None:
            before = text[max(0, ending.start() - 16) : ending.start() + 1]
            listed = ending["line"] and _LONE.search(before)
            return NOTHING if listed else self._extraction(text, ending, 3)
        begun = list(_LEADING.finditer(text)) if self.leading else []
        if not begun or text[: begun[0].start()].strip() or len({m[1] for m in begun}) > 1:
            return NOTHING
        return self._extraction(text, begun[0], 3)

    def _worded(self, text: str) -> int:
        """Return the start of the last statement in words; options before it do not count."""
        said = (s for s in reversed(statements(text, _NOUNS)) if not self._opens_list(s))
        return max((s.start for s in said if _AROUND.sub("", s.said).strip(" []().:")), default=0)

    def _run(self, said: str, *, marked: bool = False) -> list[Token]:
        """Return the stated letters: several if joined, one without a key if excluded."""
        said = _AROUND.sub("", _BRACKETS.sub("", said))
        shapes, tokens = _shapes(self._known), self._tokens(said)
        front = (shapes.marked if marked else shapes.first).match(said)
        if front is not None:
            letter = Token(front.start(), front.end(), _letter(front))
            tokens = [letter, *(token for token in tokens if token.start >= front.end())]
        if not tokens:
            return []
        run = joined(said, tokens, bound=_OR_ELSE) or [_REFUSED]
        spoken = front is not None or run[0] == _REFUSED or len({t.key for t in run}) > 1
        return run if spoken or run[0] != tokens[0] else []

    def _one(self, said: str, *, marked: bool = False) -> str | None:
        return self._offered({token.key for token in self._run(said, marked=marked)})

    def _tokens(self, text: str) -> list[Token]:
        found = _shapes(self._known).any.finditer(text)
        return [Token(*match.span(), (match[1] or match[2] or match[3]).upper()) for match in found]

    def _offered(self, keys: Collection[str]) -> str | None:
        """Return the only letter of `keys` as it is written in `letters`, or None."""
        key = next(iter(keys)) if len(keys) == 1 else ""
        place = self.letters.upper().find(key) if key else -1
        return self.letters[place] if place >= 0 else None

    def _opens_list(self, statement: Statement) -> bool:
        """Return whether a list of the options follows a cue."""
        listed = _LISTED.findall(statement.window) if "\n" in statement.cue else []
        keys = {token.key for token in self._run(statement.said)}
        return bool(set(listed) - keys)

    def _extraction(self, text: str, match: re.Match[str], tier: Literal[2, 3]) -> Extraction:
        """Return the letter of a match, unless its sentence excludes it or joins another letter."""
        name = next(name for name, letter in match.groupdict().items() if letter)
        if _IS_WRONG.match(text, match.end(name)):
            return NOTHING
        place, near = match.start(name), max(0, match.start(name) - _NEAR)
        start = max((end.end() for end in _SENTENCE.finditer(text, near, place)), default=near)
        stop = _SENTENCE.search(text, match.end(name))
        sentence = text[start : min(stop.start() if stop else len(text), place + _NEAR)]
        bracket = place > start and text[place - 1] in "(["
        own = Token(place - start - bracket, place - start + 1, match[name].upper())
        others = [t for t in self._tokens(sentence) if not t.start <= own.start < t.end]
        tokens = sorted([own, *others])
        run = joined(sentence, tokens, tokens.index(own), loose=True, bound=_OR_ELSE)
        answer = self._offered({token.key for token in run})
        return (
            Extraction(answer=answer, tier=tier, matched=match.group().strip())
            if answer
            else NOTHING
        )


_REFUSED = Token(0, 0, "")


def _letter(match: re.Match[str]) -> str:
    return str(next(filter(None, match.groupdict().values()))).upper()
