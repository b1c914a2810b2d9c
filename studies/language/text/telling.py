"""A story told: words and numbers drawn, sentences filled in, a question and its solution.

Everything is a draw of one generator. The solution's arithmetic is written from the same numbers
as the story, and its value must be the number that was drawn.
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from studies.language.text.cast import (
    BOYS,
    CATEGORIES,
    GIRLS,
    PAST,
    PLACES,
    VERBS,
    Person,
    people,
    plural,
    with_article,
    words_of_category,
)
from studies.language.text.expression import evaluate, is_whole, number
from studies.language.text.story import TOKEN, StoryAsk, StoryFrame, StoryLine

SIZES = ((0.52, 2, 20), (0.34, 5, 99), (0.125, 100, 999), (0.015, 1000, 9999))
_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
SPELLED = _WORDS.split()
TRIES = 400
LEAST = 2
SHARE_SPELLED, SHARE_EXTRA, SHARE_IF, SHARE_LOOSE = 0.07, 0.55, 0.25, 0.35
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_VARIABLE = re.compile(r"[a-z]\w*")
_HE = re.compile(r"\{[Hh]e\}")
_AGREEING = {"are": ("is", "are"), "were": ("was", "were"), "have": ("has", "have")}
_UNCOUNTED = frozenset(("more", "fewer", "less", "new"))
_ONE = re.compile(r"\b([Tt]here )(are|were)(?= (?:\S*=)?(?:1|one)\b(?! of))")
_PRONOUNS = ("he", "his", "him", "himself")
# A sentence that begins so does not stand behind "If".
_NO_CONDITION = re.compile(
    r"(?:Then|Now|Later|After|When|During|On|At|In|By|Of|From|This|That|So|If|Today|Yesterday|"
    r"Before|While|Every|Last|Next|For|Together|As|To|With|Out|Since|Some|Altogether|Over|"
    r"The rest)\b"
)
_PROPER = frozenset((*GIRLS, *BOYS, *CATEGORIES["day"], *CATEGORIES["town"], *CATEGORIES["school"]))


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The words and numbers of one telling."""

    cast: Mapping[str, Person]
    words: Mapping[str, str]  # nouns in the singular, verbs as after "did"
    nouns: frozenset[str]  # the places whose words have a plural
    verbs: frozenset[str]
    values: Mapping[str, int]
    money: int  # 0: "$5", 1: "5 dollars", 2: "$ 5"
    spelled: bool


@dataclass(frozen=True, kw_only=True)
class ToldProblem:
    """A problem with its solution."""

    text: str
    solution: str
    answer: str
    wording: str  # which question of which story


def tell(frame: StoryFrame, rng: random.Random, count: int) -> Iterator[ToldProblem]:
    """Yield up to `count` problems about one draw of a story, each with another question."""
    draw = draw_story(frame, rng)
    for place in rng.sample(range(len(frame.asks)), min(count, len(frame.asks))):
        problem = pose(frame, frame.asks[place], draw, rng)
        if problem is not None:
            yield problem


def draw_story(frame: StoryFrame, rng: random.Random) -> Draw:
    """Return words and numbers that keep what the story requires."""
    words = _draw_words(frame, rng)
    return Draw(
        cast=dict(zip("ABCD", people(rng, 4), strict=True)),
        words=words,
        nouns=frozenset(key for key, category in frame.words.items() if category not in PLACES),
        verbs=frozenset(key for key, category in frame.words.items() if category in VERBS),
        values=_draw_numbers(frame, rng),
        money=rng.choices((0, 1, 2), (6, 3, 1))[0],
        spelled=rng.random() < SHARE_SPELLED,
    )


