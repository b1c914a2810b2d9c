"""The generated tasks, by name."""

from remask.errors import TaskError
from remask.tasks.base import Task
from remask.tasks.choice import Choice
from remask.tasks.countdown import Countdown
from remask.tasks.pycode import PyCode
from remask.tasks.wordmath import WordMath

TASKS: dict[str, Task] = {
    "wordmath": WordMath(),
    "countdown": Countdown(),
    "choice": Choice(),
    "pycode": PyCode(),
}


def task(name: str) -> Task:
    """Return the task of this name, or raise with the names there are."""
    if name not in TASKS:
        raise TaskError(f"task {name!r} is unknown; choose one of {', '.join(TASKS)}.")
    return TASKS[name]
