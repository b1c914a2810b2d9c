"""The tasks by name: four generated tasks and the public benchmarks.

Pass your own task as an object, or as `module:name` on the command line.
"""

from pathlib import Path

from remask.errors import TaskError
from remask.extension import resolve
from remask.settings import checked, unknown_name
from remask.tasks import public
from remask.tasks.base import Problem, Task
from remask.tasks.choice import Choice
from remask.tasks.countdown import Countdown
from remask.tasks.public.benchmark import Benchmark, BenchmarkSpec
from remask.tasks.pycode import PyCode
from remask.tasks.wordmath import WordMath

TASKS: dict[str, Task] = {made.name: made for made in (WordMath(), Countdown(), Choice(), PyCode())}
KNOWN: dict[str, Task | BenchmarkSpec] = {**TASKS, **public.BENCHMARKS}
WORDINGS = ("llada", "dream")  # prompts of the official evaluations
_MEMBERS = ("name", "levels", "metrics", "problem", "extract", "judge", "grade", "canvas_length")


@checked
def task(
    given: str | Task | BenchmarkSpec,
    *,
    path: Path | None = None,
    allow_execution: bool = False,
    wording: str = "llada",
    shots: int = 0,
) -> Task:
    """Return a task by its name or by `module:name`; a task object is returned unchanged.

    The other arguments apply to public benchmarks (see `BenchmarkSpec.task`).
    """
    if isinstance(given, str) and given not in KNOWN and ":" not in given:
        raise unknown_name("task", given, KNOWN, error=TaskError)
    chosen = resolve("task", given, KNOWN)
    if isinstance(chosen, BenchmarkSpec):
        return chosen.task(path=path, allow_execution=allow_execution, wording=wording, shots=shots)
    resolve("task", chosen, {}, _MEMBERS)
    if path is not None:
        raise TaskError(f"task {chosen.name!r} is generated and reads no file; leave {path} out.")
    if shots:
        raise TaskError(f"task {chosen.name!r} is asked without worked examples; leave shots out.")
    if wording not in WORDINGS:
        raise unknown_name("wording", wording, WORDINGS, error=TaskError)
    return chosen


@checked
def steps_ok(task: Task, problem: Problem, text: str, right: bool) -> bool | None:
    """Return whether answer and steps are correct, or None if the task has no labels for steps."""
    if isinstance(task, Benchmark):
        return None
    return right and task.process_ok(problem, text)
