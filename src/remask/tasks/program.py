"""Small programs: what the functions of the task `pycode` do.

A program is a source (a list, a range of integers, a text or a number) and one to three operations
on it. Each operation has wordings, code, and a function that serves as the reference. `pycode`
writes whole descriptions and solutions.
"""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Function = Callable[[Any, Any], Any]  # of a value and the constant
LETTERS = "aensx"  # that text operations look for


@dataclass(frozen=True, kw_only=True)
class Op:
    """One operation: its wording, its code and its function.

    `@` stands for the constant. In `noun`, `{}` stands for the input; in `code`, `_` does.
    """

    kind: str
    family: str  # two neighbours of one family would be redundant
    verb: str
    noun: str  # for a filter: the adjective alone
    code: str
    run: Function
    constants: Sequence[Any] = (0,)


_CONSTANTS = {
    "": (0,),
    "1-40": range(1, 41),
    "3-12": range(3, 13),
    "2-6": range(2, 7),
    "letter": LETTERS,
}
# Name, family, noun, code, constants; and except for a filter, the verb after the noun.
_TABLE = """
filter
even | parity | even | _ % 2 == 0 |
odd | parity | odd | _ % 2 == 1 |
divisible | parity | divisible by @ | _ % @ == 0 | 3-12
indivisible | parity | not divisible by @ | _ % @ != 0 | 3-12
positive | bound | positive | _ > 0 |
negative | bound | negative | _ < 0 |
above | bound | greater than @ | _ > @ | 1-40
below | bound | less than @ | _ < @ | 1-40
least | bound | at least @ | _ >= @ | 1-40
most | bound | at most @ | _ <= @ | 1-40
unequal | equal | not equal to @ | _ != @ | 1-40
map
double | scale | the doubles of {} | _ * 2 | | double each
square | power | the squares of {} | _ * _ | | square each
negate | scale | {} with each negated | -_ | | negate each
absolute | sign | the absolute values of {} | abs(_) | | take the absolute values
add | shift | {} with @ added to each | _ + @ | 1-40 | add @ to each
subtract | shift | {} with @ subtracted from each | _ - @ | 1-40 | subtract @ from each
times | scale | {} with each multiplied by @ | _ * @ | 3-12 | multiply each by @
modulo | modulo | {} with each taken modulo @ | _ % @ | 3-12 | take each modulo @
order
sort | order | {} in sorted order | sorted(_) | | sort them
descend | order | {} in descending order | sorted(_, reverse=True) | | sort them in descending order
reverse | order | {} in reverse order | _[::-1] | | reverse the list
cut
first | cut | the first @ of {} | _[:@] | 2-6 | take the first @
last | cut | the last @ of {} | _[-@:] | 2-6 | take the last @
skip | cut | {} without the first @ | _[@:] | 2-6 | drop the first @
second | cut | every second one of {} | _[::2] | | take every second one
unique | unique | {} without repeats | list(dict.fromkeys(_)) | | remove repeats
fold
sum | fold | the sum of {} | sum(_) | | take the sum
product | fold | the product of {} | | | take the product
largest | fold | the largest of {} OR_0 | max(_, default=0) | | take the largest OR_0
smallest | fold | the smallest of {} OR_0 | min(_, default=0) | | take the smallest OR_0
count
count | fold | the number of {} | len(_) | | count them
scalar
plus | shift | {} plus @ | _ + @ | 1-40 | add @
minus | shift | {} minus @ | _ - @ | 1-40 | subtract @
scaled | scale | {} times @ | _ * @ | 3-12 | multiply by @
remainder | modulo | {} modulo @ | _ % @ | 3-12 | take it modulo @
squared | power | the square of {} | _ * _ | | square it
text
upper | case | {} in upper case | _.upper() | | make it upper case
lower | case | {} in lower case | _.lower() | | make it lower case
backward | order | {} in reverse order | _[::-1] | | reverse it
head | cut | the first @ letters of {} | _[:@] | 2-6 | take the first @ letters
tail | cut | the last @ letters of {} | _[-@:] | 2-6 | take the last @ letters
repeat | repeat | {} repeated @ times | _ * @ | 3-12 | repeat it @ times
remove | remove | {} without any '@' | _.replace('@', '') | letter | remove every '@'
measure
length | fold | the length of {} | len(_) | | take the length
letter | fold | the number of '@' letters in {} | _.count('@') | letter | count the '@' letters
""".replace("OR_0", "or 0 if there is none")