def pose(frame: StoryFrame, ask: StoryAsk, draw: Draw, rng: random.Random) -> ToldProblem | None:
    """Return one question about a draw; None where its numbers do not make sense for it."""
    values: dict[str, int] = dict(draw.values)
    written: dict[str, str] = {}
    for name, formula in ask.steps:
        value = evaluate(formula, values)
        if not is_whole(value) or value < 1 or values.get(name, value) != value:
            return None
        written[name] = f"{filled(formula, values)}={number(value)}"
        values[name] = int(value)
    teller = Teller(draw, values, rng)
    told = _told(frame, ask.secret, rng)
    texts = [teller.fill(text) for text in named(line.text for line in told)]
    asked_text = teller.fill(ask.text)
    conditional = bool(told) and not told[-1].is_extra
    said = [
        teller.fill(text, {name: written[name]})
        for (name, _), text in zip(ask.steps, ask.said, strict=True)
    ]
    answer = str(values[ask.target])
    return ToldProblem(
        text=joined(texts, asked_text, rng, conditional=conditional),
        solution="\n".join([*said, f"#### {answer}"]),
        answer=answer,
        wording=f"{frame.name}/{ask.text}",
    )


def filled(formula: str, values: Mapping[str, Fraction | int]) -> str:
    """Return a formula with the numbers in place of their names."""
    return _VARIABLE.sub(lambda match: number(values[match.group()]), formula)


class Teller:
    """Fills sentences with the words and numbers of a draw."""

    def __init__(self, draw: Draw, values: Mapping[str, int], rng: random.Random) -> None:
        self.draw = draw
        self.values = values
        self.rng = rng

    def fill(self, text: str, written: Mapping[str, str] | None = None) -> str:
        """Return a sentence; numbers of `written` stand there with how they were worked out."""
        while _CHOICE.search(text):
            text = _CHOICE.sub(lambda match: self.rng.choice(match[1].split("|")), text)
        text = TOKEN.sub(lambda match: self._token(match[1].split(), written or {}), text)
        text = re.sub(r"\s+(?=[.,?!;]|$)", "", re.sub(r"\s+", " ", text)).strip()
        text = _ONE.sub(lambda match: match[1] + _AGREEING[match[2]][0], text)
        return re.sub(r"(?:^|(?<=[.?!] ))[a-z]", lambda match: match.group().upper(), text)

    def _token(self, parts: list[str], written: Mapping[str, str]) -> str:
        head = parts[0]
        if head.removeprefix("$") in self.values:
            return self._quantity(head, parts[1:], written)
        if head in _AGREEING:
            return _AGREEING[head][self.values[parts[1]] != 1]
        if head == "an":
            return with_article(self._word(f"{parts[-1]}:1"))
        person = self.draw.cast.get(head.removesuffix("'s"))
        if person is not None:
            return person.name + ("'s" if head.endswith("'s") else "")
        lower = head[0].lower() + head[1:]
        whose = self.draw.cast.get(lower[-1], self.draw.cast["A"])
        lower = lower.rstrip("ABCD")
        if lower in _PRONOUNS:
            return whose.pronoun(lower)
        return self._word(head)

    def _quantity(self, head: str, rest: list[str], written: Mapping[str, str]) -> str:
        """Return a number with its noun: "5 more apples", "12-7=5 apples", "$5"."""
        name = head.removeprefix("$")
        value = self.values[name]
        digits = written.get(name, str(value))
        if head.startswith("$"):
            return self._money(name, value, digits, written)
        spells = self.draw.spelled and name not in written and value < len(SPELLED)
        digits = SPELLED[value] if spells else digits
        if not rest:
            return digits
        *middle, noun = rest
        middle = [self.draw.words.get(word, word) for word in middle]
        if noun in self.draw.words:
            word = self._word(noun + (":1" if value == 1 else ""))
        else:
            word = noun if value == 1 or noun in _UNCOUNTED else plural(noun)
        return " ".join([digits, *middle, word])

    def _money(self, name: str, value: int, digits: str, written: Mapping[str, str]) -> str:
        if self.draw.money == 1:
            return f"{digits} dollar" + "s" * (value != 1)
        if name in written:
            return digits.replace("=", "=$")
        return f"$ {digits}" if self.draw.money == 2 else f"${digits}"

    def _word(self, key: str) -> str:
        """Return the word of a place: plural or past, unless ":1" asks for the other form."""
        name, _, one = key.partition(":")
        word = self.draw.words[name]
        if name in self.draw.verbs:
            return word if one else PAST[word]
        return word if one or name not in self.draw.nouns else plural(word)


