r"""Answers in LaTeX: found in a text, and brought to one spelling.

`find_expression` reads the final answer by the paper's tiers, as `remask.answers` reads numbers:
last `\boxed{}` with its braces matched, then a statement, then the last formula or number.
`normalise` takes away what does not change the value: spacing, `\left`, `\dfrac`, units, currency,
thousands separators, `x =` before the value, the order in a set. It is spelling and not algebra:
equal results mean equivalent answers, different ones mean nothing yet (`equivalence`). No text
makes a function here raise or take more than about linear time.
"""

import re
from collections.abc import Iterator
from fractions import Fraction

from remask.answers import MAX_DIGITS, Extraction, find_number

MAX_ANSWER = 1000  # characters; a longer answer is compared letter by letter
_WINDOW = 400  # characters after a cue in which its answer must stand
_DEPTH = 4  # of brackets that are looked into

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{|\\boxed\s+([^\s${}]{1,40})|\\.|[{}]", re.DOTALL)
_TAGGED = re.compile(r"<answer>(.{0,1000}?)</answer>", re.DOTALL | re.IGNORECASE)
_CUE = re.compile(r"\banswer[\s*_]{0,4}(?:is|are|:|=)[\s:*_]{0,4}", re.IGNORECASE)
_FORMULA = re.compile(
    r"(?<!\\)\$\$?([^$]{1,400})\$|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.DOTALL
)
_PROSE = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{4,}(?![A-Za-z}])")
_SENTENCE_END = re.compile(r"[.!?;](?=\s|$)|\n")

_WRAPPER = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|hbox|rm|bf)\s*"
_WORDS = re.compile(rf"(?:{_WRAPPER}\{{([^{{}}]*)\}}|[\s$.])+")
_WRAPPED = re.compile(rf"{_WRAPPER}\{{([^{{}}]*)\}}")
_UNIT = re.compile(rf"(?<=[\w}})\]])\s*{_WRAPPER}\{{[^{{}}]*\}}\s*(?:\^\s*\{{?[0-9]\}}?)?[\s.]*$")
_PLAIN_UNIT = re.compile(
    r"^(-?[0-9][0-9.,/]*)\s+(?!(?:pi|and|or|sqrt|sin|cos|tan|cot|log|ln|exp|mod)\b)"
    r"[A-Za-z]{2,}(?:\s+[A-Za-z]+){0,3}(?:\^\{?[0-9]\}?)?$"
)
_REPLACED = (
    (re.compile(r"\\(?:left|right|displaystyle|bigg?[lr]?|Bigg?[lr]?)(?![A-Za-z])\.?"), ""),
    (re.compile(r"(?<!\\)\\[,;:!> ]|~|\\q?quad(?![A-Za-z])|\\\$|\\%|[$%€£]|\u00b0"), " "),
    (re.compile(r"\^\s*\{?\s*\\(?:circ|degree)\s*\}?|\\degree(?![A-Za-z])"), ""),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\leq?(?![A-Za-z])|\u2264"), r"\\le "),
    (re.compile(r"\\geq?(?![A-Za-z])|\u2265"), r"\\ge "),
    (re.compile(r"\\lbrace(?![A-Za-z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![A-Za-z])"), r"\\}"),
    (re.compile(r"\\frac\s*([0-9a-z])"), r"\\frac{\1}"),
    (re.compile(r"(\\frac\s*\{[^{}]*\})\s*([0-9a-z])"), r"\1{\2}"),
    (re.compile(r"\\sqrt\s*([0-9a-z])"), r"\\sqrt{\1}"),
    (re.compile(r"([_^])\s*\{\s*(\w|[0-9]{2,3})\s*\}"), r"\1\2"),
    (re.compile("\u2212"), "-"),
    (re.compile("\u03c0"), r"\\pi "),
    (re.compile(r",\s+"), ";"),  # a list, where "," alone may part thousands
)
_NAMED = re.compile(r"^[A-Za-z](?:_\w)?(?:\([a-z]\))?(?:=|\\in(?![a-z]))([^=<>]+)$")
_NUMBER = re.compile(r"(-?)(?:([0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:/([0-9]+))?")
_FRACTION = re.compile(r"(-?)([0-9]*)\\frac\{(-?[0-9]+)\}\{(-?[0-9]+)\}")
_THOUSANDS = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_CLOSINGS = {"(": ")]", "[": ")]", "\\{": ("\\}",)}


def boxes(text: str) -> list[str]:
    r"""Return what stands in each whole `\boxed{}` of `text`, in the order they close."""
    found: list[str] = []
    opened: list[int | None] = []  # where the content of an open brace begins; None: no box
    for match in _BOX.finditer(text):
        mark = match.group()
        if match[1] is not None:
            found.append(match[1])
        elif mark == "}":
            start = opened.pop() if opened else None
            if start is not None:
                found.append(text[start : match.start()])
        elif mark.endswith("{") and mark != "\\{":
            opened.append(None if mark == "{" else match.end())
    return found


