r"""Find the final answer of a text, for every kind of answer.

Tier 1 is the last mark (see `markup`). Tier 2 is the last statement, such as "the answer is 42",
"Answer: B" or "the final answer would be 7": the word "answer" with a verb or a colon, and the text
up to the end of the sentence. Tier 3 is the fallback of the kind, such as the last number. A
correction ("Wait, no: 7") replaces the answer before it.

The last candidate of the best tier decides. If it is ambiguous (see `joined`), there is no answer:
only a later statement can replace it, not an earlier candidate.

A base model often continues with a new text. The text after a glued word ("#### 18You are") or
after a line such as "Question:" behind an answer is ignored.
"""

import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from remask.answers.markup import NOTHING, Extraction, Mark, answer_of, marks

_WINDOW = 400  # characters after a cue in which its answer must stand
_LISTED = 1000  # characters after a cue that are kept: options may be listed there
_VERB = (
    r"(?:is|are|equals?|(?:would|should|will|must|has to|have to)\s+be|comes\s+(?:out\s+)?to"
    r"|turns\s+out\s+to\s+be)\b"
)
# Words between the two say what is asked, "the answer to the question is", and hold no number.
_BETWEEN = (
    r"(?:[,][^.!?\n:=0-9]{0,60},|\s+(?:to|for|in|of|here|then|therefore)\b[^.!?\n:=0-9]{0,100}?)?"
)
_NOUN = r"(?<!to )(?<![A-Za-z])answers?(?:\s*\([^()\n]{0,30}\))?"
_AFTER = (
    r"(?:[\s:,*_\"']|->|=>|→|(?:therefore|thus|hence|then|simply|clearly|definitely|indeed|still|also"
    r"|always|probably|presumably|perhaps|(?:(?:most|more) )?likely(?: to be)?)\b(?!\s+not\b))*"
)
# "### Final Answer", and the answer below it.
_TITLE = r"(?m:^)[#*_][#*_ ]{0,7}(?:(?:the|final|correct) ){0,3}answer[*_ ]*\n"
_VERBAL = rf"{_BETWEEN}[\s*_]{{0,4}}\b{_VERB}"
_NEGATIVE = r"\s+(?=(?:cannot|(?:can|is|are|would|could|should|must)(?:n['’]t|['’]t| not))\b)"
_CUE = re.compile(
    rf"{_NOUN}(?:{_NEGATIVE}|{_VERBAL}|[\s*_\"']{{0,4}}(?:[:=→]|->)){_AFTER}|{_TITLE}\s*",
    re.IGNORECASE,
)
_OPENING = re.compile(r"(?:\s|\\\[|\\\(|\$\$?(?=\s)|\*\*|#+\s)*")
# "5! - 3" goes on after its mark, which is no end of a sentence.
SENTENCE_END = re.compile(
    r"[.!?](?<!!(?=[\s]{0,2}[-+*/=^]))(?!\s+(?:[Oo]r|[Aa]lternatively)\b)(?:[*_\"')\]]{0,3}(?:\s|$))"
    r"|;(?=\s+(?!option|choice)[A-Za-z]{2}|\s+\(?[A-Z]\)?\s+(?:is|was|has|does|would)\b|\s*$)"
    r"|[\"']\s*\}|[\"']?,\s*[\"']\w{1,40}[\"']\s*:|\n"
)
_ITEM = r"[ \t]*(?:[-*•]|[0-9]{1,2}[.)])[ \t]+(\S[^\n]{0,200})(?:\n|\Z)"  # with a bullet or number
_ITEMS = re.compile(rf"(?:{_ITEM}){{1,20}}")
_LONGEST_ITEM = 3  # words of an item that is a value; a longer one is a step
_CORRECTION = re.compile(
    r"(?:(?<=[.!?;,\n])|(?<=[.!?;,]['\"*$)]))\s*"
    r"\b(?:wait|no|actually|sorry|oops|correction|hold on)"
    r"(?:(?:[\s,.!:;—–-]+(?:wait|no|actually|sorry|rather|make that|i meant?|(?:it|that|this)"
    r"(?:['’]s|\s+is|\s+should\s+be|\s+must\s+be)|wrong|incorrect|not\s+(?:quite\s+)?(?:right|correct)"
    r"|(?:(?:so|the|my|final|correct)\s+){1,4}answer\s+(?:is|should\s+be)))+[,.!:;—–-]*|[,.!:;—–-]+|(?<=actually))\s+(?=\S)",
    re.IGNORECASE,
)
_REPLACEMENT = re.compile(  # of an answer that was refused: "The answer is not 4. It is 5."
    r"[.!;,]\s+(?:so\s+|but\s+|rather,?\s+|instead,?\s+)?it(?:['’]s|\s+(?:is|must\s+be|should\s+be))\s+(?=\S)",
    re.IGNORECASE,
)
_CORRECTED_WORDS = 2  # a longer sentence is about something else
# A capitalised word glued to an answer, and a line that opens another problem.
_GLUED = r"(?=[A-Z](?:[a-z]+\b|[A-Za-z]*:|[ ][a-z]))(?!(?:Hundred|Thousand|[MBT]r?illion)\b)"
_GLUE = re.compile(rf"[%*_)\]$`\\]{{0,4}}(?:[ ][a-z]{{2,12}})?[.!?]?{_GLUED}")
_RUN_ON = re.compile(
    r"\W{0,8}?(?:(?i:option|choice)\s)?(?:-?[0-9][0-9.,/ ]{0,40}(?<! )|[A-J]|\$[^$\n]{1,80}\$"
    r"|\\\((?:(?!\\\)).){1,80}\\\)|\\text\w*\{[^{}\n]{1,40}\}|`[^`\n]{1,40}`)"
    rf"{_GLUE.pattern}"
)
_BARE = re.compile(r"\W{0,8}(?:-?[0-9][0-9.,/]{0,40}|[A-J](?![a-z]|[A-Z]{2}))[^\n]{0,80}")
_NEXT_PROBLEM = re.compile(
    r"\n[\s#*\[]{0,8}(?:(?:Question|Q|Problem|Human|User|Instruction|Example|Exercise|Task|Input)"
    r"(?: ?[0-9]{1,3})?[*]{0,2}[:\]]"
    r"|(?:Question|Problem|Example|Exercise|Task)(?: [0-9]{1,3}[*]{0,2}[.\n]|[*]{0,2}\n))"
)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A sentence that states the answer."""

    start: int  # of the cue
    cue: str
    begin: int = 0  # where the cue ends
    said: str  # up to the end of the sentence
    window: str  # the text after the cue, LaTeX's brackets included
    end: int


Candidate = Mark | Statement


class Kind(ABC):
    """How answers of one kind are read."""

    @abstractmethod
    def speaks(self, candidate: Candidate) -> bool:
        """Return whether a candidate contains an answer of this kind, or excludes one."""

    @abstractmethod
    def read(self, candidate: Candidate) -> str | None:
        """Return the answer, None if it is ambiguous, or "" if a mark contains no answer."""

    @abstractmethod
    def last(self, text: str, *, after_mark: bool) -> Extraction:
        """Return the answer of a text that has no statement; `after_mark` if it has marks."""

    def stated(self, text: str) -> list[Statement]:
        """Return the statements of a text in their order."""
        return statements(text)


def find_answer(text: str, kind: Kind) -> Extraction:
    """Return the final answer of `text` and its tier."""
    text = _own(answer_of(text), kind)
    marked = [mark for mark in marks(text) if kind.speaks(mark)]
    mark = next((mark for mark in reversed(marked) if not mark.empty), None)
    answer = _in_mark(text, mark, kind) if mark else None
    if mark is not None and answer:
        return _corrected(
            Extraction(answer=answer, tier=1, matched=mark.bodies[-1]), text, mark, kind
        )
    after = mark.end if mark else 0
    for statement in reversed(kind.stated(text)):
        if statement.start >= after and kind.speaks(statement):
            stated = kind.read(statement)
            matched = statement.cue + statement.said
            found = Extraction(answer=stated, tier=2, matched=matched) if stated else NOTHING
            return _corrected(found, text, statement, kind)
    is_open = mark is None or answer == ""
    return kind.last(text[after:], after_mark=bool(marked)) if is_open else NOTHING


def _in_mark(text: str, mark: Mark, kind: Kind) -> str | None:
    """Return the answer in a mark, or None if the words around it exclude or bound it."""
    if mark.cut or _EXCLUDED.search(text[max(0, mark.start - _BEFORE_MARK) : mark.start]):
        return None
    if mark.kind == "tag" and len(mark.bodies) == 1 and (inner := kind.stated(mark.bodies[0])):
        return kind.read(inner[-1])
    around = next((s for s in reversed(kind.stated(text)) if s.start < mark.start), None)
    if around is not None and mark.start < around.end:
        before = text[around.begin : mark.start]
        after = text[mark.end : mark.end + _WINDOW].partition("\n")[0]
        if is_hedged(_last_clause(before)) or BOUND.match(after):
            return None
    return kind.read(mark)


def _own(text: str, kind: Kind) -> str:
    """Return a text up to the place where a base model starts a new text."""
    problems = [line.start() for line in _NEXT_PROBLEM.finditer(text)]
    candidates: list[Candidate] = [*marks(text), *kind.stated(text)]
    if bare := _BARE.match(text):
        said = bare.group()
        candidates.append(Statement(start=0, cue="", said=said, window="", end=len(said)))
    for candidate in sorted(candidates, key=lambda one: one.start):
        run_on = None
        if isinstance(candidate, Statement):
            run_on = _RUN_ON.match(text, candidate.begin) if candidate.cue else None
        elif candidate.kind == "hashes":
            run_on = _RUN_ON.match(text, text.index(candidate.bodies[0], candidate.start))
        elif kind.read(candidate):
            run_on = _GLUE.match(text, candidate.end)
        if run_on:
            return text[: run_on.end()] + "\n"
        place = bisect_left(problems, candidate.end)
        if place < len(problems) and kind.speaks(candidate) and kind.read(candidate):
            return text[: problems[place] + 1]
    return text


def _corrected(found: Extraction, text: str, candidate: Candidate, kind: Kind) -> Extraction:
    """Return the answer of the last correction after a candidate, or `found`."""
    begin = candidate.begin if isinstance(candidate, Statement) else candidate.end
    cues = list(_CORRECTION.finditer(text, begin))
    if found is NOTHING and (replacement := _REPLACEMENT.match(text, candidate.end)):
        cues.insert(0, replacement)
    for cue in reversed(cues):
        statement = _statement(text, cue.start(), cue.end())
        short = _words(statement.said) <= _CORRECTED_WORDS
        answer = kind.read(statement) if short and kind.speaks(statement) else None
        if answer:
            return Extraction(answer=answer, tier=2, matched=statement.cue + statement.said)
    return found


def statements(text: str, nouns: str = "") -> list[Statement]:
    """Return the statements of a text in their order.

    `nouns` are more words for an answer. They need a verb: "each option:" opens a list.
    """
    return [_statement(text, cue.start(), cue.end()) for cue in _cue(nouns).finditer(text)]


def _statement(text: str, start: int, end: int) -> Statement:
    opening = _OPENING.match(text, end)
    first = opening.end() if opening else end
    listed = _ITEMS.match(text, first) if "\n" in text[start:first] else None
    items = re.findall(_ITEM, listed.group()) if listed else []
    if len(items) == 1:
        first = text.index(items[0], first)
    window = text[first : first + _WINDOW]
    stop = SENTENCE_END.search(window)
    said = window[: stop.start() if stop else None]
    finish = first + len(said)
    said = "" if _CUE.search(said) else said  # "the answer is:", and then another statement
    after = _NEXT_PROBLEM.split(text[end : end + _LISTED], maxsplit=1)[0]
    if len(items) > 1:  # of values; longer items are steps
        after = said = ", ".join(items) if max(map(_words, items)) <= _LONGEST_ITEM else ""
    elif _DENIED.search(text[max(0, start - _BEFORE_CUE) : start + 1]):
        after = said = f"not {said}"
    cue = text[start:first]
    return Statement(start=start, cue=cue, begin=end, said=said, window=after, end=finish)


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text):
        last = match
    return last


def _words(text: str) -> int:
    return len(text.split())


@lru_cache(maxsize=8)
def _cue(nouns: str) -> re.Pattern[str]:
    if not nouns:
        return _CUE
    return re.compile(rf"{_CUE.pattern}|\b(?:{nouns}){_VERBAL}{_AFTER}", re.IGNORECASE)


class Token(NamedTuple):
    """A value in a text; equal keys are equal values."""

    start: int
    end: int
    key: str


# Words before a value: it is excluded, or only a bound or the end of a range.
HEDGE = re.compile(
    r"\b(?:not|\w+n['’]t|never|no|nor|neither|none|cannot|except(?:\s+for)?|excluding|other\s+than"
    r"|besides|between|ranging|at\s+(?:the\s+)?(?:very\s+)?(?:least|most)|(?:more|less|fewer|greater"
    r"|smaller|larger|higher|lower|bigger)\s+than|if|unless"
    r"|(?:any|every|all|nothing)\w*\b[^.;]{0,30}\bbut)\b"
    r"|\b(?:over|under|above|below|up\s+to|twice|half|double|triple|(?:half|multiple|factor|root)\s+of"
    r"|as\s+\w+\s+as|bounded\s+(?:above\s+|below\s+)?by)\W*$",
    re.IGNORECASE,
)
BOUND = re.compile(  # "5 days or more", after a value
    r"[})*$\\]{0,6}(?:\s[A-Za-z%]{1,12})?[\s,({})*$\\]{1,9}(?:(?:or|and)\s+(?:more|less|fewer|greater|above|below|up|over|under"
    r"|higher|lower|else|something|another|other|none|neither|both|all)|at\s+(?:the\s+)?(?:very\s+)?"
    r"(?:least|most)|(?:max|maximum|minimum|tops)\W*$)\b",
    re.IGNORECASE,
)
# The end of the words before a last value that nothing states.
UNSURE = re.compile(
    r"(?:\bor|\bbetween\b[^.\n]{0,40}\band|(?:not|n['’]t)(?:\s+be)?|\bat\s+(?:least|most))\b[^\w\n]*$",
    re.IGNORECASE,
)
_BEFORE_CUE = 60  # characters in which a statement can be denied
_BEFORE_MARK = 24  # characters in which a word can exclude what a mark holds
_EXCLUDED = re.compile(
    r"(?:\b(?:not|never|neither|cannot\s+be|except)|n['’]t)[$\\(\[* ]*\Z", re.IGNORECASE
)
# "5 if x is even and 6 otherwise", "5 for Tom and 6 for Ann", "5, but it might be 6"
CONDITION = re.compile(
    r"\bif\b[^.\n]{0,80}\b(?:otherwise|if)\b|\b(if|when|for)\b[^.\n]{0,60}\b(?:and|or|but)\s+"
    r"(?:[^\w\n]{0,4}[0-9]|\\?[$(]|[A-Z]\b)[^.\n]{0,30}\s\1\b|\b(?:but|though|although)\s+(?:it|this"
    r"|that)\s+(?:could|might|may)(?:\s+(?:also|well|even))*\s+be\b",
    re.IGNORECASE,
)
CONTRAST = r"(?:so\s+)?(?:but|rather|instead|it(?:['’]s|\s+(?:is|must\s+be|should\s+be)))"
_CONTRAST = re.compile(rf"\W*{CONTRAST}\b(?!.*\bnot\b)", re.IGNORECASE)
# A gap that joins two values: some words, then a comma, "or", "to" ... before the second value.
CLAUSE = (
    r"because|since|as|so|but|which|whose|who|that|where|when|while|if|not|rather|instead|than|is"
    r"|are|was|were|has|have|had|can|see|he|she|they|it|we|you"
)
_RESOLVED = re.compile(r"(?:\bnot|n['’]t|\bnever)\b.*\bbut\b", re.IGNORECASE)  # "not listed, but"
_CLAUSE_START = re.compile(r"[,;:]\s|\(|\b(?:so|thus|therefore|hence|but)\b", re.IGNORECASE)
_SUBJECT = re.compile(
    r".*(?<!not )(?<!never )(?<!n['’]t )\b(?:is|are|was|were|be)\b", re.IGNORECASE
)
_DENIED = re.compile(  # "I don't think that"
    r"(?:\bnot|n['’]t|\bnever)\s+(?:think|believe|true|likely|possible)\b[^.,;:!?\n]{0,24}\Z",
    re.IGNORECASE,
)
_LONGEST_GAP = 90  # characters
_JOINT = re.compile(
    rf"(?:(?!\b(?:{CLAUSE})\b|[.!?:]\s)[^\n]){{0,60}}?"
    r"(?:(?P<range>\b(?:to|through|thru|until)\b|[-–—~](?!>)|\.\.+)|[,;/&]|\\/|\.\s(?=(?:or|alternatively)\b)|\((?=possibly|perhaps|maybe)"
    r"|\b(?:or|and|nor|and/or|versus|vs|as\s+well\s+as|along\s+with|together\s+with|alternatively)\b\.?)+"
    r"[^\w.]*(?:\b(?:or|and|maybe|perhaps|possibly|probably|even|rather|about|also|another|option|choice|actually|less|more"
    r"|likely|alternatively|is\s+it)\b"
    r"[^\w.]*)*",
    re.IGNORECASE,
)


def joined(
    text: str,
    tokens: Sequence[Token],
    at: int = 0,
    *,
    origin: int = 0,
    loose: bool = False,
    bound: re.Pattern[str] = BOUND,
) -> list[Token]:
    """Return the value `tokens[at]` with those that a list or an alternative joins to it.

    The list is empty if the words around the values exclude them, bound them or make them a range.
    Of "not A but B" the second value counts. Words before `origin` do not count. If `loose`, only
    the clause of the value can exclude it; otherwise all words before it. `bound` matches words
    after the value that keep it from being the answer.
    """
    first = last = at
    while first > 0 and _joint(text, tokens[first - 1], tokens[first]):
        first -= 1
    while last + 1 < len(tokens) and _joint(text, tokens[last], tokens[last + 1]):
        last += 1
    run = tokens[first : last + 1]
    before = text[max(origin, tokens[first - 1].end if first else 0) : run[0].start]
    if is_hedged(_last_clause(before) if loose else before):
        is_next = last + 1 < len(tokens)
        contrast = is_next and _CONTRAST.match(text, run[-1].end, tokens[last + 1].start)
        return (
            joined(text, tokens, last + 1, origin=contrast.end(), bound=bound) if contrast else []
        )
    joints = {_joint(text, one, other) for one, other in pairwise(run)}
    is_range = "range" in joints and len({token.key for token in run}) > 1
    end = run[-1].end
    return [] if is_range or bound.match(text, end) or CONDITION.search(text, end) else list(run)


def is_hedged(before: str) -> bool:
    """Return whether the words before a value exclude it, bound it or begin a range."""
    return HEDGE.search(_RESOLVED.sub("", before)) is not None


def _last_clause(before: str) -> str:
    """Return the last clause; "the one that is not wet is" excludes nothing."""
    clause = _CLAUSE_START.split(before)[-1]
    subject = None if _DENIED.search(clause) else _SUBJECT.match(clause)
    return clause[subject.end() :] if subject else clause


def _joint(text: str, one: Token, other: Token) -> Literal["list", "range"] | None:
    """Return how a gap joins two values; None if it does not."""
    gap = text[one.end : other.start]
    if not gap.strip() and text[one.end - 1] in ")]" and text[other.start] in "([":
        return "list"
    joint = _JOINT.fullmatch(gap) if len(gap) <= _LONGEST_GAP else None
    return None if joint is None else "range" if joint["range"] else "list"
