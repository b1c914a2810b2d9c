"""A public benchmark as a task.

`Benchmark` implements splits, levels, numbering and prompts; a `Format` reads the rows of one
benchmark and judges answers. Problem number `index` is row number `index` of its split, or of the
rows of one level. Benchmarks have no labels for steps, so `process_ok` equals `grade`.

Worked examples (`shots`) are rows of the split `train`: the official ones if all of them are
present, then the others in file order, without the problem itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from remask.errors import TaskError
from remask.settings import unknown_name
from remask.tasks.base import (
    METRICS,
    Grade,
    Problem,
    Split,
    answer_key,
    check_level,
    compared_by,
    guarded,
)
from remask.tasks.public.source import BenchmarkRow, BenchmarkSource, Hub
from remask.tasks.public.wording import Wording, mark

ALL = "all"


@dataclass(frozen=True, kw_only=True)
class BenchmarkEntry:
    """The content of a row."""

    fields: Mapping[str, str]  # values for the fields of the wording
    gold: str
    solution: str
    level: str = ALL
    facts: Mapping[str, Any] = field(default_factory=dict)
    worked: Mapping[str, str] = field(
        default_factory=dict
    )  # values for the reply of a worked example


class Format(ABC):
    """How to read the rows of a benchmark, and how to judge answers to it."""

    levels: tuple[str, ...] = (ALL,)
    metrics: tuple[str, ...] = METRICS
    critical: str = "number"  # a key of `answers.critical.CRITICAL`

    @abstractmethod
    def read(self, row: BenchmarkRow, seed: int) -> BenchmarkEntry:
        """Return the problem of a row; raise InputError if a field is wrong."""

    @abstractmethod
    def extract(self, text: str) -> str | None:
        """Return the canonical answer in `text`."""

    @abstractmethod
    def judge(self, problem: Problem, text: str) -> Grade:
        """Return the grade of `text`."""

    def split_of(self, row: BenchmarkRow) -> Split | None:
        """Return the split of a row, or None if each split has its own file."""
        return None

    def check(self) -> None:  # noqa: B027
        """Raise now what `judge` would raise later, such as MissingExtra."""


@guarded
class Benchmark:
    """A public benchmark."""

    def __init__(
        self, name: str, form: Format, source: BenchmarkSource, wording: Wording, shots: int = 0
    ) -> None:
        if shots < 0:
            raise TaskError(f"shots is {shots}; ask for 0 worked examples or more.")
        if shots and "train" not in source.hub.splits:
            raise TaskError(
                f"{name} has no split 'train' to take worked examples from; leave shots out."
            )
        self.name = name
        self.shots = shots
        self.form = form
        self.source = source
        self.wording = wording
        self.levels = form.levels
        self.metrics = form.metrics
        self.critical = form.critical
        self._numbers: dict[tuple[Split, str], list[int]] = {}

    def __len__(self) -> int:
        """Return the number of problems of the split `test`."""
        return self.size()

    def size(self, split: Split = "test", level: str = "") -> int:
        """Return the number of problems of a split, or of one level of it."""
        return len(self._rows(split, check_level(self, level, split)))

    def problem(
        self, index: int, *, split: Split = "test", level: str = "", seed: int = 0
    ) -> Problem:
        """Return problem number `index` of a split; an empty level means all levels.

        The seed affects only the order of the options of GPQA.
        """
        numbers = self._rows(split, check_level(self, level, split))
        if not 0 <= index < len(numbers):
            raise TaskError(
                f"{self.name} has {len(numbers)} problems of split {split!r}, level "
                f"{level or ALL!r}; index {index} is not one of 0 to {len(numbers) - 1}."
            )
        number = numbers[index]
        entry = self.form.read(self.source.rows(split).rows[number], seed)
        examples = self._examples(number if split == "train" else None)
        apart = self.wording.turns
        return Problem(
            id=f"{self.name}/{entry.level}/{split}/{seed}/{number}",
            task=self.name,
            level=entry.level,
            prompt=self.wording.fill(entry.fields, () if apart else examples),
            gold=entry.gold,
            solution=entry.solution,
            facts=entry.facts,
            examples=examples if apart else (),
        )

    def extract(self, text: str) -> str | None:
        """Return the canonical answer stated in `text`."""
        return self.form.extract(text)

    @property
    def compared_by(self) -> str:
        """The comparison of answers: "value", "behaviour" or SPELLING."""
        return compared_by(self.form)

    def key(self, problem: Problem, text: str) -> str | None:
        """Return the key of an answer in a vote."""
        return answer_key(self.form, problem, text)

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return the grade of `text`."""
        return self.form.judge(problem, text)

    def grade(self, problem: Problem, text: str) -> bool:
        """Return whether `text` is correct."""
        return self.judge(problem, text).right

    def process_ok(self, problem: Problem, text: str) -> bool:
        """Return the same as `grade`, because benchmarks have no labels for steps."""
        return self.grade(problem, text)

    def canvas_length(self, level: str) -> int:
        """Return the canvas length of the official evaluation, in tokens of the model."""
        return self.wording.length

    def check(self) -> None:
        """Raise now what grading would raise later."""
        self.form.check()

    def provenance(self, split: Split = "test") -> dict[str, str]:
        """Return the origin of the problems, for a manifest."""
        rows = self.source.rows(split)
        origin = {"origin": rows.origin, "sha256": rows.sha256, "wording": self.wording.source}
        if not self.shots:
            return origin
        train, official = self.source.rows("train"), self._shown[0]
        which = "the official rows" if official >= self.shots else "in the order of the file"
        examples = f"{self.shots} rows of the split train, {which}, sha256 {train.sha256}"
        return {**origin, "examples": examples}

    @cached_property
    def _shown(self) -> tuple[int, list[int]]:
        """Return the number of official examples, and the row numbers of all candidates."""
        numbers, rows = self._rows("train", ALL), self.source.rows("train").rows
        if not self.wording.shown:
            return 0, numbers
        marks = {mark(self.form.read(rows[number], 0).fields): number for number in numbers}
        if not marks.keys() >= set(self.wording.shown):
            return 0, numbers
        first = [marks[name] for name in self.wording.shown]
        return len(first), [*first, *(number for number in numbers if number not in first)]

    def _examples(self, own: int | None) -> tuple[tuple[str, str], ...]:
        """Return the worked examples for a problem; `own` is its row in the split `train`."""
        if not self.shots:
            return ()
        chosen = [number for number in self._shown[1] if number != own][: self.shots]
        if len(chosen) < self.shots:
            raise TaskError(
                f"the split 'train' of {self.name} has rows for {len(chosen)} worked examples, and "
                f"{self.shots} are asked for; ask for fewer."
            )
        rows = self.source.rows("train").rows
        entries = [self.form.read(rows[number], 0) for number in chosen]
        return tuple(self.wording.example(entry.fields, entry.worked) for entry in entries)

    def _rows(self, split: Split, level: str) -> list[int]:
        if split not in self.source.hub.splits:
            there = ", ".join(self.source.hub.splits)
            raise TaskError(f"{self.name} has no split {split!r}; choose one of {there}.")
        if (split, level) not in self._numbers:
            rows = self.source.rows(split).rows
            self._numbers[split, level] = [
                number
                for number, row in enumerate(rows)
                if self.form.split_of(row) in (None, split)
                and (level == ALL or self.form.read(row, 0).level == level)
            ]
        return self._numbers[split, level]


@dataclass(frozen=True, kw_only=True)
class BenchmarkSpec:
    """A public benchmark: the source, format and prompts of its rows."""

    name: str
    hub: Hub
    form: Callable[[bool], Format]  # argument: whether grading may run the model's code
    wordings: Mapping[str, Wording]
    mixed: bool = False  # one file holds several splits

    def task(
        self,
        *,
        path: Path | None = None,
        allow_execution: bool = False,
        wording: str = "llada",
        shots: int = 0,
    ) -> Benchmark:
        """Return the benchmark as a task.

        Args:
            path: a file, or a folder with a file per split; None: the hub.
            allow_execution: let grading run the model's code (HumanEval, MBPP).
            wording: whose official prompt to ask with, "llada" or "dream".
            shots: worked examples to show, of the split "train".
        """
        if wording not in self.wordings:
            raise unknown_name(f"wording of {self.name}", wording, self.wordings, error=TaskError)
        source = BenchmarkSource(hub=self.hub, path=path, mixed=self.mixed)
        form = self.form(allow_execution)
        return Benchmark(self.name, form, source, self.wordings[wording], shots)
