r"""The final formula of a text, as it is written there.

Tier 1: the last `\boxed{}`, `<answer>` or `####`. Tier 2: "the answer is ...". Tier 3: the last
formula between dollars or brackets, or what is said to be its value; else the last number. Boxes
that are joined are a list. What is cut off is not read, and nothing earlier takes its place.
"""

import re

from remask.answers import NOTHING, Extraction, find_number
from remask.answers.markup import Mark, answer_of, marks, statements
from remask.answers.number import value_of

_WINDOW = 400  # characters after a cue in which its answer must stand
_FORMULA = re.compile(
    r"(?<!\\)\$\$?((?:\\.|[^$\\]){1,400}+)\$\$?"
    r"|\\\(((?:(?!\\\)).){1,400}+)\\\)|\\\[((?:(?!\\\]).){1,400}+)\\\]",
    re.DOTALL,
)
_PROSE = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{4,}(?![A-Za-z}])")
_SENTENCE_END = re.compile(r"[.!?;](?=[*\s]|$)|\n")
_REASON = re.compile(r",?\s+(?:because|since|as|so|but|which|where|when|if|for)\s", re.IGNORECASE)
_COPULA = re.compile(r"(?:\b(?:is|are|equals?|be)\b|=)[\s:*]*", re.IGNORECASE)
_AROUND = " \t\n*_:`"
_HEAD = 80  # characters of a line in which its answer begins
_HEADING = re.compile(r"[\s*_]*[0-9]{1,2}[.):]\s+\S")
_MOST_WORDS = 3  # of an answer in words, as in "no real solution"


def find_expression(text: str) -> Extraction:
    """Return the final answer of `text` as it is written there, and its tier."""
    text = answer_of(text)
    end = len(text.rstrip())
    marked = [mark for mark in marks(text) if mark.kind != "hashes" or _announces(mark, end)]
    for mark in reversed(marked):
        if not mark.empty:
            answer = None if mark.cut else _in_mark(mark)
            return Extraction(answer=answer, tier=1, matched=mark.bodies[-1]) if answer else NOTHING
    for statement in statements(text):
        window = text[statement.end : statement.end + _WINDOW]
        if window.strip(_AROUND):
            answer = _concluded(window)
            matched = statement.cue + statement.said
            return Extraction(answer=answer, tier=2, matched=matched) if answer else NOTHING
    return NOTHING if marked else _last(text)


def _announces(mark: Mark, end: int) -> bool:
    """Say whether hashes announce an answer: they also open headings, before the end of a text."""
    body = mark.bodies[0]
    if _HEADING.match(body[:_HEAD]) and mark.end < end:
        return False
    return not _PROSE.search(body) or value_of(body) is not None


def _in_mark(mark: Mark) -> str | None:
    """Return what a mark holds, without the signs around it; a list where boxes are joined."""
    bodies = list(dict.fromkeys(filter(None, map(_bare, mark.bodies))))
    if mark.kind == "box" or len(bodies) != 1:
        return ", ".join(bodies) or None
    sentence = _PROSE.search(bodies[0]) and not re.search(r"[{}]", bodies[0])
    return (_concluded(bodies[0]) or bodies[0]) if sentence else bodies[0]


def _bare(body: str) -> str:
    """Return a formula without what opens and closes it."""
    body = body.strip(_AROUND)
    formula = _FORMULA.fullmatch(body.rstrip("."))
    return _body(formula) if formula else re.sub(r"(?<!\\)\\[()\[\]]", "", body).strip(_AROUND)


def _body(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None).strip(" \n.")


def _concluded(window: str) -> str | None:
    """Return the value that a sentence comes to; None where it says none."""
    sentence = _sentence(window.lstrip(_AROUND))
    reason = _REASON.search(_blanked(sentence))
    head = sentence[: reason.start() if reason else None]
    formulas = list(_FORMULA.finditer(sentence))
    if not formulas:
        return _in_words(sentence)
    if not _FORMULA.search(head):
        number = value_of(head)
        if number is not None:
            return number
        head = sentence
    copulas = list(_COPULA.finditer(_blanked(head)))
    tail = head[copulas[-1].end() :] if copulas else head
    formula = _FORMULA.search(tail)
    return _body(formula) if formula else _in_words(tail)


def _sentence(window: str) -> str:
    """Return a text up to the end of its first sentence; a formula is not broken."""
    end = _SENTENCE_END.search(_blanked(window))
    return window[: end.start() if end else None]


def _blanked(text: str) -> str:
    """Return a text of the same length with its formulas blanked out."""
    return _FORMULA.sub(lambda match: "\u25a1" * len(match.group()), text)


def _in_words(sentence: str) -> str | None:
    """Return the value of a sentence without formulas."""
    sentence = sentence.strip(_AROUND)
    number, prose = value_of(sentence), len(_PROSE.findall(sentence))
    if number is not None and prose:
        return number
    whole = sentence.count("{") == sentence.count("}") and not re.search(r"(?<!\\)\$", sentence)
    few = prose <= 1 and len(sentence.split()) <= _MOST_WORDS and not re.search("[0-9]", sentence)
    return sentence or None if whole and (not prose or few) else None


def _last(text: str) -> Extraction:
    """Return the last formula, or what its sentence says it is; else the last number."""
    last: re.Match[str] | None = None
    for match in _FORMULA.finditer(text):
        last = match
    if last is None:
        return find_number(text)
    rest = _sentence(text[last.end() : last.end() + _WINDOW])
    copula = _COPULA.search(rest)
    value = value_of(rest[copula.end() :]) if copula else None
    answer = value if value is not None else _body(last)
    return Extraction(answer=answer, tier=3, matched=last.group()) if answer else NOTHING
