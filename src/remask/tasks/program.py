"""Small programs: what the functions of the task `pycode` do.

A program is a source (a list, a range of integers, a text or a number) and one to three operations
on it. Each operation knows how it is said, how it is written and, as the reference, what it does.
How whole descriptions and functions are put together is in `pycode`.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

LETTERS = "aensx"  # those that text operations look for


@dataclass(frozen=True, kw_only=True)
class Op:
    """One operation: how it is said, written and done. `@` stands for its constant.

    In `noun` the braces stand for what it works on; in `code` the underscore does.
    """

    kind: str
    family: str  # two neighbours of one family would be redundant
    verb: str
    noun: str  # for a filter: the trait alone
    code: str
    run: Callable[[Any, Any], Any]
    constants: Sequence[Any] = (0,)


def _filter(family: str, trait: str, code: str, run: Any, constants: Sequence[Any] = (0,)) -> Op:
    verb = f"keep the {trait} numbers" if " " not in trait else f"keep the numbers {trait}"
    return Op(
        kind="filter", family=family, verb=verb, noun=trait, code=code, run=run, constants=constants
    )


def _op(kind: str, family: str, verb: str, noun: str, code: str, run: Any, *constants: Any) -> Op:
    return Op(
        kind=kind,
        family=family,
        verb=verb,
        noun=noun,
        code=code,
        run=run,
        constants=constants or (0,),
    )


_ANY, _SMALL, _FEW = range(1, 41), range(3, 13), range(2, 7)

FILTERS = {
    "even": _filter("parity", "even", "_ % 2 == 0", lambda x, k: x % 2 == 0),
    "odd": _filter("parity", "odd", "_ % 2 == 1", lambda x, k: x % 2 == 1),
    "divisible": _filter("parity", "divisible by @", "_ % @ == 0", lambda x, k: x % k == 0, _SMALL),
    "indivisible": _filter(
        "parity", "not divisible by @", "_ % @ != 0", lambda x, k: x % k != 0, _SMALL
    ),
    "positive": _filter("bound", "positive", "_ > 0", lambda x, k: x > 0),
    "negative": _filter("bound", "negative", "_ < 0", lambda x, k: x < 0),
    "above": _filter("bound", "greater than @", "_ > @", lambda x, k: x > k, _ANY),
    "below": _filter("bound", "less than @", "_ < @", lambda x, k: x < k, _ANY),
    "least": _filter("bound", "at least @", "_ >= @", lambda x, k: x >= k, _ANY),
    "most": _filter("bound", "at most @", "_ <= @", lambda x, k: x <= k, _ANY),
    "unequal": _filter("equal", "not equal to @", "_ != @", lambda x, k: x != k, _ANY),
}
_MAPS = {
    "double": _op("map", "scale", "double each", "the doubles of {}", "_ * 2", lambda x, k: 2 * x),
    "square": _op("map", "power", "square each", "the squares of {}", "_ * _", lambda x, k: x * x),
    "negate": _op("map", "scale", "negate each", "{} with each negated", "-_", lambda x, k: -x),
    "absolute": _op(
        "map", "sign", "take the absolute values", "the absolute values of {}", "abs(_)",
        lambda x, k: abs(x),
    ),
    "add": _op(
        "map", "shift", "add @ to each", "{} with @ added to each", "_ + @",
        lambda x, k: x + k, *_ANY,
    ),
    "subtract": _op(
        "map", "shift", "subtract @ from each", "{} with @ subtracted from each", "_ - @",
        lambda x, k: x - k, *_ANY,
    ),
    "times": _op(
        "map", "scale", "multiply each by @", "{} with each multiplied by @", "_ * @",
        lambda x, k: x * k, *_SMALL,
    ),
    "modulo": _op(
        "map", "modulo", "take each modulo @", "{} with each taken modulo @", "_ % @",
        lambda x, k: x % k, *_SMALL,
    ),
}  # fmt: skip
_ORDERS = {
    "sort": _op("shape", "order", "sort them", "{} in sorted order", "sorted(_)",
                lambda v, k: sorted(v)),
    "descend": _op("shape", "order", "sort them in descending order", "{} in descending order",
                   "sorted(_, reverse=True)", lambda v, k: sorted(v, reverse=True)),
    "reverse": _op("shape", "order", "reverse the list", "{} in reverse order", "_[::-1]",
                   lambda v, k: v[::-1]),
}  # fmt: skip
_CUTS = {
    "first": _op("shape", "cut", "take the first @", "the first @ of {}", "_[:@]",
                 lambda v, k: v[:k], *_FEW),
    "last": _op("shape", "cut", "take the last @", "the last @ of {}", "_[-@:]",
                lambda v, k: v[-k:], *_FEW),
    "skip": _op("shape", "cut", "drop the first @", "{} without the first @", "_[@:]",
                lambda v, k: v[k:], *_FEW),
    "second": _op("shape", "cut", "take every second one", "every second one of {}", "_[::2]",
                  lambda v, k: v[::2]),
    "unique": _op("shape", "unique", "remove repeats", "{} without repeats",
                  "list(dict.fromkeys(_))", lambda v, k: list(dict.fromkeys(v))),
}  # fmt: skip
_FOLDS = {
    "sum": _op("fold", "fold", "take the sum", "the sum of {}", "sum(_)", lambda v, k: sum(v)),
    "product": _op("fold", "fold", "take the product", "the product of {}", "",
                   lambda v, k: _product(v)),
    "largest": _op("fold", "fold", "take the largest or 0 if there is none",
                   "the largest of {} or 0 if there is none", "max(_, default=0)",
                   lambda v, k: max(v, default=0)),
    "smallest": _op("fold", "fold", "take the smallest or 0 if there is none",
                    "the smallest of {} or 0 if there is none", "min(_, default=0)",
                    lambda v, k: min(v, default=0)),
}  # fmt: skip
_COUNT = {
    "count": _op("fold", "fold", "count them", "the number of {}", "len(_)", lambda v, k: len(v))
}
_SCALARS = {
    "plus": _op("scalar", "shift", "add @", "{} plus @", "_ + @", lambda x, k: x + k, *_ANY),
    "minus": _op("scalar", "shift", "subtract @", "{} minus @", "_ - @", lambda x, k: x - k, *_ANY),
    "scaled": _op("scalar", "scale", "multiply by @", "{} times @", "_ * @", lambda x, k: x * k,
                  *_SMALL),
    "remainder": _op("scalar", "modulo", "take it modulo @", "{} modulo @", "_ % @",
                     lambda x, k: x % k, *_SMALL),
    "squared": _op("scalar", "power", "square it", "the square of {}", "_ * _",
                   lambda x, k: x * x),
}  # fmt: skip
_TEXTS = {
    "upper": _op("text", "case", "make it upper case", "{} in upper case", "_.upper()",
                 lambda s, k: s.upper()),
    "lower": _op("text", "case", "make it lower case", "{} in lower case", "_.lower()",
                 lambda s, k: s.lower()),
    "backward": _op("text", "order", "reverse it", "{} in reverse order", "_[::-1]",
                    lambda s, k: s[::-1]),
    "head": _op("text", "cut", "take the first @ letters", "the first @ letters of {}", "_[:@]",
                lambda s, k: s[:k], *_FEW),
    "tail": _op("text", "cut", "take the last @ letters", "the last @ letters of {}", "_[-@:]",
                lambda s, k: s[-k:], *_FEW),
    "repeat": _op("text", "repeat", "repeat it @ times", "{} repeated @ times", "_ * @",
                  lambda s, k: s * k, *_SMALL),
    "remove": _op("text", "remove", "remove every '@'", "{} without any '@'",
                  "_.replace('@', '')", lambda s, k: s.replace(k, ""), *LETTERS),
}  # fmt: skip
_MEASURES = {
    "length": _op("measure", "fold", "take the length", "the length of {}", "len(_)",
                  lambda s, k: len(s)),
    "letter": _op("measure", "fold", "count the '@' letters", "the number of '@' letters in {}",
                  "_.count('@')", lambda s, k: s.count(k), *LETTERS),
}  # fmt: skip


def _tests() -> dict[str, Op]:
    """Return "any" and "all" for every filter."""
    return {
        f"{word} {name}": _op(
            "test", "fold", f"check whether {word} is {f.noun}",
            f"whether {word} of {{}} is {f.noun}", f.code,
            lambda v, k, run=f.run, over=over: over(run(x, k) for x in v), *f.constants,
        )
        for word, over in (("any", any), ("each", all))
        for name, f in FILTERS.items()
    }  # fmt: skip


_TESTS = _tests()
OPS = {
    **FILTERS, **_MAPS, **_ORDERS, **_CUTS, **_FOLDS, **_COUNT, **_SCALARS, **_TEXTS,
    **_MEASURES, **_TESTS,
}  # fmt: skip
_KINDS = {
    "filter": FILTERS,
    "map": _MAPS,
    "shape": {**_ORDERS, **_CUTS},
    "cut": _CUTS,
    "fold": _FOLDS,
    "tally": {**_FOLDS, **_COUNT},
    "scalar": _SCALARS,
    "text": _TEXTS,
    "measure": _MEASURES,
    "test": _TESTS,
}
# Names to draw from, those with more constants more often: else the few programs without any would
# fill whatever split they fall into.
_GROUPS = {
    kind: tuple(name for name, op in ops.items() for _ in range(1 + len(op.constants) // 8))
    for kind, ops in _KINDS.items()
}
_CLASHES = {("scale", "parity")}  # doubles are even: such neighbours would say nothing

_STRICT = {  # the same bound over integers, and what to add to its constant
    "above": (">", 0),
    "positive": (">", 0),
    "least": (">", -1),
    "below": ("<", 0),
    "negative": ("<", 0),
    "most": ("<", 1),
}
_SHAPES = {
    "medium": (
        "list: filter map", "list: map filter", "list: filter tally", "list: filter tally",
        "list: map fold", "list: filter shape", "list: shape map", "list: map shape",
        "list: cut fold", "list: fold scalar", "list: filter filter", "list: map test",
        "range: filter map", "range: filter tally", "range: map fold", "span: filter tally",
        "span: filter map", "text: text text", "text: text measure", "text: measure scalar",
        "number: scalar scalar",
    ),
    "hard": (
        "list: filter map fold", "list: filter filter tally", "list: map filter tally",
        "list: filter map shape", "list: shape filter map", "list: filter tally scalar",
        "list: map fold scalar", "list: filter filter map", "list: filter map test",
        "range: filter map fold", "range: filter tally scalar", "span: filter map fold",
        "span: filter filter tally", "text: text text measure", "text: text measure scalar",
        "number: scalar scalar scalar",
    ),
}  # fmt: skip
_PATTERNS = {
    level: tuple((text.split(": ")[0], tuple(text.split(": ")[1].split())) for text in texts)
    for level, texts in _SHAPES.items()
}


@dataclass(frozen=True, kw_only=True)
class Program:
    """A source and the operations on it, each with its constant."""

    source: str
    ops: tuple[tuple[str, Any], ...]

    def run(self, arguments: Sequence[Any]) -> Any:
        """Return what a right function returns: the reference."""
        value: Any = arguments[0]
        if self.source == "range":
            value = list(range(1, value + 1))
        elif self.source == "span":
            value = list(range(value, arguments[1] + 1))
        for name, k in self.ops:
            op = OPS[name]
            match op.kind:
                case "filter":
                    value = [x for x in value if op.run(x, k)]
                case "map":
                    value = [op.run(x, k) for x in value]
                case _:
                    value = op.run(value, k)
        return value


def _singles() -> tuple[Program, ...]:
    """Return every program of one operation."""
    kinds = ("list: filter", "list: map", "list: shape", "list: tally", "list: test",
             "range: filter", "span: filter", "span: map", "text: text", "text: measure",
             "number: scalar")  # fmt: skip
    return tuple(
        Program(source=source, ops=((name, k),))
        for source, kind in (pattern.split(": ") for pattern in kinds)
        for name in dict.fromkeys(_GROUPS[kind])
        for k in OPS[name].constants
    )


_SINGLES = _singles()


def draw_program(rng: random.Random, level: str) -> Program:
    """Draw a program; again where two neighbours would be redundant.

    Programs of one operation are equally likely: were operations, the few without a constant would
    fill whatever split they fall into.
    """
    if level == "easy":
        return rng.choice(_SINGLES)
    source, kinds = rng.choice(_PATTERNS[level])
    while True:
        names = [rng.choice(_GROUPS[kind]) for kind in kinds]
        families = [OPS[name].family for name in names]
        if all(a != b and (a, b) not in _CLASHES for a, b in pairwise(families)):
            break
    return Program(
        source=source, ops=tuple((name, rng.choice(OPS[name].constants)) for name in names)
    )


def key_of(program: Program) -> str:
    """Return what the function does: neighbouring filters commute, and x >= 5 is x > 4."""
    ops = [_plain(name, k) for name, k in program.ops]
    if [OPS[name].kind for name, _ in program.ops[:2]] == ["filter", "filter"]:
        ops[:2] = sorted(ops[:2])
    return f"pycode {program.source} {ops}"


def _plain(name: str, k: Any) -> tuple[str, Any]:
    """Return a bound as a strict one, whatever it is called."""
    head, _, last = name.rpartition(" ")
    if last in _STRICT:
        strict, shift = _STRICT[last]
        return f"{head}{strict}", k + shift
    return name, k


def _product(values: Sequence[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result
