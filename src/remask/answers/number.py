r"""Read all numbers of a text, the value of a short text, and the final number of a text.

`numbers` returns all literals with their signs in canonical form. Literals of more than
`MAX_DIGITS` characters stay text, because exact arithmetic on them is not linear.

`value_of` reads one number: "18", "$1,200.50 per day", "385\,000", "x = 5", "2\frac{1}{2} hours",
"1.5 \times 10^3", "20% of 50, which is 10", "23 pounds to make 4 beds", "two thirds" (see `parts`).
It never reads a part of a value: it refuses "2:30 pm", "9 hours and 30 minutes", "2x + 3",
"4 or 5", "at least 5" and "12,34". It first removes LaTeX and Markdown (`plain`).

`find_number` returns the final number by the tiers of `search`; tier 3 is the last number.
"""

import re
import unicodedata
from collections import Counter
from fractions import Fraction
from itertools import pairwise

from remask.answers.markup import NOTHING, Extraction
from remask.answers.parts import MIXED, PART, with_part
from remask.answers.search import (
    CLAUSE,
    CONDITION,
    CONTRAST,
    SENTENCE_END,
    UNSURE,
    Candidate,
    Kind,
    Statement,
    Token,
    find_answer,
    joined,
)
from remask.settings import checked

MAX_DIGITS = 256

