"""HumanEval and MBPP: Python functions, judged by running their tests.

Grading runs what a model wrote, in a process with limits (`tasks.execution`). This is no security
boundary, so the caller must allow it: `allow_execution=True`. `listing` finds the program
in a text.
"""

import builtins
import re
from collections.abc import Sequence

from remask.errors import TaskError
from remask.tasks.base import SPELLING, TIERS, Grade, Problem, Split
from remask.tasks.execution import SECONDS, run_tests, watch_calls
from remask.tasks.public.benchmark import BenchmarkEntry, BenchmarkSpec, Format
from remask.tasks.public.listing import (
    ListedProgram,
    compiles,
    completed,
    continued,
    defines,
    find_program,
    pieces_of,
)
from remask.tasks.public.sampled import calls_in, calls_of_tests
from remask.tasks.public.source import BenchmarkRow, Hub
from remask.tasks.public.wording import DREAM, LLADA, Wording
from remask.tasks.pycode import PyCode

HUMANEVAL_HUB = Hub(
    repository="openai/openai_humaneval",
    configs=("openai_humaneval",),
    licence="MIT",
    revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
    splits={"test": "test"},
    sizes={"test": 164},
)
MBPP_HUB = Hub(
    repository="google-research-datasets/mbpp",
    configs=("full",),
    licence="CC BY 4.0",
    revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c",
    splits={"train": "prompt+train", "validation": "validation", "test": "test"},
    sizes={"train": 384, "validation": 90, "test": 500},
)


class _Tested(Format):
    name: str
    metrics = PyCode.metrics
    critical = "code"

    def __init__(self, *, allow_execution: bool = False) -> None:
        self.allow_execution = allow_execution

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
                f"{self.name} is graded by running the model's code, which requires"
                " allow_execution=True (--allow-execution). The limits on a program are no security"
                " boundary; use a container."
            )

    def run(self, program: ListedProgram, source: str, tests: Sequence[str]) -> Grade:
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


class HumanEval(_Tested):
    """Rows with `prompt`, `entry_point`, `canonical_solution` and `test`."""

    name = "humaneval"

    def read(self, row: BenchmarkRow, seed: int) -> BenchmarkEntry:
        """Return the function to complete, and the tests of its entry point."""
        prompt, entry_point = row.text("prompt"), row.text("entry_point").strip()
        solution = prompt + row.text("canonical_solution")
        if not entry_point.isidentifier():
            raise row.wrong("entry_point", "is not the name of a function")
        return BenchmarkEntry(
            fields={"prompt": prompt},
            gold=self.extract(solution) or "",
            solution=solution,
            facts={
                "prompt": prompt,
                "entry_point": entry_point,
                "tests": [f"{row.text('test')}\ncheck({entry_point})"],
                "record": str(row.fields.get("task_id", "")),
            },
        )

    def program(self, problem: Problem, text: str) -> ListedProgram:
        """Return the function to be tested, made of the prompt where the answer goes on with it."""
        prompt, name = problem.facts["prompt"], problem.facts["entry_point"]
        program = find_program(text, [name])
        if defines(program.source, [name]):
            return program._replace(source=completed(prompt, name, program.source))
        bodies = (continued(prompt, piece.strip("\n")) for piece in pieces_of(text))
        source = next(filter(None, bodies), None)
        return program if source is None else program._replace(source=source)

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the function passes its tests."""
        program = self.program(problem, text)
        prompt, name = problem.facts["prompt"], problem.facts["entry_point"]
        head = prompt.rpartition(f"def {name}(")[0]
        # Some tests call a helper of the prompt: they need its code, not the program's version.
        helpers = head if "def " in head and compiles(head) else ""
        tests = [f"{helpers}\n{test}" for test in problem.facts["tests"]]
        return self.run(program, program.source, tests)

    def key(self, problem: Problem, text: str) -> str | None:
        """Return what the function does in the calls that the prompt shows."""
        facts = problem.facts
        calls = calls_in(facts["prompt"], facts["entry_point"])
        return self.behaviour(text, self.program(problem, text).source, calls)


class Mbpp(_Tested):
    """Rows with `text` (or `prompt`), `code`, `task_id`, `test_list` and `test_setup_code`.

    One file holds every split, and the published ranges of `task_id` tell them apart: 11 to 510 are
    for testing, 511 to 600 for validation, the others (1 to 10 were examples in prompts) for
    training.
    """

    name = "mbpp"

    def read(self, row: BenchmarkRow, seed: int) -> BenchmarkEntry:
        """Return the description with the tests, which the official prompt shows."""
        tests, setup = row.texts("test_list"), row.fields.get("test_setup_code") or ""
        if not tests:
            raise row.wrong("test_list", "is empty")
        solution = row.text("code").replace("\r\n", "\n")
        return BenchmarkEntry(
            fields={"task": row.text("text", "prompt"), "tests": "\n".join(tests)},
            gold=self.extract(solution) or "",
            solution=solution,
            facts={
                "tests": tests,
                "setup": str(setup).replace("\r\n", "\n"),
                "record": str(row.fields.get("task_id", "")),
            },
            worked={"code": row.text("code").rstrip()},  # line ends as they are: so it is shown
        )

    def split_of(self, row: BenchmarkRow) -> Split | None:
        """Return the split of a row by its number."""
        number = str(row.value("task_id"))
        if not number.isdecimal():
            raise row.wrong("task_id", "is not a number")
        if 11 <= int(number) <= 510:
            return "test"
        return "validation" if 511 <= int(number) <= 600 else "train"

    def program(self, problem: Problem, text: str) -> ListedProgram:
        """Return the program to be tested: the one that defines what the tests call."""
        return find_program(text, _called(problem.facts["tests"]))

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the program passes its tests; what they build on comes after it."""
        program = self.program(problem, text)
        return self.run(program, self._whole(problem, program), problem.facts["tests"])

    def key(self, problem: Problem, text: str) -> str | None:
        """Return what the program does in the calls that the prompt shows."""
        calls = calls_of_tests(problem.facts["tests"])
        source = self._whole(problem, self.program(problem, text))
        return self.behaviour(text, source, calls)

    def _whole(self, problem: Problem, program: ListedProgram) -> str:
        return f"{program.source}\n{problem.facts['setup']}"


