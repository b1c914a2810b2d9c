"""Countdown: reach a target from given numbers, each used once. Search, so accuracy is low.

The role of MATH in the paper. Every intermediate result is a positive integer of at most three
digits. Any right expression is accepted. It is read in a canonical form, in which sums and products
are flat and sorted, so that `3+(7-5)` and `7+3-5` are spelled alike. Votes compare values: every
expression that makes the same number of the given ones is one answer.
"""

import operator
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from remask.answers import NOTHING, Extraction
from remask.tasks.arithmetic import find_arithmetic
from remask.tasks.base import TIERS, Generated, Grade, Problem, Split, count_pieces, draw

Tree = int | tuple[str, "Tree", "Tree"]  # a number, or an operation on two trees
Step = tuple[int, str, int, int]  # left, operation, right, result

_LARGEST = 999
_OPERATIONS = "++---***//"  # division seldom fits, and falls back on subtraction
_SIZES = {"easy": (3, 20), "medium": (4, 25), "hard": (5, 25)}  # how many numbers, up to which

_PROMPTS = (
    "Use {and_list} once each to make {target}.",
    "Make {target} from {and_list}, each used once.",
    "Reach {target} with the numbers {and_list}. Use every number once.",
    "Combine {and_list} to get {target}. Use each number once.",
    "Numbers: {comma_list}. Target: {target}.",
    "The numbers are {comma_list} and the target is {target}.",
    "How can {target} be made from {and_list}?",
)
_OPENERS = ("We need {}. ", "Target: {}. ", "Goal: {}. ")
_STYLES: tuple[
    tuple[str, str, str, str], ...
] = (  # before the first, between, before the last, end
    ("", ". ", ". ", "."),
    ("", ", ", ", ", "."),
    ("", ", ", " and ", "."),
    ("First ", ". Then ", ". Then ", "."),
    ("First ", ", then ", ", then ", "."),
    ("First ", ". Next ", ". Finally ", "."),
    ("Start with ", ". Then ", ". Then ", "."),
    ("We have ", ", so ", " and ", "."),
    ("Note that ", "; ", "; ", "."),
)
_ROOM = {3: 54, 4: 54, 5: 84}  # pieces up to which a solution may say more than it must
_CLOSINGS = ("The answer is ", "So the answer is ", "Answer: ", "Therefore the answer is ")

_CLOSING = re.compile(r"(?:\b(?:so|therefore)\s+)?(?:\bthe\s+)?\banswer(?:\s+is\b|:)\s*", re.I)
_TOKEN = re.compile(r"[0-9]+|[-+*/()]")
_EQUATION = re.compile(r"([0-9]+)([-+*/])([0-9]+)=([0-9]+)")
_OPENER = re.compile(r"\b(?:We need|Target:|Goal:) ([0-9]+)\.")
_FILLER = re.compile(
    r"(?:[\s.,;]|\b(?:First|Then|then|Next|Finally|Start with|We have|so|and|Note that)\b)*"
)
_COMPUTE: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_LONGEST = 120  # characters of an expression that is still read: bounds the parser's recursion


@dataclass(frozen=True, kw_only=True)
class _Puzzle:
    numbers: tuple[int, ...]
    target: int
    tree: Tree