LITERAL = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|(?<![0-9.])\.[0-9]+)"
)
_NUMBER = re.compile(LITERAL)
_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{")


@checked
def numbers(text: str) -> Counter[str]:
    """Return the multiset of the numbers in `text` in canonical form.

    Ignores currency, percent signs and thousands separators. A fraction is two numbers. A minus is
    a sign only if it cannot be a subtraction or a hyphen.
    """
    text = _plain(text)
    spelled: Counter[str] = Counter()
    for match in _NUMBER.finditer(text):
        sign = "-" if is_negative(text, match.start()) else ""
        spelled[sign + match.group()] += 1
    canonical: Counter[str] = Counter()
    for literal, count in spelled.items():
        canonical[canonical_literal(literal)] += count
    return canonical


@checked
def number_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of the numbers of `text` without their signs."""
    return [match.span() for match in _NUMBER.finditer(text)]


def is_negative(text: str, start: int) -> bool:
    """Return whether the number at `start` has a minus sign, not an operator or a hyphen."""
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


def canonical_literal(literal: str) -> str:
    """Return a literal as an integer or a fraction in lowest terms."""
    literal = literal.replace(",", "")
    if len(literal) > MAX_DIGITS:
        return literal
    return str(Fraction(literal))


def _plain(text: str) -> str:
    if "\\" not in text and "{,}" not in text:
        return text
    text = text.replace("{,}", ",").replace(",\\!", ",").replace("\\$", "$").replace("\\%", "%")
    return _WRAPPER.sub("{", text)


_LONGEST = 400  # characters that are looked at: a value and some words
_LARGEST = 64  # of an exponent

_NOT_BUT = (
    r"\b(?:not|\w+n['’]t)\s(?:[^.,;:!?\n]|[.,:](?=[0-9])){1,30}?[,;]?\s"
    rf"{CONTRAST}\s(?:rather\s)?"
)
# LaTeX and Markdown that stand around a value and mean nothing.
_PLAIN = (
    (re.compile(r"(?<=[0-9])\*\*(?=[0-9])"), "^"),
    (re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\!|\*\*|__|`|\\[()\[\]]"), ""),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"(?<![0-9:])([0-9]{1,2}):00(?![0-9:])"), r"\1"),  # two o'clock is 2
    (re.compile(r"\\[,;: ]|~|[\u00a0\u2000-\u200a\u202f\u205f]"), "\u2009"),
    (
        re.compile(
            r"(?<![A-Za-z])(?:(?:US|CA|AU|NZ|HK|[ACS])(?=\\?\$)"
            r"|(?:Rs\.?|USD|EUR|GBP|INR) ?(?=[0-9]))"
        ),
        "",
    ),
    (re.compile(r"\\?[$€£₹¥¢]"), ""),
    (re.compile(r"(?<=[0-9])['’](?=[0-9]{3}(?![0-9]))"), ","),  # as the Swiss part thousands
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\[dtc]?frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])|[×·∗]"), "*"),
    (re.compile(r"\\div(?![A-Za-z])|÷"), "/"),
    (re.compile(r"\\(?:approx|simeq|sim)(?![A-Za-z])|[≈]"), "="),
    (
        re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|\\degree(?![A-Za-z])|°"),
        " degrees",
    ),
    (re.compile(r"\\(?:text)?color\s*\{\w{1,20}\}"), ""),
    (re.compile(r"\\(?:(?:text|math)(?:bf|it|rm)?|[mh]box|underline|bf)(?![a-z])\s*"), " "),
    (re.compile(r"\\q?quad(?![A-Za-z])"), " "),
    (re.compile("[−–](?=[\\s\u2009]?[0-9.\\\\])"), "-"),
    (re.compile(r"\^\s*\{\s*\{?\s*(st|nd|rd|th)\b\s*\}?\s*\}"), r"\1"),
    # Words that a value may stand behind unchanged.
    (re.compile(r"\b(?:total of|value of|equal to|given by)\b", re.IGNORECASE), ""),
    (re.compile(_NOT_BUT, re.IGNORECASE), " "),
)
_VULGAR = re.compile("[\u00bc-\u00be\u2150-\u215e]")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_RAISED_RUN = re.compile("(?<=[0-9])([⁰¹²³⁴⁵⁶⁷⁸⁹]+)")

_GROUPED = "[0-9]{1,3}(?:[ \u2009][0-9]{3})+(?![0-9])(?:\\.[0-9]+)?"
_NUM = rf"(?:{_GROUPED}|{LITERAL})"
_BLANK = "[ \u2009]*"
_FRAC = (
    rf"\\frac{_BLANK}(?:\{{{_BLANK}(?P<minus>-?){_BLANK}(?P<top>{_NUM}){_BLANK}\}}|(?P<top1>[0-9]))"
    rf"{_BLANK}(?:\{{{_BLANK}(?P<bottom>{_NUM}){_BLANK}\}}|(?P<bottom1>[0-9]))"
)
_EXPONENT = r"(?:\{?(?P<power>-?[0-9]{1,3})\}?)"
VALUE = re.compile(
    rf"(?P<sign>(?:[-+]{_BLANK})?)(?:"
    rf"(?:(?P<whole>{_NUM}){_BLANK})?{_FRAC}"
    rf"|(?P<mixed>[0-9]+)[ \u2009]+(?P<over>[0-9]+)/(?P<under>[0-9]+)(?![0-9])"
    rf"|(?P<lead>{_NUM}){_BLANK}[*xX]{_BLANK}10{_BLANK}\^{_BLANK}{_EXPONENT}"
    rf"|(?P<base>{_NUM})\^{_EXPONENT.replace('power', 'raised')}"
    rf"|(?P<digits>{_NUM})[eE](?P<scaled>[-+]?[0-9]{{1,3}})(?![0-9A-Za-z])"
    rf"|(?P<num>{_NUM}){_BLANK}/{_BLANK}(?P<den>{LITERAL})"
    rf"|(?P<single>{_NUM}))"
)
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "k": 3}
_SCALE = re.compile(
    rf"(?!\s*k)[\s\u2009{{-]*({'|'.join(_SCALES)})\b|((?-i:k))(?![A-Za-z0-9])", re.IGNORECASE
)

# The value continues: a clock, a second point, an operation, a variable, another number.
_GOES_ON = re.compile(
    r"\s*(?:[:^_!+*=>\\|]|<(?!/?[A-Za-z])|/(?![\s{]*[A-Za-z]{2,}))|\(-?[0-9]|[.,][0-9]"
    r"|\s*-+\s*[0-9.\\(]|\s*-\s+[A-Za-z]\b|['′″]|\s(?:squared|cubed|factorial)\b"
)
_GLUED = re.compile(
    r"(?:st|nd|rd|th|(?:[kmcd]?m|[km]?g|[mcd]?[lL]|lb|oz|ft|yd|gal|hr|min|sec|s|h)s?|mi|mph|km?/?h|m/s"
    r"|pm|am|GB|MB|kB|kWh?|kcal|cents?|degrees|deg)(?![A-Za-z0-9])"
)
_LETTER = re.compile(r"[\s\u2009{(]*([A-Za-z])(?![A-Za-z.&'’]|-[a-z]{2})")
_UNIT_LETTERS = frozenset("mgshlLWVJNKFCd")
_UNIT_POWER = re.compile(r"(?<=[A-Za-z}])\s*\^\s*\{?[0-9]\}?")
# A share or an operation: "18 of 20", "1 in 5" (but "8 in 5 days" is 8).
_OPERATION = re.compile(
    r"[\s\u2009]*(?:%|percent\b|per cent\b)?[\s\u2009]*(?:(?:of|out of|by|over|times|plus|minus"
    r"|divided by|multiplied by)\s+[^A-Za-z0-9]*(?:[0-9]|half\b)|in\s+[0-9]+[\s.]*$)",
    re.IGNORECASE,
)
_SHARE = re.compile(r"(?<=[0-9])\s*(?:\\?%|percent)\s+of\s+\S+[\s.]*$", re.IGNORECASE)
# Numbers after these words belong to something else: "7 dozen eggs in 4 weeks".
_FREE = re.compile(
    rf"\b(?:{CLAUSE}|in|among|past|across|into|against|for|per|each|every|from|with|at|on|during"
    r"|within|after|before|until|i|there|this|these|those|let|will|would)\b|[(\[]",
    re.IGNORECASE,
)
_PURPOSE = re.compile(r"\b(?:of|out|to|[a-z]+ing)\b", re.IGNORECASE)  # "8 rows of 5 stars"
_COUNTED = re.compile(r"\s[0-9]+(?:-[A-Za-z]{3,}|\s+[A-Za-z]+\s+[A-Za-z]+)")  # "240 5 dollar bills"
# Words right before a value that change it or make it a label, and signs anywhere before it.
_CHANGES = re.compile(
    r"\b(?:of|half|twice|thrice|double|triple|third|quarter|times|plus|by|or|step|part|option"
    r"|question|problem|chapter|figure|to|without|from|square root|sqrt|sum|and"
    r"|january|february|march|april|may|june|july|august|september|october|november|december)(?:\s+(?:an?|the))?\W*$"
    r"|[0-9^_!+*/\\<>|:≤≥≠±√]",
    re.IGNORECASE,
)
_EQUALS = re.compile("(?<![<>!])=")
_EQUATIONS = re.compile(r"(?<=[0-9])\s*(?:[,;]|\b(?:or|and)\b)+\s*(?=[A-Za-z](?:_\w+)?\s*=)")
_OR = re.compile(r"\bor\b", re.IGNORECASE)
_OPERAND = re.compile(r"[A-Za-z0-9)}]\s*$")
_NEGATIVE = re.compile(r"\b(?:negative|minus)\s*$", re.IGNORECASE)
_HEAD_END = re.compile(
    r",\s+(?=[A-Za-z(\\])(?!(?:and|or)\b|[A-Z]\w*:?\s+\W?[0-9])"
    r"|\s\((?!or\b|[^()]{0,40}\),?\s*(?:(?:and|or)\s+)?\W?[0-9])"
    rf"|\s(?:because|since|as|so|but|when|if|where|while)\s|{SENTENCE_END.pattern}",
    re.IGNORECASE,
)
_COMES_TO = re.compile(
    r"\b(?:which|that|this|and|it)\s+(?:is|equals|makes|gives|totals|comes to|amounts to|would be)"
    r"\s",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[A-Za-z ]{0,40}:\s*(?=\S)")  # "Total cost: $18"
_LABELLED = re.compile(r"\b(?:step|part|option|question|problem|chapter|figure)\b", re.IGNORECASE)
_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: value for value, word in enumerate(_UNITS.split())}
_WORDS |= {word: 10 * value for value, word in enumerate(_TENS.split(), 2)}
_NAMES = "|".join(_WORDS)
_ABOUT = r"(?:(?:about|around|approximately|roughly|exactly|nearly|almost|only|just)\s+)?"
_SPELLED = re.compile(rf"[\s*_{{]*{_ABOUT}({_NAMES})(?:[- ]({_NAMES}))?\b", re.IGNORECASE)
_COUNT = re.compile(rf"\b(?:{_NAMES})\b(?!\s+(?:of|that|which|who)\b)", re.IGNORECASE)
_MORE_WORDS = re.compile(
    r"\b(?:of|and|or|to|hundred|thousand|million|billion|trillion|times)\b|(?<=[a-z] )half\b",
    re.IGNORECASE,
)
_AROUND = " \t\n\u2009*_\"'"
_DIGIT = re.compile(r"[0-9\u00bc-\u00be\u2150-\u215e]")


def plain(text: str) -> str:
    """Return a text without LaTeX around values, Markdown and currency."""
    if not text.isascii():
        text = _VULGAR.sub(
            lambda m: " " + unicodedata.normalize("NFKC", m[0]).replace("⁄", "/"), text
        )
        text = _RAISED_RUN.sub(lambda m: "^" + m[1].translate(_RAISED), text)
    for pattern, sign in _PLAIN:
        text = pattern.sub(sign, text)
    return text


def speaks_of_a_number(text: str) -> bool:
    """Return whether a text contains digits or begins with a spelled number."""
    return bool(_DIGIT.search(text) or _SPELLED.match(text))


def value_of(text: str) -> str | None:
    """Return the canonical form of the only number of a short text, or None."""
    text = text.strip()
    if len(text) > _LONGEST:
        if text.isdecimal() and text.isascii():
            return canonical_literal(text)
        text = text[:_LONGEST] if _HEAD_END.search(text, 0, _LONGEST) else ""
    text = _unlabelled(plain(text).strip(_AROUND).rstrip(_AROUND + "."))
    if not _DIGIT.search(text):
        return _spelled(text)
    if CONDITION.search(text):
        return None
    equations = _EQUATIONS.split(text)
    if len(equations) > 1:
        values = set(map(value_of, equations))
        return values.pop() if len(values) == 1 else None
    end = _HEAD_END.search(text)
    head = text[: end.start() if end else None]
    value = _first(_EQUALS.split(head)[-1]) if _DIGIT.search(head) else _spelled(head)
    if value is None:
        parts = _COMES_TO.split(text[end.start() if end else 0 :])
        value = value_of(parts[-1]) if len(parts) > 1 else None
    return value


def _unlabelled(text: str) -> str:
    """Return a text without a label such as "Total:"; "Step 2:" stays."""
    label = _LABEL.match(text)
    return text if label is None or _LABELLED.search(label.group()) else text[label.end() :]


def _spelled(text: str) -> str | None:
    """Return the value of "twelve", "negative five" or "three hundred"; None for other words."""
    sign = re.match(r"[\s*_{]*(?:negative|minus)\s+", text, re.IGNORECASE)
    match = _SPELLED.match(text, sign.end() if sign else 0)
    if match is None:
        return None
    first, second = _WORDS[match[1].lower()], _WORDS.get((match[2] or "zero").lower(), 0)
    if match[2] and not (first >= 20 and 0 < second < 10):
        return None
    if match[1].lower() == "one" and re.match(r"\s+(?:that|which|who|of)\b", text[match.end() :]):
        return None  # a pronoun
    scale = _SCALE.match(text, match.end())
    rest = _FREE.split(text[scale.end() if scale else match.end() :], maxsplit=1)[0]
    if _SPELLED.match(rest) or _MORE_WORDS.search(rest):
        return None
    value = (first + second) * (10 ** _power_of(scale) if scale else 1)
    return _with_part(str(-value if sign else value), rest, spelled=True)


def _first(text: str) -> str | None:
    """Return the first value of a phrase; None if it is changed, continues or is a list."""
    match = VALUE.search(text)
    if match is None:
        return None
    before = text[: match.start()]
    negative = _NEGATIVE.search(before)
    before = before[: negative.start()] if negative else before
    if match["sign"] and _OPERAND.search(before) and match["sign"] != "-":
        return None  # "L - 8"
    if _CHANGES.search(before) or (match.start() and text[match.start() - 1].isalnum()):
        return None
    value = scaled(text, match, negative=negative is not None)
    if value is None:
        return None
    first = Token(match.start(), _scaled_end(text, match), value)
    run = joined(text, [first, *_others(text, first.end)])
    same = len({token.key for token in run}) == 1 and run[0].key == value
    if not same or not all(_OR.search(text[a.end : b.start]) for a, b in pairwise(run)):
        return None
    end = run[-1].end
    if not _ends_at(text, end, alone=not re.search("[A-Za-z]", before)):
        return None
    return _with_part(value, text[end:])


def _others(text: str, start: int) -> list[Token]:
    found = [
        Token(match.start(), _scaled_end(text, match), scaled(text, match, negative=False) or "")
        for match in VALUE.finditer(text, start)
    ]
    words = (
        Token(*word.span(), _spelled(word.group()) or "") for word in _COUNT.finditer(text, start)
    )
    return sorted([*found, *words])


def _scaled_end(text: str, match: re.Match[str]) -> int:
    scale = _SCALE.match(text, match.end())
    return scale.end() if scale else match.end()


def _power_of(scale: re.Match[str]) -> int:
    return _SCALES[(scale[1] or scale[2]).lower()]


def scaled(text: str, match: re.Match[str], *, negative: bool) -> str | None:
    """Return the canonical form of a match of `VALUE` in a text, with the "million" after it."""
    value, scale = _canonical(match, negative=negative), _SCALE.match(text, match.end())
    if value is None or scale is None:
        return value
    return None if len(value) > MAX_DIGITS else str(Fraction(value) * 10 ** _power_of(scale))


def _ends_at(text: str, end: int, *, alone: bool) -> bool:
    """Return whether the value that ends at `end` is whole: a unit, words or nothing follows.

    If no words precede the value (`alone`), later numbers may belong to something else.
    """
    rest = _UNIT_POWER.sub("", text[end : end + _LONGEST].partition("\n")[0])
    if _GOES_ON.match(rest) or _OPERATION.match(rest) or MIXED.match(rest):
        return False
    if rest[:1].isalpha() and not _GLUED.match(rest):
        return False
    letter = _LETTER.match(rest)
    if letter and letter[1] not in _UNIT_LETTERS and letter[1] not in "aA":
        return False
    phrase = _PURPOSE.split(_phrase(rest), maxsplit=1)[0]
    if alone:
        phrase = _COUNTED.sub("", phrase, count=1) if _COUNTED.match(phrase) else phrase
    return not re.search(r"[0-9=\\^<>+]|[A-Za-z]\s*[*/]\s*[0-9]", phrase)


def _phrase(text: str) -> str:
    """Return the words after a value that may belong to it."""
    return _FREE.split(_HEAD_END.split(text, maxsplit=1)[0], maxsplit=1)[0]


def _with_part(value: str, rest: str, *, spelled: bool = False) -> str | None:
    """Return a value multiplied by the part after it, if any: "two thirds"."""
    part = PART.match(_phrase(rest))
    return with_part(value, part, spelled=spelled) if part else value


def _canonical(match: re.Match[str], *, negative: bool) -> str | None:
    if match["single"] and match.end() - match.start() > MAX_DIGITS:
        sign = "-" if (match["sign"].startswith("-")) != negative else ""
        return sign + match["single"].replace(",", "")
    if match.end() - match.start() > MAX_DIGITS:
        return None
    value = _magnitude(match)
    if value is None:
        return None
    minus = (match["sign"].startswith("-")) != (match["minus"] == "-")
    return str(-value if minus != negative else value)


def _magnitude(match: re.Match[str]) -> Fraction | None:
    if match["single"]:
        return _fraction(match["single"])
    if match["top"] or match["top1"]:
        part = _ratio(match["top"] or match["top1"], match["bottom"] or match["bottom1"])
        whole = _fraction(match["whole"]) if match["whole"] else Fraction(0)
        return None if part is None else whole + part
    if match["mixed"]:
        part = _ratio(match["over"], match["under"])
        return None if part is None else _fraction(match["mixed"]) + part
    if match["num"]:
        return _ratio(match["num"], match["den"])
    if match["base"]:
        return _power(_fraction(match["base"]), int(match["raised"]))
    lead, power = match["lead"] or match["digits"], int(match["power"] or match["scaled"])
    scale = _power(Fraction(10), power)
    return None if scale is None else _fraction(lead) * scale


def _fraction(literal: str) -> Fraction:
    return Fraction(re.sub("[, \u2009]", "", literal))


def _ratio(over: str, under: str) -> Fraction | None:
    bottom = _fraction(under)
    return _fraction(over) / bottom if bottom else None


def _power(base: Fraction, exponent: int) -> Fraction | None:
    """Return a power; None if it is undefined or too large."""
    if abs(exponent) > _LARGEST or base.denominator > 10**9 or abs(base) > 10**9:
        return None
    return None if base == 0 and exponent < 0 else base**exponent


_ARABIC = re.compile("[0-9]")
_SURFACE = re.compile(
    r"(?:(?<=[a-z][a-z])|(?<=[\s{0-9]m))[\s}]*\^\s*\{?[23]\}?(?![0-9])"
)  # the power of "cm^2"
_FACTORIAL = re.compile(r"[0-9]\s*!\s*$")  # in a sentence it is a sign of joy
_HEAD = 80  # characters of a line in which its value begins
# What the last number may be a part of: a clock, a version, a power, a formula.
_BEFORE = re.compile(r"(?:[\^_:\\√]|[0-9][.,(]|[A-Za-z}]\{)$")
_AFTER = re.compile(r":[0-9]|[.,][0-9]|[ \t]*(?:[\^!√π]|\\(?:sqrt|pi|theta)(?![a-z]))")
_BEGINS = re.compile(
    r"[\s*_$€£({`~≈+\-−–]*(?:\\[A-Za-z$(\[,! ]+[\s{]*)*[\s$*-]*(?:[0-9.]|[A-Za-z]\s*=)"
)


@checked
def canonical_number(text: str) -> str | None:
    """Return the canonical form of a text that is one number in digits, or None.

    Currency, a percent sign and a unit are allowed.
    """
    return value_of(text) if _ARABIC.search(text) else None


class _NumberKind(Kind):
    def speaks(self, candidate: Candidate) -> bool:
        if isinstance(candidate, Statement):
            return speaks_of_a_number(candidate.said)
        body = candidate.bodies[0][:_HEAD]
        if candidate.kind != "hashes":
            return True
        if candidate.is_last:
            return speaks_of_a_number(body)
        return bool(_BEGINS.match(body))

    def read(self, candidate: Candidate) -> str | None:
        if isinstance(candidate, Statement):
            return value_of(candidate.said)
        if candidate.kind == "hashes":
            return value_of(_SHARE.sub("", candidate.bodies[0]))
        if candidate.kind == "box" and any(map(_FACTORIAL.search, candidate.bodies)):
            return None
        values = {value_of(body) for body in candidate.bodies if body.strip()}
        return values.pop() if len(values) == 1 else None

    def last(self, text: str, *, after_mark: bool) -> Extraction:
        return _last_number(text)


@checked
def extract_number(text: str) -> str | None:
    """Return the final number of `text` in canonical form, or None."""
    return find_number(text).answer


@checked
def find_number(text: str) -> Extraction:
    """Return the final number of `text` and its tier."""
    return find_answer(text, _NumberKind())


def _last_number(text: str) -> Extraction:
    """Return the last number of a text, unless it is part of a clock, a power or a formula."""
    text = _SURFACE.sub("", plain(text))
    before, last = None, None
    for match in VALUE.finditer(text):
        before, last = last, match
    if last is None:
        return NOTHING
    digits = last.start() + len(last["sign"])
    operation = bool(last["sign"]) and not is_negative(text, digits)  # "7 - 3", "7+3"
    start = digits if operation else last.start()
    part = _BEFORE.search(text[max(0, start - 2) : start]) or _AFTER.match(text, last.end())
    part = part or MIXED.match(text, last.end())
    if re.search(r"[0-9]-$", text[max(0, digits - 2) : digits]) and _is_range(before, last):
        return NOTHING
    part = part or UNSURE.search(text[max(0, start - _HEAD) : start])
    negative = operation and last["sign"].startswith("-")  # undo the sign
    answer = None if part else scaled(text, last, negative=negative)
    answer = answer and _with_part(answer, text[last.end() : last.end() + _LONGEST])
    return Extraction(answer=answer, tier=3, matched=last.group()) if answer else NOTHING


def _is_range(one: re.Match[str] | None, other: re.Match[str]) -> bool:
    """Return whether the values go up, as in "3-5"; "16-3" is a subtraction."""
    if one is None or len(one.group() + other.group()) > MAX_DIGITS:
        return False
    low, high = _magnitude(one), _magnitude(other)
    return low is not None and high is not None and low < high