def _read_table() -> dict[str, dict[str, Op]]:
    sections: dict[str, dict[str, Op]] = {}
    section = ""
    for row in _TABLE.strip().splitlines():
        if "|" not in row:
            section = row
            sections[section] = {}
            continue
        name, family, noun, code, constants, *verb = (cell.strip() for cell in row.split("|"))
        adjective = f"the {noun} numbers" if " " not in noun else f"the numbers {noun}"
        sections[section][name] = Op(
            kind={"order": "shape", "cut": "shape", "count": "fold"}.get(section, section),
            family=family,
            verb=verb[0] if verb else f"keep {adjective}",
            noun=noun,
            code=code,
            run=_function(code or "math.prod(_)"),
            constants=_CONSTANTS[constants],
        )
    return sections


def _quantified(over: Callable[[Iterable[Any]], bool], run: Function) -> Function:
    return lambda values, k: over(run(value, k) for value in values)


def _function(code: str) -> Function:
    """Return the function of the input and the constant that `code` computes."""
    expression = code.replace("'@'", "@").replace("@", "k")
    function: Function = eval(f"lambda _, k: {expression}", {"math": math})
    return function


def _tests(filters: dict[str, Op]) -> dict[str, Op]:
    """Return "any" and "all" for every filter."""
    return {
        f"{word} {name}": Op(
            kind="test",
            family="fold",
            verb=f"check whether {word} is {f.noun}",
            noun=f"whether {word} of {{}} is {f.noun}",
            code=f.code,
            run=_quantified(over, f.run),
            constants=f.constants,
        )
        for word, over in (("any", any), ("each", all))
        for name, f in filters.items()
    }


_KINDS = _read_table()
_KINDS["test"] = _tests(_KINDS["filter"])
OPS = {name: op for ops in _KINDS.values() for name, op in ops.items()}
_KINDS["shape"] = _KINDS["order"] | _KINDS["cut"]
_KINDS["tally"] = _KINDS["fold"] | _KINDS["count"]
# Names to draw from. Operations with many constants come more often; otherwise the few programs
# without a constant would dominate the split to which they belong.
_GROUPS = {
    kind: tuple(name for name, op in ops.items() for _ in range(1 + len(op.constants) // 8))
    for kind, ops in _KINDS.items()
}
_CLASHES = {("scale", "parity")}  # doubles are even, so a test of parity would be redundant

_STRICT = {  # the same bound over integers, and what to add to its constant
    "above": (">", 0),
    "positive": (">", 0),
    "least": (">", -1),
    "below": ("<", 0),
    "negative": ("<", 0),
    "most": ("<", 1),
}
_SHAPES = {
    "medium": {
        "list": "filter map, map filter, filter tally, filter tally, map fold, filter shape, "
        "shape map, map shape, cut fold, fold scalar, filter filter, map test",
        "range": "filter map, filter tally, map fold",
        "span": "filter tally, filter map",
        "text": "text text, text measure, measure scalar",
        "number": "scalar scalar",
    },
    "hard": {
        "list": "filter map fold, filter filter tally, map filter tally, filter map shape, "
        "shape filter map, filter tally scalar, map fold scalar, filter filter map, "
        "filter map test",
        "range": "filter map fold, filter tally scalar",
        "span": "filter map fold, filter filter tally",
        "text": "text text measure, text measure scalar",
        "number": "scalar scalar scalar",
    },
}
_PATTERNS = {
    level: tuple(
        (source, tuple(kinds.split())) for source in shapes for kinds in shapes[source].split(", ")
    )
    for level, shapes in _SHAPES.items()
}
_SINGLE_SHAPES = (
    ("list", "filter map shape tally test"),
    ("range", "filter"),
    ("span", "filter map"),
    ("text", "text measure"),
    ("number", "scalar"),
)


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


_SINGLES = tuple(
    Program(source=source, ops=((name, k),))
    for source, kinds in _SINGLE_SHAPES
    for kind in kinds.split()
    for name in dict.fromkeys(_GROUPS[kind])
    for k in OPS[name].constants
)


def draw_program(rng: random.Random, level: str) -> Program:
    """Draw a program in which no operation makes its neighbour redundant.

    All programs of one operation are equally likely.
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