class Countdown(Generated):
    """Reach a target from given numbers."""

    name = "countdown"
    canvases = (64, 64, 96)

    def make(self, identity: str, level: str, split: Split) -> Problem:
        size, highest = _SIZES[level]
        puzzle, rng = draw(lambda r: _make(r, size, highest), _key, identity, split)
        return Problem(
            id=identity,
            task=self.name,
            level=level,
            prompt=_prompt(puzzle, rng),
            gold=_canonical(puzzle.tree),
            solution=_solution(puzzle, rng),
            facts={"numbers": puzzle.numbers, "target": puzzle.target},
        )

    def extract(self, text: str) -> str | None:
        """Return the canonical form of the final expression (`tasks.arithmetic`).

        None where there is none, or none that can be read.
        """
        return _read(text).answer

    @property
    def compared_by(self) -> str:
        """What two answers are compared by."""
        return "value"

    def key(self, problem: Problem, text: str) -> str | None:
        """Return what the expression makes, and whether of other numbers than those given.

        None where nothing can be read, or it divides by zero. The target has no part in it: a vote
        that knew it would be a grader.
        """
        answer = self.extract(text)
        tree = None if answer is None else parse(answer)
        value = None if tree is None else _value(tree)
        if tree is None or value is None:
            return None
        allowed = Counter(_leaves(tree)) == Counter(problem.facts["numbers"])
        return str(value) if allowed else f"{value} of other numbers"

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the expression uses exactly the given numbers and makes the target."""
        read = _read(text)
        return Grade(
            right=(reason := _verdict(problem, read.answer)) == "equal",
            extracted=read.answer,
            tier=TIERS[read.tier],
            method="arithmetic",
            reason=reason,
        )

    def process_ok(self, problem: Problem, text: str) -> bool:
        """Say whether the steps are right, use what is at hand, and build the final expression."""
        if not self.grade(problem, text):
            return False
        closings = list(_CLOSING.finditer(text))
        if not closings or not _ends_well(text[closings[-1].end() :], problem.facts["target"]):
            return False
        steps = _steps(text[: closings[-1].start()], problem.facts["target"])
        if steps is None or not all(_holds(step) for step in steps):
            return False
        return self.extract(text) in set(_built(tuple(problem.facts["numbers"]), steps))


def parse(source: str) -> Tree | None:
    """Return the tree of an expression in + - * / ( ) and whole numbers; None where it is none."""
    source = source.strip()
    if len(source) > _LONGEST or _TOKEN.sub("", source).strip():
        return None
    tokens = _TOKEN.findall(source)
    try:
        tree, end = _parse_chain(tokens, 0, "+-")
    except (IndexError, ValueError):
        return None
    return tree if end == len(tokens) else None


def _parse_chain(tokens: list[str], at: int, operations: str) -> tuple[Tree, int]:
    """Read operands joined by `operations`, from the left; operands of sums are products."""
    read = _parse_factor if operations == "*/" else _parse_product
    tree, at = read(tokens, at)
    while at < len(tokens) and tokens[at] in operations:
        right, end = read(tokens, at + 1)
        tree, at = (tokens[at], tree, right), end
    return tree, at


def _parse_product(tokens: list[str], at: int) -> tuple[Tree, int]:
    return _parse_chain(tokens, at, "*/")


def _parse_factor(tokens: list[str], at: int) -> tuple[Tree, int]:
    """Read a number or a bracket; IndexError and ValueError say that there is none."""
    if tokens[at] != "(":
        return int(tokens[at]), at + 1
    tree, at = _parse_chain(tokens, at + 1, "+-")
    if tokens[at] != ")":
        raise ValueError
    return tree, at + 1


def _read(text: str) -> Extraction:
    expression = find_arithmetic(text)
    tree = None if expression.answer is None else parse(expression.answer)
    return NOTHING if tree is None else replace(expression, answer=_canonical(tree))


def _verdict(problem: Problem, answer: str | None) -> str:
    tree = None if answer is None else parse(answer)
    if tree is None:
        return "no expression"
    if Counter(_leaves(tree)) != Counter(problem.facts["numbers"]):
        return "the numbers are not those given, each once"
    value, target = _value(tree), problem.facts["target"]
    return "equal" if value == Fraction(target) else f"it makes {value}, not {target}"


def _leaves(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else _leaves(tree[1]) + _leaves(tree[2])


def _value(tree: Tree) -> Fraction | None:
    if isinstance(tree, int):
        return Fraction(tree)
    left, right = _value(tree[1]), _value(tree[2])
    if left is None or right is None or (tree[0] == "/" and right == 0):
        return None
    return _COMPUTE[tree[0]](left, right)


def _canonical(tree: Tree) -> str:
    """Return the tree as text, with sums and products flat and sorted."""
    if isinstance(tree, int):
        return str(tree)
    join, undo = "+-" if tree[0] in "+-" else "*/"
    straight, inverse = _terms(tree, join, undo)
    first = join.join(sorted(straight))
    return first + "".join(undo + term for term in sorted(inverse))


def _terms(tree: Tree, join: str, undo: str) -> tuple[list[str], list[str]]:
    """Return the terms that are added (multiplied) and those that are subtracted (divided by)."""
    if isinstance(tree, int) or tree[0] not in (join, undo):
        text = _canonical(tree)
        bracket = join == "*" and not isinstance(tree, int)
        return [f"({text})" if bracket else text], []
    straight, inverse = _terms(tree[1], join, undo)
    more, less = _terms(tree[2], join, undo)
    if tree[0] == undo:
        more, less = less, more
    return straight + more, inverse + less


def _make(rng: random.Random, size: int, highest: int) -> _Puzzle:
    while True:
        numbers = tuple(1 + int(rng.random() * highest) for _ in range(size))
        pool: list[tuple[int, Tree]] = [(n, n) for n in numbers]
        while len(pool) > 1:
            a = pool.pop(int(rng.random() * len(pool)))
            b = pool.pop(int(rng.random() * len(pool)))
            pool.append(_combine(a, b, _OPERATIONS[int(rng.random() * len(_OPERATIONS))]))
        value, tree = pool[0]
        if 0 < value <= _LARGEST:
            return _Puzzle(numbers=numbers, target=value, tree=tree)


def _combine(a: tuple[int, Tree], b: tuple[int, Tree], op: str) -> tuple[int, Tree]:
    """Return one operation on two values, `op` where it fits; 0 marks a dead end."""
    (left, one), (right, two) = a, b
    if left <= 0 or right <= 0 or left + right > _LARGEST:
        return 0, 0
    if op == "*" and left > 1 < right and left * right <= _LARGEST:
        return left * right, (op, one, two)
    if op == "+" or left == right:
        return left + right, ("+", one, two)
    if left < right:
        left, one, right, two = right, two, left, one
    if op == "/" and right > 1 and left % right == 0:
        return left // right, (op, one, two)
    return left - right, ("-", one, two)


def _key(puzzle: _Puzzle) -> str:
    return f"countdown {sorted(puzzle.numbers)} {puzzle.target}"


def _prompt(puzzle: _Puzzle, rng: random.Random) -> str:
    texts = [str(n) for n in puzzle.numbers]
    return rng.choice(_PROMPTS).format(
        and_list=", ".join(texts[:-1]) + " and " + texts[-1],
        comma_list=", ".join(texts),
        target=puzzle.target,
    )


def _solution(puzzle: _Puzzle, rng: random.Random) -> str:
    first, between, last, end = rng.choice(_STYLES)
    steps = _ordered(puzzle.tree, rng)
    text = first + steps[0]
    for number, step in enumerate(steps[1:], 2):
        text += (last if number == len(steps) else between) + step
    text += f"{end} {rng.choice(_CLOSINGS)}{_written(puzzle.tree)}"
    extra = rng.random()
    if extra > 0.5 or count_pieces(text) > _ROOM[len(puzzle.numbers)]:
        return f"{text}."
    if extra < 0.2:
        return f"{text}={puzzle.target}."
    return f"{rng.choice(_OPENERS).format(puzzle.target)}{text}."


def _ordered(tree: Tree, rng: random.Random) -> list[str]:
    """Return the equations of the tree, each after those it needs, in an order drawn at random."""
    waiting: list[tuple[str, int, int, int]] = []  # equation, its own number, the two it needs
    _list_steps(tree, waiting)
    done, steps = {-1}, []
    while waiting:
        ready = [w for w in waiting if w[2] in done and w[3] in done]
        step = ready[int(rng.random() * len(ready))]
        waiting.remove(step)
        done.add(step[1])
        steps.append(step[0])
    return steps


def _list_steps(tree: Tree, into: list[tuple[str, int, int, int]]) -> tuple[int, int]:
    """Append the equations below `tree`; return its value and the number of its equation."""
    if isinstance(tree, int):
        return tree, -1
    (left, a), (right, b) = _list_steps(tree[1], into), _list_steps(tree[2], into)
    value = int(_COMPUTE[tree[0]](Fraction(left), Fraction(right)))  # every step is whole
    into.append((f"{left}{tree[0]}{right}={value}", len(into), a, b))
    return value, len(into) - 1


def _written(tree: Tree, above: str = "", on_right: bool = False) -> str:
    """Return the tree with the brackets it needs and no others."""
    if isinstance(tree, int):
        return str(tree)
    op = tree[0]
    text = _written(tree[1], op) + op + _written(tree[2], op, True)
    loose = op in "+-"
    bracket = (above in ("*", "/") and loose) or (
        on_right
        and (above, loose) in (("-", True), ("/", False), ("*", False))
        and above + op != "**"
    )
    return f"({text})" if bracket else text


def _ends_well(rest: str, target: int) -> bool:
    """Say whether nothing but the expression, and perhaps its right value, follows the closing."""
    return re.fullmatch(rf"[0-9+\-*/() ]+(?:= ?{target})?\s*\.?\s*", rest) is not None


def _steps(body: str, target: int) -> list[Step] | None:
    """Return the equations stated before the closing; None where anything else is said."""
    goals = _OPENER.findall(body)
    rest = _EQUATION.sub(" ", _OPENER.sub(" ", body))
    if any(goal != str(target) for goal in goals) or not _FILLER.fullmatch(rest):
        return None
    return [(int(a), op, int(b), int(c)) for a, op, b, c in _EQUATION.findall(body)]


def _holds(step: Step) -> bool:
    left, op, right, result = step
    return result > 0 and _value((op, left, right)) == result


def _built(numbers: tuple[int, ...], steps: Sequence[Step]) -> Iterator[str]:
    """Yield every expression that the steps can have built; equal numbers leave a choice."""
    if len(steps) != len(numbers) - 1:
        return
    pools: set[tuple[tuple[int, Tree], ...]] = {tuple((n, n) for n in numbers)}
    for left, op, right, result in steps:
        pools = {
            (*(p for k, p in enumerate(pool) if k not in (i, j)), (result, (op, a[1], b[1])))
            for pool in pools
            for i, a in enumerate(pool)
            for j, b in enumerate(pool)
            if i != j and a[0] == left and b[0] == right
        }
    for pool in pools:
        yield _canonical(pool[0][1])