def _called(tests: Sequence[str]) -> list[str]:
    names = re.findall(r"(?<![.\w])([A-Za-z_]\w*)\s*\(", "\n".join(tests))
    return [name for name in dict.fromkeys(names) if not hasattr(builtins, name)]


HUMANEVAL = BenchmarkSpec(
    name="humaneval",
    hub=HUMANEVAL_HUB,
    form=lambda allow_execution: HumanEval(allow_execution=allow_execution),
    wordings={
        "llada": Wording(
            template="Complete the following python code:\n{prompt}",
            length=512,
            source=LLADA + "humaneval/humaneval_gen_8e312c.py",
        ),
        "dream": Wording(
            template="Write a solution to the following problem and make sure that it passes the "
            "tests:\n```{prompt}",
            length=768,
            source=DREAM + "humaneval/humaneval_instruct.yaml",
            without="the beginning of the reply",
        ),
    },
)
_MBPP = (
    "You are an expert Python programmer, and here is your task: {task} "
    "Your code should pass these tests:\n\n"
)
_SHOWN = ("a3aeabc1e9ea", "5b19fa13872d", "caf5f7eef063")  # tasks 2, 3 and 4
MBPP = BenchmarkSpec(
    name="mbpp",
    hub=MBPP_HUB,
    form=lambda allow_execution: Mbpp(allow_execution=allow_execution),
    wordings={
        "llada": Wording(
            template=_MBPP + " {tests}  \n",
            reply="[BEGIN]\n '{code}' \n[DONE] \n\n ",
            length=256,
            shown=_SHOWN,
            source=LLADA + "mbpp/mbpp_gen_830460.py",
            without="the beginning of the reply",
        ),
        "dream": Wording(
            template=_MBPP + "{tests}",
            reply="\n[BEGIN]\n{code}\n[DONE]",
            turns=False,
            length=1024,
            shown=_SHOWN,
            source=DREAM + "mbpp/mbpp_instruct.yaml",
            without="the beginning of the reply",
        ),
    },
    mixed=True,
)
