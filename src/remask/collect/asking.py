"""Which problems a model can be asked: their prompts, or the sentence that says why not.

A prompt may be longer than the model's context, or hold what its tokenizer refuses. Such a problem
is no reason to stop: it becomes a record with `error` in place of answers, is counted beside the
others, and can be tried again.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from remask.denoisers.base import Denoiser
from remask.errors import InputError
from remask.sampling.batches import check_length, whole_length
from remask.tasks.base import Problem


class Asked(NamedTuple):
    """A problem as the model gets it."""

    problem: Problem
    prompt: list[int]  # empty where it cannot be asked
    error: str = ""  # why not


def ask(denoiser: Denoiser, problem: Problem, length: int) -> Asked:
    """Return the prompt of a problem that is answered on a canvas of `length` tokens."""
    try:
        prompt = denoiser.tokenizer.render(problem.prompt, problem.examples)
        check_length(denoiser, len(prompt), whole_length(denoiser, len(prompt), length))
    except InputError as error:
        return Asked(problem, [], f"{problem.id} cannot be asked: {error}")
    return Asked(problem, prompt)


def refuse_all(questions: Iterable[Asked]) -> None:
    """Raise where not one of the problems can be asked: that is no matter of single rows."""
    first = ""
    for question in questions:
        if not question.error:
            return
        first = first or question.error
    raise InputError(first)


def error_record(question: Asked) -> dict[str, Any]:
    """Return the row that stands for all answers to a problem that cannot be asked."""
    problem = question.problem
    return {
        "id": problem.id,
        "task": problem.task,
        "level": problem.level,
        "number": 0,
        "prompt": problem.prompt,
        "gold": problem.gold,
        "error": question.error,
    }
