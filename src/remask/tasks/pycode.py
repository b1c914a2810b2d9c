"""Python functions from a description, judged by running hidden tests.

The role of HumanEval and MBPP in the paper. One program (`program.py`) is described in many
wordings and written in many styles. The reference gives the expected outputs when a candidate is
judged, so that generation itself runs no code.
"""

import ast
import random
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from remask.tasks.base import TIERS, Generated, Grade, Problem, Split, draw
from remask.tasks.execution import Outcome, ProgramRun, run_many, watch_calls
from remask.tasks.program import LETTERS, OPS, Op, Program, draw_program, key_of

_NUM_TESTS, _NUM_CHECKS, _NUM_SAMPLES = 40, 160, 8
_LONGEST = 2_000  # characters of a candidate whose syntax tree is still built

_PLACES = {"list": "in {}", "range": "from 1 to n", "span": "from a to b"}
_SOURCES = {"range": "range(1, n + 1)", "span": "range(a, b + 1)", "text": "s", "number": "n"}
_SPELLINGS = {
    "_ % 2 == 1": "_ % 2 != 0",
    "_ * _": "_ ** 2",
    "_ * 2": "2 * _",
    "_ + @": "@ + _",
    "_ * @": "@ * _",
}
_COMPARES = ("_ >", "_ <", "_ !=")
_ACCUMULATORS = {"sum(_)": ("0", "+= each"), "len(_)": ("0", "+= 1"), "": ("1", "*= each")}
_ARGUMENTS = {"range": "n", "span": "a, b", "text": "s", "number": "n"}
_NAMED = (
    "Write a Python function f({}) that returns {}.",
    "Define f({}) so that it returns {}.",
    "Write f({}) in Python. It returns {}.",
)
_TOLD = (
    "Write a Python function f({}): {} and return the result.",
    "Define f({}) with these steps: {} and return the result.",
    "Write f({}) in Python. First {} and return the result.",
    "In f({}), {} and return the result.",
)


