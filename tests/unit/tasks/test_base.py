"""Problems on their way through a table."""

import pyarrow as pa
import pytest

from remask.errors import TaskError
from remask.tasks import task as find_task
from remask.tasks.base import Problem


@pytest.mark.parametrize("name", ["wordmath", "countdown", "choice", "pycode"])
def test_a_column_of_problems_brings_them_back(name: str) -> None:
    """Facts differ from row to row, and those of pycode have texts beside numbers."""
    task = find_task(name)
    problems = [task.problem(i, level=level) for level in task.levels for i in range(3)]
    table = pa.Table.from_pylist([{"problem": p.as_row()} for p in problems])
    for problem, row in zip(problems, table["problem"].to_pylist(), strict=True):
        again = Problem(**row)
        assert again.as_row() == problem.as_row()
        assert task.judge(again, problem.solution).right
        assert task.process_ok(again, problem.solution)


def test_worked_examples_come_back_as_they_were() -> None:
    one = Problem(id="a", task="t", level="", prompt="p", gold="1", solution="s",
                  facts={"n": [1, "b"]}, examples=(("q", "a"),))  # fmt: skip
    assert Problem(**pa.array([one.as_row()]).to_pylist()[0]) == one


def test_facts_that_are_no_json_are_named() -> None:
    for text in ("{", "[1]", ""):
        with pytest.raises(TaskError, match=r"facts of problem a are .* not a JSON object"):
            Problem(id="a", task="t", level="", prompt="", gold="", solution="", facts=text)  # type: ignore[arg-type]