def joined(told: list[str], asked_text: str, rng: random.Random, *, conditional: bool) -> str:
    """Return the sentences with the question, now and then as "If ..., how many ...?"."""
    *before, last = told if told else [""]
    simple = last.count(".") == 1 and last.endswith(".") and not _NO_CONDITION.match(last)
    simple = simple and conditional
    if before and simple and rng.random() < SHARE_IF and re.match(r"(?:How|What)\b", asked_text):
        first = re.split(r"['\s,]", last, maxsplit=1)[0]
        condition = "If " + (last if first in _PROPER else last[0].lower() + last[1:])
        if rng.random() < SHARE_LOOSE:  # as many people write it
            return " ".join([*before, condition.removesuffix("."), asked_text])
        lowered = asked_text[0].lower() + asked_text[1:]
        return " ".join([*before, f"{condition.removesuffix('.')}, {lowered}"])
    return " ".join(part for part in [*told, asked_text] if part)


def named(texts: Iterable[str]) -> Iterator[str]:
    """Yield sentences; after one about somebody else, {A} is called by name and not "he"."""
    another = False
    for text in texts:
        yield _HE.sub("{A}", text, count=1) if another else text
        another = "{B}" in text or "{C}" in text


def _told(frame: StoryFrame, hidden: frozenset[str], rng: random.Random) -> list[StoryLine]:
    """Return the sentences of a story as they may be told for a question."""
    chosen = [line for line in frame.lines if not line.is_extra or rng.random() < SHARE_EXTRA]
    lines = (line.without(hidden) for line in chosen)
    return [line for line in lines if line.text]


def _draw_words(frame: StoryFrame, rng: random.Random) -> dict[str, str]:
    """Return a word for every place; places of one category get different ones."""
    words: dict[str, str] = {}
    for category in dict.fromkeys(frame.words.values()):
        keys = [key for key, wanted in frame.words.items() if wanted == category]
        if category in CATEGORIES or category in VERBS:
            drawn = words_of_category(rng, category, len(keys))
        else:
            drawn = rng.sample([part.replace("_", " ") for part in category.split("|")], len(keys))
        words |= dict(zip(keys, drawn, strict=True))
    return words


def _draw_numbers(frame: StoryFrame, rng: random.Random) -> dict[str, int]:
    for _ in range(TRIES):
        _, low, high = rng.choices(SIZES, [share for share, _, _ in SIZES])[0]
        try:
            values = _draw_once(frame, rng, low, high)
        except ValueError:
            continue
        if all(_holds(rule, values) for rule in frame.required):
            return values
    raise ValueError(f"the numbers of the story {frame.name!r} cannot be drawn; widen them")


def _draw_once(frame: StoryFrame, rng: random.Random, low: int, high: int) -> dict[str, int]:
    values: dict[str, int] = {}
    for name, rule in frame.numbers.items():
        values[name] = _draw_number(rule, values, rng, low, high)
        if values[name] < LEAST:
            raise ValueError("one of a thing would need other words")
    return values


def _draw_number(
    rule: str, values: Mapping[str, int], rng: random.Random, low: int, high: int
) -> int:
    """Return one number; ValueError where this draw cannot have one."""
    sign, rule = rule[0], rule[1:]
    if sign == "~":
        bound = int(evaluate(rule.partition("<")[2], values)) - 1 if "<" in rule else high
        return rng.randint(min(low, 2) if "<" in rule else low, bound)
    if "|" in rule:
        return int(rng.choice(rule.split("|")))
    if ".." in rule:
        first, last = (int(evaluate(end, values)) for end in rule.split(".."))
        return rng.randint(first, last)
    value = evaluate(rule, values)
    if not is_whole(value) or value < 1:
        raise ValueError("not a number to count with")
    return int(value)


def _holds(rule: str, values: Mapping[str, int]) -> bool:
    """Say whether a comparison holds: "a>b", "t%3=0"."""
    left, sign, right = re.fullmatch(r"(.+?)(>|<|=|!|%)(.+)", rule.replace(" ", "")).groups()  # type: ignore[union-attr]
    first, second = evaluate(left, values), evaluate(right, values)
    if sign == "%":  # "a%b": b divides a
        return first % second == 0
    return {">": first > second, "<": first < second, "=": first == second, "!": first != second}[
        sign
    ]
