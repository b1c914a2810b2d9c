r"""Find the end of an answer in a text, and its marks: boxes, tags and hashes.

The text ends at the first end token, such as `<|eot_id|>` or `<|endoftext|>`; end tokens before the
first word are ignored. A mask is not an end token: an answer beside a mask is unfinished and is not
read.

Marks are `\boxed{...}`, `<answer>...</answer>` and `#### ...`. Of nested marks, the innermost
counts. Boxes or tags joined by a comma, "and", "or" or "to" are one mark with several bodies. An
unclosed box or tag ends with its line; if the text ends there too, the mark is cut off and is not
read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """A final answer and its source."""

    answer: str | None  # canonical: equal answers are equal strings
    tier: Literal[1, 2, 3] | None  # 1 markup, 2 statement, 3 last number or letter; None: no answer
    matched: str = ""  # the piece of text it was read from


NOTHING = Extraction(answer=None, tier=None)

_THOUGHT = "</think>"
_END = re.compile(
    r"<[|\uff5c](?![^|<>\uff5c]{0,20}mask)[^|<>\s\uff5c]{1,40}[|\uff5c]>"
    r"|</s>(?=\s*(?:</?s>|[#\[]|\Z))|<(?:eos|pad|end_of_turn)>|\[(?:EOS|INST)\]",
    re.IGNORECASE,
)


def answer_of(text: str) -> str:
    """Return the text between the end of the thinking and the first end token."""
    start, end = answer_span(text)
    thought = text.rfind(_THOUGHT, start, end) + len(_THOUGHT)
    if thought >= start + len(_THOUGHT) and text[thought:end].strip():
        start = thought
    return text[start:end] + "\n" * (end < len(text))  # the end of a line: nothing was cut off


def answer_span(text: str) -> tuple[int, int]:
    """Return the span of a text without the end tokens around it."""
    start = 0
    for end in _END.finditer(text):
        if text[start : end.start()].strip():
            return start, end.start()
        start = end.end()
    return start, len(text)


_BOX = re.compile(
    r"\\(?:boxed|fbox)\s*\{|(?<![A-Za-z\\])boxed\{|\\boxed\s+([^\s${}]{1,40})|\\.|[{}]", re.DOTALL
)
_TAG = re.compile(r"<(/?)answer\b[>}]?", re.IGNORECASE)
_HASHES = re.compile(r"(?<!#)####(?!#)[ \t]*((?:(?!####|</?[A-Za-z])[^\n])*)")
_HEADING = re.compile(r"[\s*_]*[0-9]{1,2}[.):]\s+\S")  # "#### 2. Add them up"
_WORDS_OPEN = re.compile(r"\\(?:text|textbf|mathrm|mbox)\{[A-Za-z ]*$")  # a unit left open
_LINE_END = re.compile(r"[\n<>]")
_GAP = 80  # characters between boxes that are joined
_JOINT = re.compile(
    r"(?:[\s$.,;]|\\[()\[\],;! ]|\\q?quad|\\(?:text|mbox)\{[\s,]*(?:and|or|to)?[\s,]*\}"
    r"|(?:(?!(?:and|or|to)\b)[A-Za-z]+\s+){0,2}(?:and|or|to)\b|[A-Za-z](?:_\{?\w{1,9}\}?)?\s*=)*"
)
_JOINS = re.compile(r",|\b(?:and|or|to)\b")
_EMPTY = re.compile(r"(?:[\s.…?_\[\]()$*{}-]|\\(?:dots|ldots|cdots|text|square|[()\[\],;! ]))*")
_VALUES = re.compile(r"\s*(?:[($]*(?:-?[0-9][0-9.,/]*|[A-Z])[)$.,]*[ \t]*\n\s*){1,20}\S+\s*")
_LONGEST = 1000  # characters of a tag's body; more is an essay


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A box, a tag or a line behind hashes."""

    start: int
    end: int
    kind: Literal["box", "tag", "hashes"]
    bodies: tuple[str, ...]  # what stands in it; several for boxes that are joined
    cut: bool = False  # the text ends before the mark does
    is_last: bool = False  # nothing follows in the text

    @property
    def empty(self) -> bool:
        """Return whether the mark holds only dots or blanks."""
        if self.cut:
            return not any(body.strip() for body in self.bodies)
        return all(_EMPTY.fullmatch(body) for body in self.bodies)


