"""HumanEval and MBPP: Python functions, judged by running their tests.

Judging runs what a model wrote, in a child with limits (`tasks.execution`). That stops accidents
and is no security boundary, so it must be allowed: `allow_execution=True`. A program is taken from
its Markdown fence, or from between `[BEGIN]` and `[DONE]`, or from the first line that looks like
code up to where it stops being Python.
"""

import re
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from remask.errors import TaskError
from remask.tasks.base import SPELLING, TIERS, Grade, Problem, Split
from remask.tasks.execution import run_tests, watch_calls
from remask.tasks.public.benchmark import ALL, Entry
from remask.tasks.public.sampled import calls_in, calls_of_tests
from remask.tasks.public.source import Hub, Row
from remask.tasks.pycode import PyCode

SECONDS = 10.0  # for one program and all its tests; some published solutions take seconds
MAX_PROGRAM = 20_000  # characters that are searched for where Python ends
_TRIES = 40

HUMANEVAL_HUB = Hub(
    repository="openai/openai_humaneval",
    revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
    licence="MIT",
    configs=("openai_humaneval",),
    splits={"test": "test"},
    sizes={"test": 164},
)
MBPP_HUB = Hub(
    repository="google-research-datasets/mbpp",
    revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c",
    licence="CC BY 4.0",
    configs=("full",),
    splits={"train": "prompt+train", "validation": "validation", "test": "test"},
    sizes={"train": 384, "validation": 90, "test": 500},
)
_FENCE = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_MARKED = re.compile(r"\[BEGIN\](.*?)(?:\[DONE\]|\Z)", re.DOTALL)
_CODE_LINE = re.compile(r"^(?:async def |def |class |import |from |@)", re.MULTILINE)
_NEW_BLOCK = re.compile(r"^(?=\S)", re.MULTILINE)


class Program(NamedTuple):
    """A program found in a text."""

    source: str
    tier: str


def find_program(text: str) -> Program:
    """Return the program of `text`; of several fences, the first that defines a function."""
    fenced = [body for body in _FENCE.findall(text) if body.strip()]
    if fenced:
        best = next((body for body in fenced if _CODE_LINE.search(body)), fenced[0])
        return Program(best.rstrip(), TIERS[1])
    marked = _MARKED.search(text)
    if marked is not None and marked[1].strip():
        return Program(_unquoted(marked[1]), TIERS[1])
    start = _CODE_LINE.search(text)
    if start is None or compiles(text):
        return Program(text.strip("\n").rstrip(), TIERS[3] if text.strip() else TIERS[None])
    return Program(_python_only(text[start.start() :]), TIERS[3])


def _unquoted(text: str) -> str:
    """Return a program without the quotes that the worked examples of LLaDA put around it."""
    text = text.strip("\n").rstrip()
    inner = text.strip()
    quoted = len(inner) > 1 and inner[0] == inner[-1] and inner[0] in "'\""
    return inner[1:-1] if quoted and not compiles(text) else text


def _python_only(text: str) -> str:
    """Return the longest beginning of `text` that is Python; all of it where none is."""
    text = text.rstrip()
    if compiles(text):
        return text
    ends = [match.start() for match in _NEW_BLOCK.finditer(text)][1:]
    for end in ends[::-1][:_TRIES]:
        if compiles(text[:end]):
            return text[:end].rstrip()
    return text


