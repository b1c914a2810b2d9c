"""What stands in one line of a file of records: an answer, an error, or a flaw that does not apply.

`collect` writes these lines, and every study reads them. They are validated here, once, when they
are read: a text for a number, or yes for true, would otherwise be a wrong number in a table. Their
version is that of the manifest beside them. No torch here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from remask.errors import RecordError
from remask.records import jsonl
from remask.records.validation import STRICT, adapter_of, explain, validate

Number = float | None


class NoKey:
    """The key of an answer that votes compare by its spelling; null is a key that was not read."""

    def __reduce__(self) -> str:
        """Stay the only one in every process."""
        return "NO_KEY"


NO_KEY = NoKey()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """What every line says: which problem it is about, and which sample."""

    __pydantic_config__: ClassVar = STRICT

    id: str  # of the problem
    task: str
    level: str
    number: int  # of the sample; 0 is the standard answer

    def to_json(self) -> dict[str, Any]:
        """Return the object of its line."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class BaselineCost:
    """What a baseline that asks the model again cost, and why it gave no number."""

    __pydantic_config__: ClassVar = STRICT

    forwards: int
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in a record."""
        return {"forwards": self.forwards} | ({"reason": self.reason} if self.reason else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(_Line):
    """One answer of a model with its grade, its scores and what they cost; fields as in JSON."""

    prompt: str
    gold: str
    text: str
    answer: str | None  # as it was read in the text
    right: bool
    process_ok: bool | None  # every step is right; None: steps have no labels
    forwards: int  # that wrote the answer
    scores: dict[str, Number]
    # Of the round trips, where the answer was verified:
    stderr: Number = None
    metrics: dict[str, Number] = field(default_factory=dict)  # means over the trips
    by_trip: dict[str, list[Number]] = field(default_factory=dict)
    drift: list[Number] = field(default_factory=list)  # by token of the response
    verify_forwards: int | None = None  # None: no round trips
    # How the grade came about:
    tier: str | None = None
    method: str | None = None
    reason: str | None = None
    kind: str | None = None  # of the flaw that was written into the text
    pieces: list[str] | None = None  # the tokens that the drift is of, as text
    key: str | NoKey | None = NO_KEY  # what votes compare the answer by
    baselines: dict[str, BaselineCost] = field(default_factory=dict)  # those that cost passes
    # What the probes read and what stood in the sample: "critical.critical_mean", "length"
    features: dict[str, Number] = field(default_factory=dict)

    @property
    def vote_key(self) -> str | None:
        """What votes compare the answer by: its key, or the answer itself where it has none."""
        return self.answer if isinstance(self.key, NoKey) else self.key

    def to_json(self) -> dict[str, Any]:
        """Return the object of its line; what was not measured is left out."""
        row = _Line.to_json(self)
        absent = [name for name in ("kind", "pieces") if row[name] is None]
        if self.verify_forwards is None:
            absent += ["stderr", "metrics", "by_trip", "drift", "verify_forwards"]
        if self.tier is None:
            absent += ["tier", "method", "reason"]
        if self.key is NO_KEY:
            absent.append("key")
        row["baselines"] = {name: cost.to_json() for name, cost in self.baselines.items()}
        absent += [name for name in ("baselines", "features") if not row[name]]
        return {name: value for name, value in row.items() if name not in absent}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord(_Line):
    """A problem that could not be asked: it stands for all of its answers."""

    prompt: str
    gold: str
    error: str  # why not


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFlaw(_Line):
    """A kind of flaw that does not apply to a solution: its line keeps the place in the file."""

    kind: str
    text: None = None
    forwards: int = 0


Line = Record | ErrorRecord | SkippedFlaw


def read_records(path: Path) -> Iterator[Line]:
    """Yield what the lines of a file hold; a damaged one is an error that names it."""
    from pydantic import ValidationError

    record = adapter_of(Record)
    with path.open("rb") as file:
        for number, content in enumerate(file, 1):
            try:
                line: Line = record.validate_json(content)
            except ValidationError:  # rare: another kind of line, another spelling, a damage
                if not content.strip():
                    continue
                line = _read_line(jsonl.parse_line(content, path, number), path, number)
            yield line


def records_in(lines: Iterable[Line]) -> list[Record]:
    """Return the graded texts: answers of a model, and solutions with flaws."""
    return [line for line in lines if isinstance(line, Record)]


def errors_in(lines: Iterable[Line]) -> list[ErrorRecord]:
    """Return the problems that could not be asked."""
    return [line for line in lines if isinstance(line, ErrorRecord)]


def answers_in(lines: Iterable[Line]) -> list[Record]:
    """Return the answers of a model: neither errors nor solutions with flaws."""
    return [line for line in lines if isinstance(line, Record) and line.kind is None]


def _read_line(row: Mapping[str, Any], path: Path, number: int) -> Line:
    from pydantic import ValidationError

    kind: type[Line] = Record
    if "error" in row:
        kind = ErrorRecord
    elif "kind" in row and row.get("text") is None:
        kind = SkippedFlaw
    try:
        return validate(kind, row)
    except ValidationError as error:
        fault = explain(error, row)
    if fault.is_missing:
        raise RecordError(
            f"{path} line {number} has no {fault.place!r}: give what remask collect wrote."
        )
    raise RecordError(
        f"{path} is damaged: line {number} has {fault.place} {fault.value!r:.80}, not "
        f"{fault.wanted}; collect it again."
    )