class PyCode(Generated):
    """Write a small Python function from its description."""

    name = "pycode"
    critical = "code"
    canvases = (64, 64, 96)
    metrics: tuple[str, ...] = (
        "token_accuracy",
        "semantic_similarity",
        "number_retention",
        "ast_similarity",
        "token_substitution",
        "character_similarity",
        "confidence",
    )

    def make(self, identity: str, level: str, split: Split) -> Problem:
        program, rng = draw(lambda r: draw_program(r, level), key_of, identity, split)
        argument = _ARGUMENTS.get(program.source) or rng.choice(("xs", "values"))
        solution = _Writer(program, argument, rng).write()
        return Problem(
            id=identity,
            task=self.name,
            level=level,
            prompt=_prompt(program, argument, rng),
            gold=self.extract(solution) or "",
            solution=solution,
            facts={"source": program.source, "ops": program.ops},
        )

    def extract(self, text: str) -> str | None:
        """Return the syntax tree with its variables renamed in order; None where it does not parse.

        Code has no answer to compare, and `answer_match` does not exist for it. Two functions that
        differ in names and layout only are one here; votes compare behaviour, see `key`.
        """
        try:
            return _normalised(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @property
    def compared_by(self) -> str:
        """What two answers are compared by."""
        return "behaviour"

    def key(self, problem: Problem, text: str) -> str | None:
        """Return what the code does on sample inputs, which are none of the hidden tests' draws.

        None where it does nothing there: it is no function, or fails on each, or takes too long.
        """
        return watch_calls(text, sample_calls(problem))

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the code passes the hidden tests, and where not."""
        outcome = _outcomes([problem], [text], _NUM_TESTS)[0]
        return Grade(
            right=outcome.passed,
            extracted=text,
            tier=TIERS[3],
            method="tests",
            reason=outcome.reason,
        )

    def grade(self, problem: Problem, text: str) -> bool:
        """Say whether the code passes the hidden tests."""
        return self.grade_many([problem], [text])[0]

    def grade_many(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[bool]:
        """Say which codes pass their hidden tests, several children at once."""
        return _pass(problems, texts, _NUM_TESTS)

    def process_ok(self, problem: Problem, text: str) -> bool:
        """Say whether the code agrees with the reference on many more inputs."""
        return _pass([problem], [text], _NUM_CHECKS)[0]


def reference_tests(problem: Problem, num_tests: int) -> list[str]:
    """Return assertions with what the reference returns; `repr` also tells 1 from True."""
    program, rng = _program(problem), random.Random(problem.id)
    tests: list[str] = []
    for _ in range(num_tests):
        arguments = _inputs(program, rng, len(tests))
        call = ", ".join(map(repr, arguments))
        tests.append(f"assert repr(f({call})) == {repr(program.run(arguments))!r}")
    return tests


def sample_calls(problem: Problem) -> list[str]:
    """Return calls on inputs of the kind that the description names."""
    program, rng = _program(problem), random.Random(f"{problem.id}/samples")
    inputs = (_inputs(program, rng, number) for number in range(_NUM_SAMPLES))
    return [f"f({', '.join(map(repr, arguments))})" for arguments in inputs]


def _program(problem: Problem) -> Program:
    return Program(source=problem.facts["source"], ops=tuple(map(tuple, problem.facts["ops"])))


def _outcomes(problems: Sequence[Problem], texts: Sequence[str], num_tests: int) -> list[Outcome]:
    jobs = [
        ProgramRun(source=text, tests=tuple(reference_tests(problem, num_tests)))
        for problem, text in zip(problems, texts, strict=True)
    ]
    return run_many(jobs)


def _pass(problems: Sequence[Problem], texts: Sequence[str], num_tests: int) -> list[bool]:
    return [outcome.passed for outcome in _outcomes(problems, texts, num_tests)]


def _inputs(program: Program, rng: random.Random, number: int) -> tuple[Any, ...]:
    """Return the arguments of test `number`: the smallest first, a dense one, then random ones."""
    match program.source:
        case "range":
            return ((0, 1, 60)[number] if number < 3 else rng.randint(2, 60),)
        case "span":
            low = rng.randint(-9, 20)
            return (low, low + ((-1, 0, 70)[number] if number < 3 else rng.randint(1, 40)))
        case "text":
            return ("".join(rng.choices(LETTERS + "AEbz", k=2 * number if number < 9 else 9)),)
        case "number":
            return (number - 1 if number < 4 else rng.randint(-50, 50),)
        case _:
            return (_list_input(_critical(program), rng, number),)


def _list_input(critical: Sequence[int], rng: random.Random, number: int) -> list[int]:
    """Return a list: nothing, everything, then single critical values between random lists."""
    if number == 0:
        return []
    if number == 2:
        return rng.sample(range(-60, 70), 130)
    if number % 2:
        return [critical[number // 2 % len(critical)]]
    pool = [*critical, *(rng.randint(-50, 50) for _ in critical)]
    return rng.choices(pool, k=rng.randint(2, 9))


def _critical(program: Program) -> list[int]:
    """Return the values at which a bound, or a bound after a shift, may be off by one."""
    constants = sorted({k for _, k in program.ops if isinstance(k, int)})
    places = [*constants, *(a - b for a in constants for b in constants if a != b), sum(constants)]
    return list(dict.fromkeys(place + step for place in places for step in (0, 1, -1)))


def _prompt(program: Program, argument: str, rng: random.Random) -> str:
    noun = _noun(program, argument)
    if noun and rng.random() < 0.6:
        return rng.choice(_NAMED).format(argument, noun)
    steps = [OPS[name].verb.replace("@", str(k)) for name, k in program.ops]
    if program.source in ("range", "span"):
        steps.insert(0, f"take the numbers {_PLACES[program.source]}")
    joint = rng.choice((", ", ", then "))
    return rng.choice(_TOLD).format(argument, joint.join(steps))


def _noun(program: Program, argument: str) -> str:
    """Return the program as one noun phrase; "" where a phrase could be read in two ways."""
    ops = [(OPS[name], str(k)) for name, k in program.ops]
    place = _PLACES.get(program.source, "").format(argument)
    text = f"the numbers {place}" if place else argument
    ended = False  # a phrase that trails its object takes only a fold after it
    for number, (op, k) in enumerate(ops):
        noun = op.noun.replace("@", k)
        if op.kind == "filter" and number == 0:
            text = f"the numbers {place} {noun}" if " " in noun else f"the {noun} numbers {place}"
        elif op.kind == "filter":
            if ops[number - 1][0].kind != "filter":
                return ""
            text, ended = f"{text} that are {noun}", True
        elif ended and op.kind not in ("fold", "test", "measure"):
            return ""
        else:
            text, ended = noun.format(text), ended or not noun.endswith("{}")
    return text


def _normalised(text: str) -> str | None:
    """Return the tree of `text` as one string, or None where it defines no function."""
    if len(text) > _LONGEST:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as an invalid escape in a candidate's string
        tree = ast.parse(text)
    if not any(isinstance(node, ast.FunctionDef) for node in tree.body):
        return None
    nodes = list(ast.walk(tree))
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.arg):
            names.setdefault(node.arg, f"v{len(names)}")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.setdefault(node.id, f"v{len(names)}")
    for node in nodes:
        if isinstance(node, ast.arg):
            node.arg = names[node.arg]
        elif isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.dump(tree, annotate_fields=False)


class _Writer:
    def __init__(self, program: Program, argument: str, rng: random.Random) -> None:
        self.rng = rng
        self.argument = argument
        self.ops = [(self.variant(OPS[name]), str(k)) for name, k in program.ops]
        if [op.kind for op, _ in self.ops[:2]] == ["filter", "filter"] and rng.random() < 0.5:
            self.ops[:2] = self.ops[1::-1]
        self.source = _SOURCES.get(program.source, argument)
        self.item = rng.choice(("x", "v", "item"))
        self.result_name = rng.choice(("out", "result", "ys"))
        self.total = rng.choice(("total", "res"))
        self.lines: list[str] = []

    def write(self) -> str:
        """Return the code."""
        loops = any(op.kind in ("filter", "map", "test") or not op.code for op, _ in self.ops)
        style = self.rng.choice(("fused", "staged", "loop") if loops else ("fused", "staged"))
        if style == "loop":
            self.loop()
        elif style == "staged":
            self.staged()
        else:
            self.fused()
        return f"def f({self.argument}):\n    " + "\n    ".join(self.lines)

    def variant(self, op: Op) -> Op:
        """Return the operation, now and then in its other spelling."""
        other = _SPELLINGS.get(op.code)
        return replace(op, code=other) if other and self.rng.random() < 0.4 else op

    def fused(self) -> None:
        """Write one expression where one will do."""
        value = self.expression(self.source, self.ops)
        self.lines.append(f"return {value}")

    def staged(self) -> None:
        """Write a variable after each operation."""
        names = self.rng.sample(("out", "ys", "result"), len(self.ops))
        value = self.source
        for number, op in enumerate(self.ops):
            value = self.expression(value, [op])
            if number < len(self.ops) - 1 or self.rng.random() < 0.3:
                self.lines.append(f"{names[number]} = {value}")
                value = names[number]
        self.lines.append(f"return {value}")

    def loop(self) -> None:
        """Write a loop over the first run of operations on elements."""
        kinds = [op.kind for op, _ in self.ops]
        start = next((i for i, kind in enumerate(kinds) if kind in ("filter", "map")), None)
        if start is None:
            start = next(
                i for i, (op, _) in enumerate(self.ops) if op.kind == "test" or not op.code
            )
        end = start
        while end < len(kinds) and kinds[end] in ("filter", "map"):
            end += 1
        source = self.expression(self.source, self.ops[:start])
        value, taken = self.looped(source, self.ops[start:end], self.ops[end:])
        if value:
            value = self.expression(value, self.ops[end + taken :])
            self.lines.append(f"return {value}")

    def looped(
        self, source: str, group: Sequence[tuple[Op, str]], rest: Sequence[tuple[Op, str]]
    ) -> tuple[str, int]:
        """Write the loop; return what holds its result and how much of `rest` it did.

        A loop that tests returns by itself, and then nothing holds the result.
        """
        head, block, last, held, taken = self.accumulator(rest)
        self.lines += [*head, f"for {self.item} in {source}:"]
        indent, element = "    ", self.item
        for number, (op, k) in enumerate(group):
            code = _put(op.code, element, k)
            if op.kind == "filter":
                self.lines.append(f"{indent}if {code}:")
                indent += "    "
            elif number + 1 < len(group) or not held or self.rng.random() < 0.3:
                self.lines.append(f"{indent}y = {code}")
                element = "y"
            else:
                element = code
        self.lines += [indent + line.replace("each", element) for line in block]
        self.lines += last
        return held, taken

    def accumulator(
        self, rest: Sequence[tuple[Op, str]]
    ) -> tuple[list[str], list[str], list[str], str, int]:
        """Return the lines before, inside and after a loop, its result and how much it takes."""
        op, k = rest[0] if rest else (None, "")
        if op is not None and op.kind == "test":
            some = op.verb.startswith("check whether any")
            test = _put(op.code, "each", k)
            block = [f"if {test}:" if some else f"if not {test}:", f"    return {some}"]
            return [], block, [f"return {not some}"], "", 1
        if op is not None and op.code in _ACCUMULATORS:
            start, change = _ACCUMULATORS[op.code]
            return [f"{self.total} = {start}"], [f"{self.total} {change}"], [], self.total, 1
        return (
            [f"{self.result_name} = []"],
            [f"{self.result_name}.append(each)"],
            [],
            self.result_name,
            0,
        )

    def expression(self, value: str, ops: Sequence[tuple[Op, str]]) -> str:
        """Return one expression for `ops` on `value`; only a product writes lines before it."""
        element, conditions = self.item, list[str]()
        for op, k in ops:
            if op.kind == "filter":
                conditions.append(_put(op.code, element, k))
            elif op.kind == "map":
                element = _put(op.code, element, k)
            else:
                value = self.closed(value, element, conditions, (op, k))
                element, conditions = self.item, []
        return self.listed(value, element, conditions)

    def closed(self, value: str, element: str, conditions: list[str], last: tuple[Op, str]) -> str:
        """Return an operation on a whole list, with what is still to be done to its elements."""
        op, k = last
        tail = _tail(self.item, value, conditions)
        if op.kind == "test":
            word = "any" if op.verb.startswith("check whether any") else "all"
            return f"{word}({_put(op.code, element, k)}{tail})"
        if not op.code:
            self.lines += [f"{self.total} = 1", f"for {self.item} in {value}:"]
            guard = f"if {' and '.join(conditions)}:"
            self.lines += [f"    {guard}"] * bool(conditions)
            self.lines.append(f"    {'    ' * bool(conditions)}{self.total} *= {element}")
            return self.total
        if element + "".join(conditions) != self.item and self.rng.random() < 0.6:
            if op.code == "sum(_)":
                return f"sum({element}{tail})"
            if op.code == "len(_)":
                return f"sum(1{tail})"
        value = self.listed(value, element, conditions)
        if op.code.endswith("default=0)") and value.isalpha() and self.rng.random() < 0.5:
            return f"{op.code[:3]}({value}) if {value} else 0"
        return _put(op.code, value, k)

    def listed(self, value: str, element: str, conditions: list[str]) -> str:
        """Return the list of `element` over `value`; `value` itself where nothing changes."""
        if element == self.item and not conditions:
            return value
        if self.rng.random() < 0.2:
            if not conditions:
                return f"list(map(lambda {self.item}: {element}, {value}))"
            if element == self.item and len(conditions) == 1:
                return f"list(filter(lambda {self.item}: {conditions[0]}, {value}))"
        return f"[{element}{_tail(self.item, value, conditions)}]"


def _tail(item: str, value: str, conditions: Sequence[str]) -> str:
    test = f" if {' and '.join(conditions)}" if conditions else ""
    return f" for {item} in {value}{test}"


def _put(code: str, value: str, k: str) -> str:
    """Return `code` on `value`, in brackets where its operators would tear it apart."""
    if "(_" not in code and not code.startswith(_COMPARES) and not _is_whole(value):
        value = f"({value})"
    return code.replace("@", k).replace("_", value)


def _is_whole(value: str) -> bool:
    """Say whether no operator stands outside the brackets of an expression."""
    if value.isalnum():
        return True
    depth = 0
    for mark in value:
        depth += (mark in "([") - (mark in ")]")
        if depth == 0 and mark in " -":
            return False
    return True