def compiles(source: str) -> bool:
    """Say whether a text is Python; it is not run, and a very long one is not looked at."""
    if len(source) > MAX_PROGRAM:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape in a candidate's string
            # A syntax tree is not enough: it lets a `return` stand outside of a function.
            compile(source, "candidate", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    return True


def completed(prompt: str, entry_point: str, program: str) -> str:
    """Return a program that defines `entry_point`, of an answer to a HumanEval prompt.

    An answer that repeats the function gets what stands before it in the prompt (imports, helpers).
    One that goes on where the prompt ends is joined to it, indented where it lost its indentation,
    in every line or in the first alone.
    """
    definition = _definition(entry_point)
    if definition.search(program):
        head = definition.search(prompt)
        return prompt[: head.start() if head else 0] + "\n" + textwrap.dedent(program)
    bodies = [program]
    if not program[:1].isspace():
        bodies = [textwrap.indent(program, "    "), "    " + program]
    return next(filter(compiles, (prompt + body for body in bodies)), prompt + program)


def _definition(entry_point: str) -> re.Pattern[str]:
    return re.compile(rf"^\s*(?:async )?def {re.escape(entry_point)}\b", re.MULTILINE)


@dataclass(kw_only=True)
class _Tested:
    """What the two have in common."""

    name: str
    allow_execution: bool = False
    levels: tuple[str, ...] = (ALL,)
    metrics: tuple[str, ...] = PyCode.metrics

    def extract(self, text: str) -> str | None:
        """Return the program with its variables renamed, else as it is.

        Code has no answer to compare, and `answer_match` does not exist for it.
        """
        source = find_program(text).source
        return PyCode().extract(source) or source.strip() or None

    @property
    def compared_by(self) -> str:
        """What two answers are compared by: behaviour is known only where code may be run."""
        return "behaviour" if self.allow_execution else SPELLING

    def behaviour(self, text: str, source: str, calls: Sequence[str]) -> str | None:
        """Return what a program does in some calls; its spelling where it is not to be run."""
        if not self.allow_execution or not calls:
            return self.extract(text)
        return watch_calls(source, calls, seconds=SECONDS)

    def check(self) -> None:
        """Raise where running code was not allowed."""
        if not self.allow_execution:
            raise TaskError(
                f"{self.name} is graded by running the model's code, in a child process with limits"
                " that is no security boundary; set allow_execution=True (--allow-execution) where"
                " you accept that, best in a container."
            )

    def run(self, program: Program, source: str, tests: Sequence[str]) -> Grade:
        """Return whether `source`, made of the program, passes every test."""
        self.check()
        if not program.source.strip():
            return Grade(
                right=False, extracted=None, tier=TIERS[None], method="tests", reason="no program"
            )
        outcome = run_tests(source, tests, seconds=SECONDS)
        counted = f" of {len(tests)}" if " in test " in outcome.reason else ""
        return Grade(
            right=outcome.passed,
            extracted=program.source,
            tier=program.tier,
            method="tests",
            reason=outcome.reason + counted,
        )


@dataclass(kw_only=True)
class HumanEval(_Tested):
    """Rows with `prompt`, `entry_point`, `canonical_solution` and `test`."""

    name: str = "humaneval"

    def read(self, row: Row, seed: int) -> Entry:
        """Return the function to complete, and the tests of its entry point."""
        prompt, entry_point = row.text("prompt"), row.text("entry_point").strip()
        solution = prompt + row.text("canonical_solution")
        if not entry_point.isidentifier():
            raise row.wrong("entry_point", "is not the name of a function")
        return Entry(
            asked={"prompt": prompt},
            gold=self.extract(solution) or "",
            solution=solution,
            facts={
                "prompt": prompt,
                "entry_point": entry_point,
                "tests": [f"{row.text('test')}\ncheck({entry_point})"],
                "record": str(row.fields.get("task_id", "")),
            },
        )

    def split_of(self, row: Row) -> Split | None:
        """Return None: there is but one split."""
        return None

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the function passes its tests."""
        return self.run(*self._whole(problem, text), problem.facts["tests"])

    def key(self, problem: Problem, text: str) -> str | None:
        """Return what the function does in the calls that the prompt shows."""
        facts = problem.facts
        calls = calls_in(facts["prompt"], facts["entry_point"])
        return self.behaviour(text, self._whole(problem, text)[1], calls)

    def _whole(self, problem: Problem, text: str) -> tuple[Program, str]:
        """Return what the answer holds, and the whole program it makes with the prompt."""
        program, facts = find_program(text), problem.facts
        if program.tier == TIERS[3] and not _definition(facts["entry_point"]).search(text):
            program = program._replace(source=text.strip("\n").rstrip())  # a body may hold anything
        return program, completed(facts["prompt"], facts["entry_point"], program.source)


@dataclass(kw_only=True)
class Mbpp(_Tested):
    """Rows with `text` (or `prompt`), `code`, `task_id`, `test_list` and `test_setup_code`.

    One file holds every split, and the published ranges of `task_id` tell them apart: 11 to 510 are
    for testing, 511 to 600 for validation, the others (1 to 10 were examples in prompts) for
    training.
    """

    name: str = "mbpp"

    def read(self, row: Row, seed: int) -> Entry:
        """Return the description with the tests, which the official prompt shows."""
        tests, setup = row.texts("test_list"), row.fields.get("test_setup_code") or ""
        if not tests:
            raise row.wrong("test_list", "is empty")
        solution = row.text("code").replace("\r\n", "\n")
        return Entry(
            asked={"task": row.text("text", "prompt"), "tests": "\n".join(tests)},
            gold=self.extract(solution) or "",
            solution=solution,
            facts={
                "tests": tests,
                "setup": str(setup).replace("\r\n", "\n"),
                "record": str(row.fields.get("task_id", "")),
            },
            worked={"code": row.text("code").rstrip()},  # line ends as they are: so it is shown
        )

    def split_of(self, row: Row) -> Split | None:
        """Return the split of a row by its number."""
        number = str(row.value("task_id"))
        if not number.isdecimal():
            raise row.wrong("task_id", "is not a number")
        if 11 <= int(number) <= 510:
            return "test"
        return "validation" if 511 <= int(number) <= 600 else "train"

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the program passes its tests; what they build on comes after it."""
        return self.run(*self._whole(problem, text), problem.facts["tests"])

    def key(self, problem: Problem, text: str) -> str | None:
        """Return what the program does in the calls that the prompt shows."""
        calls = calls_of_tests(problem.facts["tests"])
        return self.behaviour(text, self._whole(problem, text)[1], calls)

    def _whole(self, problem: Problem, text: str) -> tuple[Program, str]:
        """Return what the answer holds, and that with what its tests build on."""
        program = find_program(text)
        return program, f"{program.source}\n{problem.facts['setup']}"
