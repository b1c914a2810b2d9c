"""The tasks, by name: four that are generated here, and the public benchmarks."""

from pathlib import Path

from remask.errors import TaskError
from remask.tasks import public
from remask.tasks.base import Problem, Task
from remask.tasks.choice import Choice
from remask.tasks.countdown import Countdown
from remask.tasks.public.benchmark import Benchmark
from remask.tasks.pycode import PyCode
from remask.tasks.wordmath import WordMath

TASKS: dict[str, Task] = {
    "wordmath": WordMath(),
    "countdown": Countdown(),
    "choice": Choice(),
    "pycode": PyCode(),
}


def task(
    name: str,
    *,
    path: Path | None = None,
    allow_execution: bool = False,
    wording: str = "llada",
    shots: int = 0,
) -> Task:
    """Return the task of this name, or raise with the names there are.

    The arguments after the name are those of `public.task`; generated tasks need none of them.
    """
    if name in TASKS and path is not None:
        raise TaskError(f"task {name!r} is generated and reads no file; leave {path} out.")
    if name in TASKS and shots:
        raise TaskError(f"task {name!r} is asked without worked examples; leave shots out.")
    if name in TASKS:
        return TASKS[name]
    if name in public.NAMES:
        return public.task(
            name, path=path, allow_execution=allow_execution, wording=wording, shots=shots
        )
    known = ", ".join((*TASKS, *public.NAMES))
    raise TaskError(f"task {name!r} is unknown; choose one of {known}.")


def steps_ok(task: Task, problem: Problem, text: str, right: bool) -> bool | None:
    """Return whether a right answer has right steps too; None where steps have no labels."""
    if isinstance(task, Benchmark):
        return None
    return right and task.process_ok(problem, text)
