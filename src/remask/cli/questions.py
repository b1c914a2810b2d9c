"""What a command asks, and the answer it is given: a prompt of the user's, or a task's problem.

No torch here: which flags fit together is said before anything is loaded.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from remask.errors import InputError
from remask.records import text_file
from remask.tasks.settings import AnswerKind, WordingName

if TYPE_CHECKING:
    from remask.tasks.base import Problem, Task

# What every usage mistake descends from; typer exports only this child of it.
UsageError: Any = typer.BadParameter.__mro__[1]


class Rows(NamedTuple):
    """Where a public benchmark's problems are from, and how they are asked and graded."""

    path: Path | None
    wording: WordingName
    allow_execution: bool
    shots: int = 0


class Question(NamedTuple):
    """What is asked: a prompt of the user's, or a problem drawn from a task."""

    prompt: str
    kind: str
    task: "Task | None" = None
    problem: "Problem | None" = None

    @property
    def examples(self) -> tuple[tuple[str, str], ...]:
        """The worked examples that are shown in earlier turns."""
        return () if self.problem is None else self.problem.examples

    @property
    def canvas(self) -> int | None:
        """How many tokens the solutions of a task need; None where none is named."""
        if self.task is not None and self.problem is not None:
            return self.task.canvas_length(self.problem.level)
        from remask import api

        return api.reader(self.kind).canvas

    def grade(self, text: str) -> dict[str, Any]:
        """Return what is known of an answer's truth: nothing, for a prompt of the user's."""
        if self.task is None or self.problem is None:
            return {}
        from remask.tasks import steps_ok

        right = self.task.grade(self.problem, text)
        return {
            "id": self.problem.id,
            "gold": self.problem.gold,
            "right": right,
            "process_ok": steps_ok(self.task, self.problem, text, right),
        }


def question(
    prompt: str | None,
    task: str,
    level: str,
    kind: AnswerKind | None,
    seed: int,
    rows: Rows,
) -> Question:
    """Return what the user asks: exactly one of a prompt and a task."""
    if (prompt is None) == (task == ""):
        raise UsageError("give either a PROMPT or --task, one of the two")
    if prompt is not None:
        _refuse_idle(level=level, data=rows.path, shots=rows.shots)
        return Question(prompt, kind or "number")
    from remask.tasks import task as find
    from remask.tasks.public.benchmark import Benchmark

    family = find(task, **rows._asdict())
    if isinstance(family, Benchmark):
        family.check()
    problem = family.problem(seed, split="test", level=level)
    return Question(problem.prompt, kind or task, family, problem)


def _refuse_idle(**flags: object) -> None:
    """Refuse flags of a task that would do nothing beside a prompt of the user's own."""
    for name, value in flags.items():
        if value:
            raise UsageError(f"--{name} {value} belongs to --task; leave it out beside a PROMPT")


def answer(positional: str | None, text: str | None, file: Path | None) -> str:
    """Return the answer to be verified from the one place that was named."""
    given = [value for value in (positional, text, file) if value is not None]
    if len(given) != 1:
        raise UsageError("give the answer once: as ANSWER, with --answer or with --answer-file")
    if text is not None:
        return text
    if str(given[0]) == "-":
        raw, what = sys.stdin.buffer.read(), "standard input"
    elif file is not None:
        raw, what = file.read_bytes(), str(file)
    else:
        return str(positional)
    return text_file.decode(raw, what, InputError).rstrip("\r\n")
