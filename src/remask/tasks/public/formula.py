r"""The final formula of a text, as it is written there.

Tier 1: the last `\boxed{}`, `<answer>` or `####`. Tier 2: "the answer is ...". Tier 3: the last
formula between dollars or brackets, or what is said to be its value; else the last number. Boxes
that are joined are a list. What is cut off is not read, and nothing earlier takes its place.
"""

import re

from remask.answers import NOTHING, Extraction, find_number
from remask.answers.number import value_of
from remask.answers.search import (
    BOUND,
    HEDGE,
    SENTENCE_END,
    UNSURE,
    Candidate,
    Kind,
    Statement,
    Token,
    find_answer,
    is_hedged,
    joined,
    last_match,
)
from remask.tasks.public.latex import WRAPPED, normalise

_WINDOW = 400  # characters after a cue in which its answer must stand
_FORMULA = re.compile(
    r"(?<!\\)\$\$?((?:\\.|[^$\\]){1,400}+)\$\$?"
    r"|\\\(((?:(?!\\\)).){1,400}+)\\\)|\\\[((?:(?!\\\]).){1,400}+)\\\]",
    re.DOTALL,
)
_PROSE = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{4,}(?![A-Za-z}])")
_REASON = re.compile(
    r",?\s+(?:because|since|as|so|but|though|although|which|where|when|if|for)\s", re.IGNORECASE
)
_COPULA = re.compile(r"(?:\b(?:is|are|equals?|be)\b|=)[\s:*]*", re.IGNORECASE)
_RANGE = re.compile(r"[0-9$)}]\s*(?:to|through)\s[\s$]*[-(\\0-9]")
_MATH = re.compile(r"[0-9]|\\[a-z]|(?<![A-Za-z])[b-zB-HJ-Z](?![A-Za-z])")
_EXCEPT = re.compile(
    r"\W{0,3}(?:except|other than|excluding|apart from|but not|such that|satisfying)\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"(?:\b(?:not|cannot|never)|n['’]t)\s*$", re.IGNORECASE)
_LISTING = re.compile(r",?\s+(?:and|or)\s+(?=[^A-Za-z]*[0-9])")
_AROUND = " \t\n*_:`"
_HEAD = 80  # characters of a line in which its answer begins
_MOST_WORDS = 3  # of an answer in words, as in "no real solution"


def find_expression(text: str) -> Extraction:
    """Return the final answer of `text` as it is written there, and its tier."""
    return find_answer(text, _FormulaKind())


class _FormulaKind(Kind):
    def speaks(self, candidate: Candidate) -> bool:
        if isinstance(candidate, Statement):
            return bool(candidate.window[:_WINDOW].strip(_AROUND))
        if candidate.kind != "hashes":
            return True
        body = candidate.bodies[0]
        if candidate.is_last and _FORMULA.search(body):
            return True
        return not _PROSE.search(body) or is_hedged(body) or value_of(body) is not None

    def read(self, candidate: Candidate) -> str | None:
        """Return what a candidate holds without the signs around it; joined boxes are a list."""
        if isinstance(candidate, Statement):
            return _concluded(candidate.window[:_WINDOW])
        whole = candidate.bodies[0].strip(_AROUND)
        is_words = candidate.kind != "box" and not re.search(r"[{}]", _blanked(whole))
        if is_words and _FORMULA.search(whole) and not _FORMULA.fullmatch(whole.rstrip(".")):
            return _concluded(whole)
        bare = filter(None, map(_bare, candidate.bodies))
        bodies = list({normalise(body): body for body in bare}.values())
        if any(map(_is_uncertain, bodies)):
            return None
        if is_words and len(bodies) == 1 and _PROSE.search(bodies[0]):
            return _concluded(bodies[0]) or bodies[0]
        return ", ".join(bodies) or None

    def last(self, text: str, *, after_mark: bool) -> Extraction:
        return NOTHING if after_mark else _last(text)


def _is_uncertain(body: str) -> bool:
    """Return whether words exclude or bound the value in a mark; words alone may be the answer."""
    flat = WRAPPED.sub(r" \1 ", body)
    hedge = HEDGE.search(flat) or _RANGE.search(flat)
    return bool(hedge and _MATH.search(flat, hedge.start())) or BOUND.search(flat) is not None


def _bare(body: str) -> str:
    body = body.strip(_AROUND)
    formula = _FORMULA.fullmatch(body.rstrip("."))
    return _body(formula) if formula else re.sub(r"(?<!\\)\\[()\[\]]", "", body).strip(_AROUND)


def _body(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None).strip().rstrip(" \n.")


def _concluded(window: str) -> str | None:
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
    start = copulas[-1].end() if copulas else 0
    if copulas and _NEGATED.search(head[: copulas[-1].start()]):
        return None
    tail = sentence[start:]
    tokens = [Token(*match.span(), normalise(_body(match))) for match in _FORMULA.finditer(tail)]
    if not tokens or start + tokens[0].start >= len(head):
        return _in_words(head[start:])
    run = joined(tail, tokens)
    if not run or _EXCEPT.match(tail, run[-1].end):
        return None
    values = {token.key: tail[token.start : token.end] for token in reversed(run)}
    bodies = list(map(_bare, reversed(values.values())))
    return None if any(map(_is_uncertain, bodies)) else ", ".join(bodies)


def _sentence(window: str) -> str:
    """Return a text up to the end of its first sentence; a formula is not broken."""
    end = SENTENCE_END.search(_blanked(window))
    return window[: end.start() if end else None]


def _blanked(text: str) -> str:
    """Return a text of the same length with its formulas blanked out."""
    return _FORMULA.sub(lambda match: "\u25a1" * len(match.group()), text)


def _in_words(sentence: str) -> str | None:
    sentence = _LISTING.sub(", ", sentence.strip(_AROUND))
    if _is_uncertain(sentence):
        return None
    number, prose = value_of(sentence), len(_PROSE.findall(sentence))
    if number is not None and prose:
        return number
    whole = sentence.count("{") == sentence.count("}") and not re.search(r"(?<!\\)\$", sentence)
    few = prose <= 1 and len(sentence.split()) <= _MOST_WORDS and not re.search("[0-9]", sentence)
    return sentence or None if whole and (not prose or few) else None


def _last(text: str) -> Extraction:
    """Return the last formula, or what its sentence says it is; else the last number."""
    last = last_match(_FORMULA, text)
    if last is None:
        return find_number(text)
    if UNSURE.search(text[max(0, last.start() - _HEAD) : last.start()]):
        return NOTHING
    rest = _sentence(text[last.end() : last.end() + _WINDOW])
    copula = _COPULA.search(rest)
    value = value_of(rest[copula.end() :]) if copula else None
    answer = value if value is not None else _body(last)
    return Extraction(answer=answer, tier=3, matched=last.group()) if answer else NOTHING
