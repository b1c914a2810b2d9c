r"""Reading numbers and final answers out of text, by the paper's tiers.

Equal strings mean equivalent answers: "18.0", "$18" and "\frac{36}{2}" are all read as "18", and
"0.5" as "1/2". No torch, and no text makes a function here raise or take more than linear time.
Symbolic answers (roots, intervals, expressions) are not read here: a task that has them brings
its own extractor.

Departure from the paper: it says that a numeric answer of tier 3 is "penalized if the chain
contains multiple unformatted numbers" and not how. Nothing is penalised here; `Extraction.tier`
says which tier an answer came from, so a caller can tell.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Literal

MAX_DIGITS = 256  # longer literals are compared as text: arithmetic on them is not linear
_WINDOW = 120  # characters after a cue in which its answer must stand

_LITERAL = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|(?<![0-9.])\.[0-9]+)"
)
_NUMBER = re.compile(_LITERAL)
_VALUE = re.compile(
    rf"\\[dt]?frac\{{(?P<minus>-?)(?P<top>{_LITERAL})\}}\{{(?P<bottom>{_LITERAL})\}}"
    rf"|(?P<over>{_LITERAL})(?: ?/ ?(?P<under>{_LITERAL}))?"
)
_OPERATOR = re.compile(r"(?: |\$|\\[()]|\\times|\\cdot|\\div|[-+−*×÷/=x])+")
_DECORATION = re.compile(r"(?:[\s$€£({*]|\\\()*")
_UNIT = re.compile(r"(?:[\s%$€£)}*]|\\\))*(?:\s[^\W\d]+){0,3}[\s.$)}*]*")
_LATEX_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{")

_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{([^{}]{0,200}+(?:\{[^{}]{0,200}+\}[^{}]{0,200}+){0,8}+)\}")
_HASHES = re.compile(r"####[ \t]{0,8}([^\n]{0,200})")
_CUE = re.compile(r"\banswer[\s*_]{0,4}(?:is|are|equals|:|=)[\s:*_]{0,4}", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?;](?:\s|$)|\n")


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """A final answer, and how it was found."""

    answer: str | None  # canonical: equal strings mean equivalent answers
    tier: Literal[1, 2, 3] | None  # 1 markup, 2 statement, 3 last number or letter; None: no answer
    matched: str = ""  # the piece of text it was read from


_NOTHING = Extraction(answer=None, tier=None)


def numbers(text: str) -> Counter[str]:
    """Return the multiset of the numbers in `text`, each in canonical form.

    Currency, percent signs and thousands separators do not count; a fraction is two numbers; a
    minus is a sign only where it cannot be a subtraction or a hyphen.
    """
    text = _plain(text)
    found: Counter[str] = Counter()
    for match in _NUMBER.finditer(text):
        sign = "-" if _is_negative(text, match.start()) else ""
        found[sign + match.group()] += 1
    canonical: Counter[str] = Counter()
    for literal, count in found.items():
        canonical[_canonical_literal(literal)] += count
    return canonical


def number_spans(text: str) -> list[tuple[int, int]]:
    """Return where each number of `text` begins and ends, its sign left out."""
    return [match.span() for match in _NUMBER.finditer(text)]


def canonical_number(text: str) -> str | None:
    """Return the canonical form of a text that is one number, or None where it is not.

    Currency, a percent sign and a unit of up to three words after a blank are let pass.
    """
    body = _DECORATION.sub("", _plain(text), count=1)
    negative = body.startswith(("-", "−"))
    unsigned = body[negative:].lstrip("$€£ ")
    match = _VALUE.match(unsigned)
    if match is None or len(unsigned) > match.end() + _WINDOW:
        return None
    if not _UNIT.fullmatch(unsigned, match.end()):
        return None
    return _canonical_value(match, negative=negative)


def extract_number(text: str) -> str | None:
    """Return the final numeric answer of `text` in canonical form, or None where there is none."""
    return find_number(text).answer


def extract_choice(text: str, letters: str = "ABCDE") -> str | None:
    """Return the letter that `text` settles on, or None where there is none."""
    return find_choice(text, letters).answer


def find_number(text: str) -> Extraction:
    r"""Return the final numeric answer of `text` and its tier.

    Tier 1: `<answer>42</answer>`, `\boxed{42}`, `#### 42`. Tier 2: "the answer is 42",
    "Answer: 42". Tier 3: the last number. The last readable match of the best tier wins.
    """
    text = _plain(text)
    marked = (
        (body, canonical_number(body) if hashes else _read(body)) for body, hashes in _marked(text)
    )
    for body, answer in marked:
        if answer is not None:
            return Extraction(answer=answer, tier=1, matched=body)
    for cue in reversed(list(_CUE.finditer(text))):
        window = text[cue.end() : cue.end() + _WINDOW]
        statement = _SENTENCE_END.split(window, maxsplit=1)[0]
        answer = _read(statement)
        if answer is not None:
            return Extraction(answer=answer, tier=2, matched=cue.group() + statement)
    for match in reversed(list(_VALUE.finditer(text))):
        answer = _canonical_value(match, negative=_is_negative(text, match.start()))
        if answer is not None:
            return Extraction(answer=answer, tier=3, matched=match.group())
    return _NOTHING


def find_choice(text: str, letters: str = "ABCDE") -> Extraction:
    r"""Return the letter that `text` settles on and its tier.

    Tier 1: `<answer>B</answer>`, `\boxed{B}`, `#### B`. Tier 2: "the answer is B", "Answer: (B)";
    without such a sentence, "option B". Tier 3: a letter alone at the end. The last match wins.
    A small letter counts only in brackets or as all there is, since "a" is also a word.
    """
    shapes = _choice_shapes(letters)
    for body, hashes in _marked(text):
        match = shapes.alone.fullmatch(body)
        if match is None and not hashes:
            match = shapes.inside.search(body)
        if match is not None:
            return Extraction(answer=_letter(match, letters), tier=1, matched=body)
    for cue in (shapes.stated, shapes.option):
        match = _last(cue.finditer(text))
        if match is not None:
            return Extraction(answer=_letter(match, letters), tier=2, matched=match.group())
    match = shapes.ending.search(text.rstrip()[-32:])
    if match is not None:
        return Extraction(answer=_letter(match, letters), tier=3, matched=match.group().strip())
    return _NOTHING


@dataclass(frozen=True, kw_only=True)
class _ChoiceShapes:
    """The patterns that find one of a set of letters."""

    alone: re.Pattern[str]
    inside: re.Pattern[str]
    stated: re.Pattern[str]
    option: re.Pattern[str]
    ending: re.Pattern[str]


@lru_cache(maxsize=32)
def _choice_shapes(letters: str) -> _ChoiceShapes:
    """Return the patterns for this set of letters."""
    upper = "[" + re.escape(letters.upper()) + "]"
    either = "[" + re.escape(letters.upper() + letters.lower()) + "]"
    letter = rf"(?:\((?P<bracketed>{either})\)|[\[\"'*$]{{0,4}}(?P<bare>{upper})(?![A-Za-z0-9'’]))"
    noun = r"(?i:option|choice)"
    return _ChoiceShapes(
        alone=re.compile(rf"[\s(\[*\"'$]*(?P<bare>{either})[\s)\].*\"'$]*"),
        inside=re.compile(rf"(?<![A-Za-z0-9]){letter}"),
        stated=re.compile(
            rf"\b(?i:answer)[\s*_]{{0,4}}(?:(?i:is|equals)\b|[:=])[\s:*_]{{0,4}}"
            rf"(?:(?i:the )?{noun} )?\s?{letter}"
        ),
        option=re.compile(rf"\b{noun}(?: (?i:is)\b)?[\s:*_]{{0,4}}{letter}"),
        ending=re.compile(
            rf"(?:\A|[^A-Za-z0-9'’(])(?:\((?P<bracketed>{either})\)|\(?(?P<bare>{upper}))"
            r"[^A-Za-z0-9]{0,8}\Z"
        ),
    )


def _letter(match: re.Match[str], letters: str) -> str:
    """Return the letter a pattern caught, in the case that `letters` has it in."""
    caught = match.groupdict()
    letter = caught.get("bracketed") or caught["bare"]
    return letters[letters.upper().index(letter.upper())]


def _last(matches: Iterable[re.Match[str]]) -> re.Match[str] | None:
    """Return the last match, or None."""
    last = None
    for match in matches:
        last = match
    return last


def _marked(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what stands in explicit markup, last first, and whether its markup is `####`.

    `####` also opens Markdown headings, so its line must be an answer and nothing else.
    """
    spans = [(m.start(), m.group(1), False) for m in _BOXED.finditer(text)]
    spans += [(m.start(), m.group(1), True) for m in _HASHES.finditer(text)]
    tags = list(_TAG.finditer(text))
    for opening, closing in pairwise(tags):
        if closing.group(1) and not opening.group(1):
            spans.append((opening.start(), text[opening.end() : closing.start()][:_WINDOW], False))
    for _, body, hashes in sorted(spans, reverse=True):
        yield body, hashes


