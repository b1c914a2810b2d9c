"""The problems that the model is asked: three tests, and what is chosen and fitted on.

The test problems come from the files of the benchmarks' authors. Validation uses rows that
`studies.language.text` held out: GSM8K's own, MAWPS's own, and for SVAMP, which has only a test
split, MAWPS's and the stories. No test row is used to choose a setting.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from remask.errors import InputError
from remask.records.jsonl import encode, parse_line, replace_file, write_text
from remask.tasks import task as find_task
from remask.tasks.base import Split
from remask.tasks.public.benchmark import Benchmark
from remask.tasks.public.source import read_file
from studies.language.text.corpus import bare

BENCHMARKS = ("gsm8k", "svamp", "mawps")
SOURCES = {"gsm8k": ("gsm8k",), "svamp": ("mawps", "stories"), "mawps": ("mawps",)}
_TESTS = {
    "gsm8k": "gsm8k/test.jsonl.gz",
    "svamp": "svamp/SVAMP.json.gz",
    "mawps": "mawps/testset.json.gz",
}
_VALID_MAWPS = "mawps/validset.json.gz"


class ProblemSet(NamedTuple):
    """Problems in a file, and the task that reads and grades them."""

    task: str
    path: Path
    split: Split

    def size(self) -> int:
        """Return how many there are."""
        return self._benchmark().size(self.split)

    def sha256(self) -> str:
        """Return the checksum that a manifest has of them."""
        return self._benchmark().provenance(self.split)["sha256"]

    def _benchmark(self) -> Benchmark:
        task = find_task(self.task, path=self.path)
        assert isinstance(task, Benchmark), "all of them are public"
        return task


def test_set(data: Path, name: str) -> ProblemSet:
    """Return the test problems of a benchmark."""
    return ProblemSet(name, data / _TESTS[name], "test")


def validation_set(out: Path, name: str) -> ProblemSet:
    """Return what a benchmark is validated with, as `write_validation` wrote it."""
    if name == "mawps":
        return ProblemSet(name, out / "data" / name / "validset.json", "validation")
    return ProblemSet("gsm8k", out / "data" / name / "train.jsonl", "train")


def write_validation(data: Path, rows: Path, out: Path) -> None:
    """Write the rows held out, one file for each benchmark."""
    held_out = _held_out(rows)
    for name in BENCHMARKS:
        path = validation_set(out, name).path
        path.parent.mkdir(parents=True, exist_ok=True)
        own = [row for row in held_out if row["source"] in SOURCES[name]]
        if not own:
            raise InputError(f"{rows} has no rows of {' or '.join(SOURCES[name])} for {name}.")
        if name == "mawps":
            write_text(path, json.dumps(_published(data, own), indent=1) + "\n")
        else:
            replace_file(path, encode(map(_entry, own)))


def _held_out(rows: Path) -> list[dict[str, str]]:
    path = rows / "valid.jsonl"
    if not path.is_file():
        raise InputError(f"{rows} has no valid.jsonl; make it with studies.language.text build.")
    lines = path.read_bytes().splitlines()
    read = [parse_line(line, path, number) for number, line in enumerate(lines, 1)]
    for number, row in enumerate(read, 1):
        if not all(isinstance(row.get(f), str) for f in ("prompt", "response", "source")):
            raise InputError(f"{path} line {number} lacks prompt, response or source.")
    return read


def _entry(row: dict[str, str]) -> dict[str, str]:
    """Return a row in GSM8K's fields."""
    return {"question": bare(row["prompt"]), "answer": row["response"]}


def _published(data: Path, held_out: Iterable[dict[str, str]]) -> list[dict[str, object]]:
    """Return MAWPS's own rows of these questions, as they were published."""
    asked = {row["prompt"] for row in held_out}
    path = data / _VALID_MAWPS
    task = find_task("mawps", path=path)
    published = [dict(row.fields) for row in read_file(path)]
    kept = [
        row
        for number, row in enumerate(published)
        if task.problem(number, split="validation").prompt in asked
    ]
    if not kept:
        raise InputError(f"{path} has none of the questions of MAWPS that were held out.")
    return kept
