"""What a command asks the model, and the answer it is given: a prompt, or a task's problem.

No torch here: which flags fit together is said before anything is loaded.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from remask.cli.flags import UsageError
from remask.errors import InputError
from remask.records import text_file
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.tasks.settings import AnswerKind, TaskSettings

if TYPE_CHECKING:
    from remask.denoisers.base import Denoiser
    from remask.tasks.base import Problem, Task


_LONGEST = 1_000_000  # bytes of an answer


class Query(NamedTuple):
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

    def sampler(self, denoiser: "Denoiser", given: Mapping[str, Any]) -> SamplerSettings:
        """Return how answers are drawn: by the preset, the task and what is given."""
        kind = self.kind if self.task is None else self.task.name
        return sampler_settings(denoiser, kind=kind, canvas=self.canvas, **given)

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


def read_query(prompt: str | None, task: TaskSettings, kind: AnswerKind | None, seed: int) -> Query:
    """Return what the user asks: exactly one of a prompt and a task."""
    if (prompt is None) == (task.task == ""):
        raise UsageError("give either a PROMPT or --task, one of the two")
    if prompt is not None:
        wording = "" if task.wording == TaskSettings.wording else task.wording
        _refuse_idle(level=task.level, data=task.data, shots=task.shots, wording=wording)
        return Query(prompt, kind or "number")
    from remask.tasks import task as find
    from remask.tasks.public.benchmark import Benchmark

    family = find(
        task.task, path=task.data, wording=task.wording, shots=task.shots,
        allow_execution=task.allow_execution,
    )  # fmt: skip
    if isinstance(family, Benchmark):
        family.check()
    problem = family.problem(seed, split="test", level=task.level)
    return Query(problem.prompt, kind or task.task, family, problem)


def _refuse_idle(**flags: object) -> None:
    """Refuse flags of a task that would do nothing beside a prompt of the user's own."""
    for name, value in flags.items():
        if value:
            raise UsageError(f"--{name} {value} belongs to --task; leave it out beside a PROMPT")


def read_answer(positional: str | None, text: str | None, file: Path | None) -> str:
    """Return the answer to be verified from the one place that was named."""
    given = [value for value in (positional, text, file) if value is not None]
    if len(given) != 1:
        raise UsageError("give the answer once: as ANSWER, with --answer or with --answer-file")
    if text is not None:
        return text
    if str(given[0]) == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed; give the answer with --answer")
        raw, what = sys.stdin.buffer.read(_LONGEST + 1), "standard input"
    elif file is not None:
        with text_file.open_file(file, InputError) as opened:
            raw, what = opened.read(_LONGEST + 1), str(file)
    else:
        return str(positional)
    if len(raw) > _LONGEST:
        raise InputError(f"{what} must have at most {_LONGEST:,} bytes, got more.")
    return text_file.decode(raw, what, InputError).rstrip("\r\n")
