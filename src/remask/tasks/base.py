"""The interface of a task: problems with a grader.

A generated task draws problem number `index` of a split from a seed, so the same (task, level,
split, index, seed) is the same problem on every machine. Splits are disjoint by construction: the
split depends only on the hash of a problem's *key*, which is the part that decides its solution,
without the wording. This package does not import torch.
"""

import hashlib
import inspect
import json
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import wraps
from typing import Annotated, Any, Literal, Protocol, TypeVar, runtime_checkable

from remask.answers import Extraction
from remask.errors import TaskError
from remask.extension import running
from remask.settings import checked, unknown_name

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
T = TypeVar("T")
# The six metrics of the paper, for tasks with comparable answers.
METRICS = (
    "token_accuracy",
    "semantic_similarity",
    "number_retention",
    "answer_match",
    "character_similarity",
    "confidence",
)

# Pre-tokenisation of the embedded tokenizer: single digits, and words and punctuation with the
# blank before them. Every word of the generated tasks is one token, so the number of pieces is the
# number of tokens.
PIECES = r"[0-9]| ?[A-Za-z]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"


@checked
@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem and the facts for its grader."""

    id: str  # task/level/split/seed/index
    task: str
    level: str
    prompt: str
    gold: str  # canonical answer, as `Task.extract` returns it for `solution`
    solution: str  # a correct solution
    # Facts for `grade` and `process_ok`; the JSON text of `as_row` is accepted too.
    facts: Annotated[Mapping[str, Any], Any] = field(default_factory=dict)
    examples: tuple[tuple[str, str], ...] = ()  # questions and answers of earlier turns

    def __post_init__(self) -> None:
        """Parse facts that `as_row` wrote as JSON."""
        if isinstance(self.facts, str):
            object.__setattr__(self, "facts", _read_facts(self.id, self.facts))

    def as_row(self) -> dict[str, Any]:
        """Return the fields as a row of `datasets`; `Problem(**row)` is the problem again.

        Facts become JSON text, because a table would fill in the facts of other rows as None.
        """
        return {**asdict(self), "facts": json.dumps(self.facts), "examples": [*self.examples]}


def _read_facts(name: str, text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        raise TaskError(
            f"facts of problem {name} are the text {text!r:.80}, which is not a JSON object; write "
            "the column with Problem.as_row."
        )
    return facts


# Names of the tiers of `remask.answers`.
TIERS = {1: "markup", 2: "statement", 3: "fallback", None: "none"}


@dataclass(frozen=True, kw_only=True)
class Grade:
    """Whether an answer is correct, and why."""

    right: bool
    extracted: str | None  # the extracted answer
    tier: str  # one of the values of TIERS
    method: str  # method of comparison: "number", "letter", "exact", "math-verify", "tests", ...
    reason: str  # such as "equal", "'19' is not '18'" or "not decided in 5 s"


def compared(extraction: Extraction, gold: str, method: str) -> Grade:
    """Return the grade of an answer that must equal the gold answer."""
    right = extraction.answer == gold
    missed = "no answer" if extraction.answer is None else f"{extraction.answer!r} is not {gold!r}"
    return Grade(
        right=right,
        extracted=extraction.answer,
        tier=TIERS[extraction.tier],
        method=method,
        reason="equal" if right else missed,
    )


class Task(Protocol):
    """A family of problems with graders."""

    name: str
    levels: tuple[str, ...]  # easiest first; "hard" is longer than anything trained on
    metrics: tuple[str, ...]  # the metrics of the set `paper` that apply to this task

    def problem(
        self, index: int, *, split: Split = "test", level: str = "", seed: int = 0
    ) -> Problem:
        """Return problem number `index`; the empty level is the first one."""
        ...

    def extract(self, text: str) -> str | None:
        """Return the canonical answer stated in `text`; equal strings mean equivalent answers."""
        ...

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return the grade of the final answer of `text`."""
        ...

    def grade(self, problem: Problem, text: str) -> bool:
        """Return whether the final answer of `text` is correct."""
        ...

    def process_ok(self, problem: Problem, text: str) -> bool:
        """Return whether the answer and every step of `text` are correct."""
        ...

    def canvas_length(self, level: str) -> int:
        """Return a canvas, in tokens of the embedded tokenizer, that holds any solution."""
        ...


