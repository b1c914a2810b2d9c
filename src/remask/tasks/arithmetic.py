r"""The final expression of a text, as countdown asks for one: `(80 - 82) + 47`.

Tier 1: a box, a tag or `####`; tier 2: a statement; tier 3, where the text has neither: the last
expression with an operation in it. The signs of LaTeX count as the plain ones. Of `8 - 2 = 6` and
of `6 = 8 - 2` the side with the operation is read. An expression is read whole or not at all, and
where the last mark or statement holds none, no earlier one takes its place.
"""

import re

from remask.answers import NOTHING, Extraction
from remask.answers.search import Candidate, Kind, Statement, find_answer

_PLAIN = (
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])|[×·∗]"), "*"),
    (re.compile(r"\\div(?![A-Za-z])|÷"), "/"),
    (re.compile("[−–]"), "-"),
    (re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\[()\[\],;! ]|[$`]"), ""),
    (re.compile(r"\\(?:text|mathrm)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"((\1)/(\2))"),
    (re.compile(r"\*\*(?!\s*[0-9(])|(?<![0-9)\s])\*\*(?!\*)"), ""),  # bold; "3**4" is a power
    (re.compile(r"(?<=[0-9)])[ ]?[xX][ ]?(?=[0-9(])"), " * "),
    (re.compile(r"(?<=[0-9)])(?=\([0-9(])"), "*"),  # 7(8 + 4)
    (re.compile(r"\[(?=[0-9( ]*[0-9])"), "("),
    (re.compile(r"(?<=[0-9)])\]"), ")"),
)
_RUN = re.compile(r"[0-9(][0-9+\-*/() ]*")
_OPERATION = re.compile(r"[-+*/]")
_WORDS = re.compile(r"[A-Za-z][A-Za-z ,']{0,60}(?:\bis\b|:)\s*")
# After an expression: nothing, the end of a sentence, or words.
_ENDS = re.compile(r"\s*(?!or\b)(?:[.,;:!?]*\s*$|[.,;:]\s|[A-Za-z]{2,}|\()")
# What an expression in the middle of a text may be a part of: "x + 3 - 2", "8.5 + 4".
_BEFORE = re.compile(r"(?:[\w.^!]|[A-Za-z)\]}] ?[-+*/^] ?)$")
_AFTER = re.compile(r" ?(?:\.[0-9]|[\w^!%\\\[{])")
_ANOTHER = re.compile(r"[0-9)]\s?(?:[,;\n]|and\b|or\b|then\b)[^+*/]{0,40}?[0-9)] ?[-+*/] ?[0-9(]")


def find_arithmetic(text: str) -> Extraction:
    """Return the final expression of `text` in plain signs, and its tier."""
    return find_answer(text, _ExpressionKind())


class _ExpressionKind(Kind):
    def speaks(self, candidate: Candidate) -> bool:
        if isinstance(candidate, Statement):
            return True
        return candidate.kind != "hashes" or _whole(candidate.bodies[0]) is not None

    def read(self, candidate: Candidate) -> str | None:
        """Return the expression of a candidate; boxes that are joined must agree."""
        if isinstance(candidate, Statement):
            return _whole(candidate.said)
        if any(_ANOTHER.search(_plain(body)) for body in candidate.bodies):
            return None  # steps, one after the other, are no expression
        sides = {_whole(body) for body in candidate.bodies if body.strip()}
        return sides.pop() if len(sides) == 1 else None

    def last(self, text: str, *, after_mark: bool) -> Extraction:
        return NOTHING if after_mark else _last(_plain(text))


def _last(text: str) -> Extraction:
    """Return the last expression with an operation; none where it is a part of something else."""
    last: re.Match[str] | None = None
    for run in _RUN.finditer(text):
        last = run if _OPERATION.search(run.group()) else last
    if last is None:
        return NOTHING
    part = _BEFORE.search(text[max(0, last.start() - 4) : last.start()])
    if part or (not last.group().endswith((" ", "(")) and _AFTER.match(text, last.end())):
        return NOTHING
    return Extraction(answer=_trimmed(last.group()), tier=3, matched=last.group())


def _plain(text: str) -> str:
    for pattern, sign in _PLAIN:
        text = pattern.sub(sign, text)
    return text


def _whole(said: str) -> str | None:
    """Return the expression that is said, in plain signs; None where it is none, or goes on."""
    sides = [side.strip(" \n\t_:") for side in _plain(said).split("=")]
    made = len(sides) > 1 and sides[0].isdecimal() and _OPERATION.search(sides[1])
    side = sides[1] if made else sides[0]
    words = _WORDS.match(side)
    run = _RUN.match(side, words.end() if words else 0)
    if run is None or not _ENDS.match(side, run.end() - run.group().endswith("(")):
        return None
    return _trimmed(run.group())


def _trimmed(run: str) -> str:
    """Return a run of signs without the bracket that opens a remark after it."""
    return re.sub(r"(?<=[0-9)])[ ]+\($", "", run.strip())
