"""A public benchmark as a task: rows become problems, and a format reads and judges them.

`Benchmark` knows splits, levels, numbering and prompts; what a row of GSM8K or MBPP means is its
`Format`. The rows come as they stand in the file: problem number `index` is row number `index` of
its split, or of the rows of one level. Nothing is known of the steps of an answer here, so
`process_ok` says no more than `grade`.

Worked examples (`shots`) are rows of the split `train`: the official ones first where all of them
are there, then the others in the order of the file, and never the problem itself.
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
    """What a format reads in a row."""

    fields: Mapping[str, str]  # what the places of the wording are filled with
    gold: str
    solution: str
    level: str = ALL
    facts: Mapping[str, Any] = field(default_factory=dict)
    worked: Mapping[str, str] = field(default_factory=dict)  # for the reply of a worked example


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
        """Return problem number `index` of a split; the empty level is all of them.

        The seed decides the order of the options of GPQA, and nothing else.
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
        """What two answers are compared by."""
        return compared_by(self.form)

    def key(self, problem: Problem, text: str) -> str | None:
        """Return what an answer is compared by in a vote."""
        return answer_key(self.form, problem, text)

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether `text` is right, what was read in it, and why not."""
        return self.form.judge(problem, text)

    def grade(self, problem: Problem, text: str) -> bool:
        """Say whether `text` is right."""
        return self.judge(problem, text).right

    def process_ok(self, problem: Problem, text: str) -> bool:
        """Say the same as `grade`: public benchmarks come without labels on steps."""
        return self.grade(problem, text)

    def canvas_length(self, level: str) -> int:
        """Return the canvas of the official evaluation, in tokens of the model's tokenizer."""
        return self.wording.length

    def check(self) -> None:
        """Raise now what grading would raise later, before a model spends hours."""
        self.form.check()

    def provenance(self, split: Split = "test") -> dict[str, str]:
        """Return where the problems are from, for a manifest."""
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
        """Return how many official examples there are, and all rows to take examples from."""
        numbers, rows = self._rows("train", ALL), self.source.rows("train").rows
        if not self.wording.shown:
            return 0, numbers
        marks = {mark(self.form.read(rows[number], 0).fields): number for number in numbers}
        if not marks.keys() >= set(self.wording.shown):
            return 0, numbers
        first = [marks[name] for name in self.wording.shown]
        return len(first), [*first, *(number for number in numbers if number not in first)]

    def _examples(self, own: int | None) -> tuple[tuple[str, str], ...]:
        """Return the worked examples for a problem; `own` is its row where it is of that split."""
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
    """One public benchmark: where its rows are, what they mean, and how its authors' peers ask."""

    name: str
    hub: Hub
    form: Callable[[bool], Format]  # is told whether grading may run the model's code
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
