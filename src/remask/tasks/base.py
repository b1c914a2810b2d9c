"""What a task is: problems that come with a grader.

A generated task draws problem number `index` of a split from a seed, so two machines that name the
same (task, level, split, index, seed) hold the same problem. Splits are disjoint by construction:
a problem's *key*, the part of it that decides its solution (never its wording), is hashed, and the
hash alone decides the split. No torch here: graders run anywhere.
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
# The six metrics of the paper, for tasks whose answers can be compared.
METRICS = (
    "token_accuracy",
    "semantic_similarity",
    "number_retention",
    "answer_match",
    "character_similarity",
    "confidence",
)

# How the embedded tokenizer cuts text before merging: single digits, words and runs of marks with
# the blank before them. Generated words are frequent enough to be one token each, so the number
# of pieces is the number of tokens.
PIECES = r"[0-9]| ?[A-Za-z]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"


@checked
@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem and what its grader needs."""

    id: str  # task/level/split/seed/index
    task: str
    level: str
    prompt: str
    gold: str  # canonical answer, as `Task.extract` would return it from a right solution
    solution: str  # one right solution, in one of many wordings
    # What grade and process_ok look at; a text of `as_row` is read when the problem is made.
    facts: Annotated[Mapping[str, Any], Any] = field(default_factory=dict)
    examples: tuple[tuple[str, str], ...] = ()  # worked ones, asked and answered in earlier turns

    def __post_init__(self) -> None:
        """Read facts that `as_row` has written as a text."""
        if isinstance(self.facts, str):
            object.__setattr__(self, "facts", _read_facts(self.id, self.facts))

    def as_row(self) -> dict[str, Any]:
        """Return the fields for a column of `datasets`; `Problem(**row)` is the problem again.

        Facts are written as a text: a table has one type for all rows, and facts of other rows
        would appear as None in this one.
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


# The tiers of `remask.answers`, in words.
TIERS = {1: "markup", 2: "statement", 3: "fallback", None: "none"}


@dataclass(frozen=True, kw_only=True)
class Grade:
    """Whether an answer is right, and how that was found."""

    right: bool
    extracted: str | None  # what was read as the answer
    tier: str  # where it stood: one of the values of TIERS
    method: str  # how it was judged: "number", "letter", "exact", "math-verify", "tests", ...
    reason: str  # what speaks for the grade: "equal", "'19' is not '18'", "not decided in 5 s", ...


def compared(extraction: Extraction, gold: str, method: str) -> Grade:
    """Return the grade of an answer whose canonical form must be the gold one."""
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
    metrics: tuple[str, ...]  # the metrics that make sense here, of the set `paper`

    def problem(
        self, index: int, *, split: Split = "test", level: str = "", seed: int = 0
    ) -> Problem:
        """Return problem number `index`; the empty level is the first one."""
        ...

    def extract(self, text: str) -> str | None:
        """Return the canonical answer stated in `text`; equal strings mean equivalent answers."""
        ...

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the final answer of `text` is right, and how that was found."""
        ...

    def grade(self, problem: Problem, text: str) -> bool:
        """Say whether the final answer of `text` is right, as `judge` does."""
        ...

    def process_ok(self, problem: Problem, text: str) -> bool:
        """Say whether every step of `text` is right as well."""
        ...

    def canvas_length(self, level: str) -> int:
        """Return a canvas, in tokens of the embedded tokenizer, that holds any solution."""
        ...


class Levelled(Protocol):
    """What has a name and levels."""

    name: str
    levels: tuple[str, ...]


SPELLING = "spelling"  # of what `extract` returns: how answers are compared unless a task says else


@runtime_checkable
class Compared(Protocol):
    """A task that knows better than by spelling whether two answers say the same."""

    @property
    def compared_by(self) -> str:
        """What is compared: "value" or "behaviour"; SPELLING where it may not know better."""
        ...

    def key(self, problem: Problem, text: str) -> str | None:
        """Return what an answer is compared by; equal keys are one answer, None is no answer."""
        ...


class AnswerReader(Protocol):
    """Anything that reads answers."""

    def extract(self, text: str) -> str | None:
        """Return the canonical answer stated in `text`."""
        ...


@checked
def compared_by(reader: AnswerReader) -> str:
    """Return what answers are compared by."""
    return reader.compared_by if isinstance(reader, Compared) else SPELLING


@checked
def answer_key(reader: AnswerReader, problem: Problem, text: str) -> str | None:
    """Return what an answer is compared by in every vote: the task's own key, else `extract`."""
    return reader.key(problem, text) if isinstance(reader, Compared) else reader.extract(text)


def count_pieces(text: str) -> int:
    """Return how many tokens of the embedded tokenizer `text` takes, where its words are known."""
    return len(re.findall(PIECES, text))


def split_of(key: str) -> Split:
    """Return the split that the problem with this key belongs to: 90 / 5 / 5 per cent."""
    bucket = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big") % 100
    return "train" if bucket < 90 else "validation" if bucket < 95 else "test"


def draw(
    make: Callable[[random.Random], T],
    key_of: Callable[[T], str],
    identity: str,
    split: Split,
) -> tuple[T, random.Random]:
    """Draw until a draw belongs to `split`; return it and the generator, for the wording.

    `identity` seeds the generator, so it must name task, level, split, seed and index.
    """
    rng = random.Random(identity)
    for _ in range(20_000):
        drawn = make(rng)
        if split_of(key_of(drawn)) == split:
            return drawn, rng
    raise TaskError(f"no problem of split {split!r} was found for {identity}; widen its level.")


def check_level(task: Levelled, level: str, split: str) -> str:
    """Return the level to draw from, or raise with the levels there are."""
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS, error=TaskError)
    if level == "":
        return task.levels[0]
    if level not in task.levels:
        raise unknown_name(f"level of {task.name}", level, task.levels, error=TaskError)
    return level


_METHODS = ("problem", "extract", "judge", "grade", "process_ok", "canvas_length", "key")


def guarded(kind: type[T]) -> type[T]:
    """Decorate a class of tasks: arguments are validated, and an exception shows its cause."""
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
    """What tasks that make their own problems have in common: levels, numbering, splits."""

    name: str
    levels: tuple[str, ...] = ("easy", "medium", "hard")
    metrics: tuple[str, ...] = METRICS
    critical: str = "number"  # what decides in an answer: a key of `answers.critical.CRITICAL`
    canvases: tuple[int, ...]  # of each level: tokens that hold any solution

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
        """Return the problem of this identity, which seeds every draw."""

    @abstractmethod
    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the final answer of `text` is right, and how that was found."""

    def grade(self, problem: Problem, text: str) -> bool:
        """Say whether the final answer of `text` is right."""
        return self.judge(problem, text).right

    def canvas_length(self, level: str) -> int:
        """Return the canvas, in tokens, that holds any solution of `level`."""
        return self.canvases[self.levels.index(check_level(self, level, "test"))]
