r"""Answers in LaTeX, brought to one spelling.

`normalise` takes away what does not change the value: spacing, `\left`, `\dfrac`, units, currency,
thousands separators, `x =` before the value, the order in a set. It is spelling and not algebra:
equal results mean equivalent answers, different ones mean nothing yet (`equivalence`). No text
makes a function here raise or take more than about linear time.
"""

import re
from fractions import Fraction

from remask.answers import MAX_DIGITS

MAX_ANSWER = 1000  # characters; a longer answer is compared letter by letter
_DEPTH = 4  # of brackets that are looked into

_WRAPPER = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|hbox|rm|bf)\s*"
_WORDS = re.compile(rf"(?:{_WRAPPER}\{{([^{{}}]*)\}}|[\s$.])+")
WRAPPED = re.compile(rf"{_WRAPPER}\{{([^{{}}]*)\}}")
_UNIT = re.compile(rf"(?<=[\w}})\]])\s*{_WRAPPER}\{{[^{{}}]*\}}\s*(?:\^\s*\{{?[0-9]\}}?)?[\s.]*$")
_PLAIN_UNIT = re.compile(
    r"^(-?[0-9][0-9.,/]*)\s+(?!(?:pi|and|or|sqrt|sin|cos|tan|cot|log|ln|exp|mod)\b)"
    r"[A-Za-z]{2,}(?:\s+[A-Za-z]+){0,3}(?:\^\{?[0-9]\}?)?$"
)
_REPLACED = (
    (re.compile(r"\\(?:left|right|displaystyle|bigg?[lr]?|Bigg?[lr]?)(?![A-Za-z])\.?"), ""),
    (re.compile(r"(?<!\\)\\[,;:!> ]|~|\\q?quad(?![A-Za-z])|\\\$|\\%|[$%€£]|\u00b0"), " "),
    (re.compile(r"\^\s*(?:\{\s*\\(?:circ|degree)\s*\}|\\(?:circ|degree)(?![A-Za-z]))"), ""),
    (re.compile(r"\\degree(?![A-Za-z])"), ""),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\\\\[[0-9.]+(?:pt|em|ex|mm|cm)\]"), r"\\\\"),  # the space after a row
    (re.compile(r"\\frac\s*\\pi\s*([0-9])"), r"\\frac{\\pi}{\1}"),
    (re.compile(r"\u221a\s*([0-9a-z]|\{[^{}]*\})|(?<![\\A-Za-z])sqrt(\{[^{}]*\})"), r"\\sqrt \1\2"),
    (re.compile(r"^\(([0-9A-F]+)\)\s*_"), r"\1_"),
    (re.compile(r"^(-?[0-9]+)\s+([0-9]+)/([0-9]+)$"), r"\1\\frac{\2}{\3}"),
    (re.compile(r"\\le(?:q|qslant)?(?![A-Za-z])|\u2264|<="), r"\\le "),
    (re.compile(r"\\ge(?:q|qslant)?(?![A-Za-z])|\u2265|>="), r"\\ge "),
    (re.compile(r"\\neq?(?![A-Za-z])|\u2260|!="), r"\\ne "),
    (re.compile(r"\\lbrace(?![A-Za-z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![A-Za-z])"), r"\\}"),
    (re.compile(r"\\frac\s*([0-9a-z])"), r"\\frac{\1}"),
    (re.compile(r"(\\frac\s*\{[^{}]*\})\s*([0-9a-z])"), r"\1{\2}"),
    (re.compile(r"\\sqrt\s*([0-9a-z])"), r"\\sqrt{\1}"),
    (re.compile(r"([_^])\s*\{\s*(\w|[0-9]{2,3})\s*\}"), r"\1\2"),
    (re.compile("\u2212"), "-"),
    (re.compile("\u03c0"), r"\\pi "),
    (re.compile(r"(?<=[0-9)}]),?\s+(?:and|or)\s+"), ", "),
    (re.compile(r",\s+"), ";"),  # a list, where "," alone may part thousands
)
_NAMED = re.compile(r"^[A-Za-z](?:_\w)?(?:\([a-z]\))?(?:=|\\in(?![a-z]))([^=<>]+)$")
_NUMBER = re.compile(r"(-?)(?:([0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:/([0-9]+))?")
_DECIMAL = re.compile(r"-?[0-9]*\.([0-9]+)")
_FRACTION = re.compile(r"(-?)([0-9]*)\\frac\{(-?[0-9]+)\}\{(-?[0-9]+)\}")
_THOUSANDS = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_CLOSINGS = {"(": ")]", "[": ")]", "\\{": ("\\}",)}


def words(text: str) -> str | None:
    r"""Return the words of an answer that is text alone, such as `\text{(C)}`; None for others."""
    if len(text) > MAX_ANSWER or "{" not in text or not _WORDS.fullmatch(text):
        return None
    said = bare(" ".join(WRAPPED.findall(text)))
    return None if said[:1].isdigit() or said[:1] in ("-", "") else said  # a number in bold


def bare(text: str) -> str:
    """Return words in small letters, without the brackets and marks around them."""
    return " ".join(WRAPPED.sub(r" \1 ", text[:MAX_ANSWER]).strip(" ().$\\{}\n").lower().split())


def normalise(text: str) -> str:
    """Return the answer in one spelling; equal results mean equivalent answers."""
    if len(text) > MAX_ANSWER:
        return text.strip()
    said = words(text)
    return said if said is not None else _canonical(_value(text), _DEPTH)


def _value(text: str) -> str:
    """Return the answer without blanks, units and the name of its variable."""
    text = re.sub(r",\s*\\!\s*|\{,\}", ",", text)
    text = _UNIT.sub("", text.strip().strip("$").strip())
    text = WRAPPED.sub(_joined, text)
    for pattern, plain in _REPLACED:
        text = pattern.sub(plain, text)
    text = text.strip().rstrip(".").strip()
    unit = _PLAIN_UNIT.match(text)
    text = re.sub(r"\s+", "", unit[1] if unit else text)
    named = _NAMED.match(text)
    text = named[1] if named else text
    braced = re.fullmatch(r"\{([^{}]*)\}", text)
    return braced[1] if braced else text


def decimal_of(text: str) -> tuple[Fraction, Fraction] | None:
    """Return the value of a decimal with a point, and one unit of its last digit."""
    match = _DECIMAL.fullmatch(_value(text)) if len(text) <= MAX_ANSWER else None
    if match is None or len(match.group()) > MAX_DIGITS:
        return None
    return Fraction(match.group()), Fraction(1, 10 ** len(match[1]))


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


def brackets(text: str) -> tuple[str, str] | None:
    """Return the brackets around a normalised list of several items; None where there are none."""
    for opening, closings in _CLOSINGS.items():
        closing = next((c for c in closings if text.endswith(c)), None)
        if text.startswith(opening) and closing is not None:
            parts = _items(text[len(opening) : -len(closing)])
            whole = len(parts) > 1 and not any(_balance(part) for part in parts)
            return (opening, closing) if whole else None
    return None


def _items(text: str) -> list[str]:
    parts = _split(text, ";")
    return parts if len(parts) > 1 else _split(text, ",")


def _balance(text: str) -> bool:
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