class Levelled(Protocol):
    """An object with a name and levels."""

    name: str
    levels: tuple[str, ...]


SPELLING = "spelling"  # default comparison: by the text that `extract` returns


@runtime_checkable
class Compared(Protocol):
    """A task that compares answers by more than their spelling."""

    @property
    def compared_by(self) -> str:
        """The comparison: "value", "behaviour" or SPELLING."""
        ...

    def key(self, problem: Problem, text: str) -> str | None:
        """Return the key of an answer; equal keys are equal answers, None is no answer."""
        ...


class AnswerReader(Protocol):
    """An object with `extract`."""

    def extract(self, text: str) -> str | None:
        """Return the canonical answer stated in `text`."""
        ...


@checked
def compared_by(reader: AnswerReader) -> str:
    """Return the comparison of a task: "value", "behaviour" or SPELLING."""
    return reader.compared_by if isinstance(reader, Compared) else SPELLING


@checked
def answer_key(reader: AnswerReader, problem: Problem, text: str) -> str | None:
    """Return the key of an answer in a vote: the task's own key, or the extracted answer."""
    return reader.key(problem, text) if isinstance(reader, Compared) else reader.extract(text)


def count_pieces(text: str) -> int:
    """Return the number of tokens of `text` in the embedded tokenizer, for known words."""
    return len(re.findall(PIECES, text))


def split_of(key: str) -> Split:
    """Return the split of a key: 90 % train, 5 % validation, 5 % test."""
    bucket = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big") % 100
    return "train" if bucket < 90 else "validation" if bucket < 95 else "test"


def draw(
    make: Callable[[random.Random], T],
    key_of: Callable[[T], str],
    identity: str,
    split: Split,
) -> tuple[T, random.Random]:
    """Draw until the draw belongs to `split`; return it with the generator for the wording.

    `identity` seeds the generator; it names task, level, split, seed and index.
    """
    rng = random.Random(identity)
    for _ in range(20_000):
        drawn = make(rng)
        if split_of(key_of(drawn)) == split:
            return drawn, rng
    raise TaskError(f"no problem of split {split!r} was found for {identity}; widen its level.")


def check_level(task: Levelled, level: str, split: str) -> str:
    """Return the level, or the first one if it is empty; raise TaskError if it is unknown."""
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS, error=TaskError)
    if level == "":
        return task.levels[0]
    if level not in task.levels:
        raise unknown_name(f"level of {task.name}", level, task.levels, error=TaskError)
    return level


_METHODS = ("problem", "extract", "judge", "grade", "process_ok", "canvas_length", "key")


def guarded(kind: type[T]) -> type[T]:
    """Decorate a task class: validate arguments, and name the task in exceptions."""
    for name in _METHODS:
        method = vars(kind).get(name)
        if inspect.isfunction(method):
            setattr(kind, name, checked(_guarded(method)))
    return kind


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with running("task", str(self.name)):
            return method(self, *args, **kwargs)

    return call


@guarded
class Generated(ABC):
    """Base class of generated tasks: levels, numbering and splits."""

    name: str
    levels: tuple[str, ...] = ("easy", "medium", "hard")
    metrics: tuple[str, ...] = METRICS
    critical: str = "number"  # a key of `answers.critical.CRITICAL`
    canvases: tuple[int, ...]  # for each level, tokens that hold any solution

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        guarded(cls)

    def problem(
        self, index: int, *, split: Split = "test", level: str = "", seed: int = 0
    ) -> Problem:
        """Return problem number `index`; the empty level is the first one."""
        level = check_level(self, level, split)
        return self.make(f"{self.name}/{level}/{split}/{seed}/{index}", level, split)

    @abstractmethod
    def make(self, identity: str, level: str, split: Split) -> Problem:
        """Return the problem of an identity, which seeds every draw."""

    @abstractmethod
    def judge(self, problem: Problem, text: str) -> Grade:
        """Return the grade of the final answer of `text`."""

    def grade(self, problem: Problem, text: str) -> bool:
        """Return whether the final answer of `text` is correct."""
        return self.judge(problem, text).right

    def canvas_length(self, level: str) -> int:
        """Return the canvas, in tokens, that holds any solution of `level`."""
        return self.canvases[self.levels.index(check_level(self, level, "test"))]