def _plain(text: str) -> str:
    """Return `text` with LaTeX separators and text wrappers out of the way."""
    if "\\" not in text and "{,}" not in text:
        return text
    text = text.replace("{,}", ",").replace(",\\!", ",").replace("\\$", "$").replace("\\%", "%")
    return _LATEX_WRAPPER.sub("{", text)


def _read(body: str) -> str | None:
    """Return the first value of a short text; of a chain of operations, what follows its last =."""
    match = _VALUE.search(body)
    result = match
    while match is not None:
        operator = _OPERATOR.match(body, match.end())
        match = None if operator is None else _VALUE.match(body, operator.end())
        if operator is not None and match is not None and "=" in operator.group():
            result = match
    if result is None:
        return None
    return _canonical_value(result, negative=_is_negative(body, result.start()))


def _is_negative(text: str, start: int) -> bool:
    """Say whether the number at `start` has a sign before it, and not a subtraction or a hyphen."""
    before = text[max(0, start - 16) : start].rstrip("$€£")
    minus = before.rstrip(" ")
    if not minus.endswith(("-", "−")):
        return False
    spaced = len(minus) < len(before)
    head = minus[:-1]
    left = head.rstrip()[-1:]
    if not left:
        return not spaced  # with a blank after it, the bullet of a list
    if left in "=+*/×÷(<>^":
        return True  # "= - 7": nothing to subtract from
    if spaced:
        return False
    if head.endswith(left):
        return not (left.isalnum() or left in ")]}%_'\"")
    return not (left.isdigit() or left in ")]}%$")


def _canonical_value(match: re.Match[str], *, negative: bool) -> str | None:
    """Return the canonical form of a match of `_VALUE`; None for a division by zero."""
    top, bottom = match["top"] or match["over"], match["bottom"] or match["under"]
    sign = "-" if negative != bool(match["minus"]) else ""
    if bottom is None:
        return _canonical_literal(sign + top)
    if len(top) + len(bottom) > MAX_DIGITS:
        return f"{sign}{top}/{bottom}"
    over, under = (Fraction(part.replace(",", "")) for part in (top, bottom))
    return None if under == 0 else str((-1 if sign else 1) * over / under)


def _canonical_literal(literal: str) -> str:
    """Return a literal without separators, idle zeros and a decimal point."""
    literal = literal.replace(",", "")
    if len(literal) > MAX_DIGITS:
        return literal
    return str(Fraction(literal))