def find_expression(text: str) -> Extraction:
    r"""Return the final answer of `text` as it is written there, and its tier.

    Tier 1: the last `\boxed{}` or `<answer>`, or `####`. Tier 2: "the answer is ...". Tier 3: the
    last formula between dollars, else the last number.
    """
    marked = [body for body in (*boxes(text), *_TAGGED.findall(text)) if body.strip()]
    if marked:
        return Extraction(answer=marked[-1].strip(), tier=1, matched=marked[-1])
    number = find_number(text)
    if number.tier == 1:
        return number
    for cue in reversed(list(_CUE.finditer(text))):
        stated = _stated(text[cue.end() : cue.end() + _WINDOW])
        if number.tier == 2 and _PROSE.search(stated):
            return number
        if stated:
            return Extraction(answer=stated, tier=2, matched=cue.group() + stated)
    formulas = [body for match in _FORMULA.finditer(text) for body in _bodies(match)]
    if formulas:
        return Extraction(answer=formulas[-1], tier=3, matched=formulas[-1])
    return number


def _stated(window: str) -> str:
    """Return the first formula of a statement, or the statement where it holds none."""
    formula = _FORMULA.search(window)
    end = _SENTENCE_END.search(window)
    if formula is not None and (end is None or formula.start() < end.start()):
        return next(_bodies(formula), "")
    return window[: end.start() if end else None].strip()


def _bodies(match: re.Match[str]) -> Iterator[str]:
    return (group.strip() for group in match.groups() if group and group.strip())


def words(text: str) -> str | None:
    r"""Return the words of an answer that is text alone, such as `\text{(C)}`; None for others."""
    if len(text) > MAX_ANSWER or "{" not in text or not _WORDS.fullmatch(text):
        return None
    return bare(" ".join(_WRAPPED.findall(text)))


def bare(text: str) -> str:
    """Return words in small letters, without the brackets and marks around them."""
    return " ".join(_WRAPPED.sub(r" \1 ", text[:MAX_ANSWER]).strip(" ().$\\{}\n").lower().split())


def normalise(text: str) -> str:
    """Return the answer in one spelling; equal results mean equivalent answers."""
    if len(text) > MAX_ANSWER:
        return text.strip()
    said = words(text)
    if said is not None:
        return said
    text = re.sub(r",\s*\\!\s*|\{,\}", ",", text)
    text = _UNIT.sub("", text.strip().strip("$").strip())
    text = _WRAPPED.sub(_joined, text)
    for pattern, plain in _REPLACED:
        text = pattern.sub(plain, text)
    text = text.strip().rstrip(".").strip()
    unit = _PLAIN_UNIT.match(text)
    text = re.sub(r"\s+", "", unit[1] if unit else text)
    named = _NAMED.match(text)
    return _canonical(named[1] if named else text, _DEPTH)


def _joined(match: re.Match[str]) -> str:
    """Return the content of a wrapper inside a formula; "and" and "or" part the items of a list."""
    content = match[1].strip()
    return "," if content in ("and", "or", ", and", ", or", ",") else f" {content} "


def number_of(text: str) -> Fraction | None:
    r"""Return the value of a plain number: `-3`, `1,000`, `.5`, `3/4`, `\frac{3}{4}`, mixed."""
    if len(text) > MAX_DIGITS:
        return None
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    match = _NUMBER.fullmatch(text)
    if match is not None:
        sign, value, under = match.groups()
        if under is None or int(under):
            return (-1 if sign else 1) * Fraction(value) / Fraction(under or 1)
    match = _FRACTION.fullmatch(text)
    if match is None or int(match[4]) == 0:
        return None
    part = Fraction(int(match[3]), int(match[4]))
    return (-1 if match[1] else 1) * (int(match[2] or 0) + part)


def _canonical(text: str, depth: int) -> str:
    """Return a formula without spaces: numbers by value, brackets looked into, sets sorted."""
    value = number_of(text)
    if value is not None:
        return str(value)
    if depth == 0:
        return text
    unions = _split(text, "\\cup")
    if len(unions) > 1:
        return "\\cup".join(sorted(_canonical(part, depth - 1) for part in unions))
    for opening, closings in _CLOSINGS.items():
        if text.startswith(opening) and text.endswith(tuple(closings)):
            return _bracketed(text, opening, depth)
    parts = _items(text)
    if len(parts) > 1:
        return ",".join(sorted(_canonical(part, depth - 1) for part in parts))
    return text


def _bracketed(text: str, opening: str, depth: int) -> str:
    """Return a pair, an interval or a set with canonical parts; the text where it is none."""
    size = len(opening)
    parts = _items(text[size:-size])
    if any(_balance(part) for part in parts):  # "(a)(b)": the first bracket ends before the last
        return text
    if len(parts) == 1 and opening == "(" and re.fullmatch(r"[A-Za-z]", parts[0]):
        return parts[0].lower()  # an option, as in (C)
    inner = [_canonical(part, depth - 1) for part in parts]
    if opening == "\\{":
        inner.sort()
    return opening + ",".join(inner) + text[-size:]


def _items(text: str) -> list[str]:
    """Return the items of a list: "1,000;2" has two, and so has "1,2"."""
    parts = _split(text, ";")
    return parts if len(parts) > 1 else _split(text, ",")


def _balance(text: str) -> bool:
    """Say whether a bracket closes in `text` that was not opened there, or stays open."""
    depth = 0
    for mark in text:
        depth += (mark in "([{") - (mark in ")]}")
        if depth < 0:
            return True
    return depth != 0


def _split(text: str, separator: str) -> list[str]:
    """Return the parts of `text` between separators that stand in no bracket."""
    parts, start, depth, place = [], 0, 0, 0
    while place < len(text):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth == 0 and text.startswith(separator, place):
            parts.append(text[start:place])
            place += len(separator)
            start = place
        else:
            place += 1
    return [*parts, text[start:]]