def marks(text: str) -> list[Mark]:
    """Return the innermost marks of `text`, in its order."""
    boxes = list(_joined(text, _boxes(text)))
    inner = _outside(_hashes(text), boxes)
    inner = sorted([*boxes, *inner], key=lambda mark: mark.start)
    return sorted([*inner, *_outside(_tags(text), inner)], key=lambda mark: mark.start)


def _boxes(text: str) -> list[Mark]:
    closed: list[Mark] = []
    opened: list[tuple[int, int] | None] = []  # where a box and its content begin; None: no box
    for match in _BOX.finditer(text):
        mark = match.group()
        if match[1] is not None:
            closed.append(_box(text, match.start(), match.start(1), match.end()))
        elif mark == "}":
            start = opened.pop() if opened else None
            if start is not None and not (closed and closed[-1].start > start[0]):
                box = _box(text, start[0], start[1], match.start())
                closed.append(replace(box, end=match.end()))
        elif mark.endswith("{") and mark != "\\{":
            opened.append(None if mark == "{" else (match.start(), match.end()))
    last = next((start for start in reversed(opened) if start is not None), None)
    if last is not None and not (closed and closed[-1].start > last[0]):
        closed.append(_unclosed(text, last))
    return sorted(closed, key=lambda mark: mark.start)


def _box(text: str, start: int, inside: int, end: int) -> Mark:
    return Mark(start=start, end=end, kind="box", bodies=(text[inside:end],))


def _unclosed(text: str, opened: tuple[int, int]) -> Mark:
    """Return an unclosed box, which ends with its line."""
    start, inside = opened
    content = text[inside:].lstrip()
    inside = len(text) - len(content)
    end = _LINE_END.search(text, inside)
    stop = end.start() if end else len(text)
    body = _WORDS_OPEN.sub(r"\g<0>}", text[inside:stop]) if end else text[inside:stop]
    cut = end is None or body.count("{") != body.count("}")
    return Mark(start=start, end=stop, kind="box", bodies=(body,), cut=cut)


def _joined(text: str, boxes: Sequence[Mark]) -> Iterator[Mark]:
    """Yield the boxes; joined boxes become one mark."""
    run: list[Mark] = []
    for box in boxes:
        if run and not _is_joint(text[run[-1].end : box.start][: _GAP + 1]):
            yield _one_of(run)
            run = []
        run.append(box)
    if run:
        yield _one_of(run)


def _one_of(boxes: Sequence[Mark]) -> Mark:
    bodies = tuple(body for box in boxes for body in box.bodies)
    return replace(boxes[-1], start=boxes[0].start, bodies=bodies)


def _is_joint(gap: str) -> bool:
    return len(gap) <= _GAP and bool(_JOINS.search(gap)) and bool(_JOINT.fullmatch(gap))


def _hashes(text: str) -> list[Mark]:
    """Return the lines behind hashes, without numbered headings."""
    end = len(text.rstrip())
    found = (
        Mark(
            start=match.start(),
            end=match.end(),
            kind="hashes",
            bodies=(match[1].strip(),),
            is_last=match.end() >= end,
        )
        for match in _HASHES.finditer(text)
    )
    return [mark for mark in found if mark.is_last or not _HEADING.match(mark.bodies[0])]


def _tags(text: str) -> list[Mark]:
    """Return the tags; an unclosed tag ends with its line."""
    tags = list(_TAG.finditer(text))
    pairs: list[Mark] = []
    for place, opening in enumerate(tags):
        if opening[1]:
            continue
        closing = tags[place + 1] if place + 1 < len(tags) else None
        if closing is None:
            line = _unclosed(text, (opening.start(), opening.end()))
            pairs.append(replace(line, kind="tag"))
        elif closing[1]:
            body = text[opening.end() : closing.start()]
            lines = body.split() if _VALUES.fullmatch(body) else [body]
            pairs.append(
                Mark(start=opening.start(), end=closing.end(), kind="tag", bodies=tuple(lines))
            )
    return list(_joined(text, [pair for pair in pairs if len(pair.bodies[0]) <= _LONGEST]))


def _outside(outer: Sequence[Mark], inner: Sequence[Mark]) -> list[Mark]:
    """Return the marks of `outer` that contain no mark of `inner`; both are sorted."""
    left: list[Mark] = []
    place = 0
    for mark in outer:
        while place < len(inner) and inner[place].start < mark.start:
            place += 1
        if place == len(inner) or inner[place].start >= mark.end:
            left.append(mark)
    return left
