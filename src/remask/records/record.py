"""The lines of a file of records: an answer, an error, or a flaw that does not apply.

`collect` writes these lines, and everything that reads them uses `read_records`, which checks the
file: types and ranges of values, one task, every sample of every problem once, and the manifest.
No torch here.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from remask.errors import RecordError
from remask.records import jsonl, text_file
from remask.records.manifest import (
    Manifest,
    is_edited,
    manifest_path,
    part_path,
    read_manifest,
)
from remask.records.validation import STRICT, adapter_of, explain, validate
from remask.settings import Setting, checked, shown

Number = float | None
_MOST = 10**15  # forward passes
_ROUNDING = 1e-6  # of sums of float32


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


_SHARES = (
    "confidence", "confidence_canvas", "read_confidence", "self_evaluation", "editor", "vote",
    "agreement",
)  # fmt: skip
_UNBOUNDED = ("cross_entropy", "critical_divergence", "embedding_distance")
_NEGATIVE = (  # logarithms, entropies, counts
    "dise", "perplexity", "length", "critical_count", "tre", "denoising_entropy",
    "temporal_entropy", "dcocoa",
)  # fmt: skip


@checked
def read_records(path: Path) -> list[Line]:
    """Return the lines of a file of records, or raise RecordError if the file is not sound.

    The checks against the manifest are left out if there is none, or the file was edited.
    """
    from pydantic import ValidationError

    manifest = read_manifest(path) if manifest_path(path).exists() else None
    is_begun = part_path(path).exists() and not path.exists()
    if manifest is not None and manifest.is_scored:
        raise _scored(path)
    if is_begun or (manifest is not None and manifest.journal is not None):
        raise RecordError(f"{path} is not finished. Repeat the command that writes it.")
    if manifest is not None and is_edited(path, manifest):
        manifest = None
    record, lines = adapter_of(Record), []
    with text_file.open_file(path) as file:
        for number, content in enumerate(file, 1):
            try:
                line: Line = record.validate_json(content)
            except ValidationError:  # rare: another kind of line, another spelling, a damage
                if not content.strip():
                    continue
                line = _read_line(jsonl.parse_line(content, path, number), path, number)
            if fault := _fault(line):
                raise RecordError(f"{path} line {number}: {fault}.")
            lines.append(line)
    _check_complete(path, lines, manifest)
    return lines


def _fault(line: Line) -> str:
    """Return which value of a line is out of range; "" if none is."""
    if not isinstance(line, Record):
        return "" if line.number >= 0 else f"number must be at least 0, got {line.number}"
    metrics = {**line.by_trip, **{name: [value] for name, value in line.metrics.items()}}
    costs = {"number": line.number, "forwards": line.forwards, "stderr": line.stderr}
    costs |= {"verify_forwards": line.verify_forwards}
    costs |= {f"baselines.{name}.forwards": cost.forwards for name, cost in line.baselines.items()}
    costs |= {name: value for name, value in line.features.items() if name.endswith("forwards")}
    ranges: list[tuple[str, Sequence[Number], float, float]] = [
        ("drift", line.drift, 0, 1),
        *((name, [score], *_range(name)) for name, score in line.scores.items()),
        *((name, values, *_range(name)) for name, values in metrics.items()),
        *((name, [cost], 0, _MOST) for name, cost in costs.items()),
    ]
    for name, values, low, high in ranges:
        for value in values:
            if value is not None and not low - _ROUNDING <= value <= high + _ROUNDING:
                wanted = Setting(least=low, most=high).broken_by(value)
                return f"{name} must be {wanted}, got {shown(value)}"
    return ""


def _range(name: str) -> tuple[float, float]:
    """Return the range of a score or a metric. All scores are at most 1: log-probabilities too."""
    if name in _UNBOUNDED:
        return -math.inf, math.inf
    if name in _SHARES:
        return 0, 1
    return (-math.inf if name in _NEGATIVE else -1), 1  # -1: the cosine of two sentences


def _check_complete(path: Path, lines: Sequence[Line], manifest: Manifest | None) -> None:
    """Raise unless the file has every sample of every problem once, all of one task."""
    settings = {} if manifest is None else manifest.settings
    task = settings.get("task", "")
    if (not task or ":" in task) and lines:  # module:name does not say what the task is called
        task = lines[0].task
    samples: dict[str, dict[tuple[int, str], Line]] = {}
    for line in lines:
        if line.task != task:
            raise RecordError(f"{path}: the task of {line.id} must be {task!r}, got {line.task!r}.")
        key = line.number, getattr(line, "kind", None) or ""
        if samples.setdefault(line.id, {}).setdefault(key, line) is not line:
            raise RecordError(f"{path}: sample {line.number} of {line.id} is recorded twice.")
    has_flaws = any(kind for pool in samples.values() for _, kind in pool)
    size = settings.get("samples", max(map(len, samples.values()), default=0))
    for name, pool in samples.items():
        is_error = any(isinstance(line, ErrorRecord) for line in pool.values())
        numbers, wanted = {number for number, _ in pool}, {*range(1 if is_error else size)}
        if numbers != wanted and not (has_flaws and manifest is None):
            number = min(numbers ^ wanted)
            what = "is missing" if number in wanted else "must not be there"
            raise RecordError(f"{path}: sample {number} of {name} {what}.")
    problems = len(manifest.problems) if manifest and "problems" in settings else len(samples)
    if len(samples) != problems:
        raise RecordError(f"{path} must hold {problems} problems, got {len(samples)}.")


@checked
def records_in(lines: Iterable[Line]) -> list[Record]:
    """Return the graded texts: answers of a model, and solutions with flaws."""
    return [line for line in lines if isinstance(line, Record)]


@checked
def errors_in(lines: Iterable[Line]) -> list[ErrorRecord]:
    """Return the problems that could not be asked."""
    return [line for line in lines if isinstance(line, ErrorRecord)]


@checked
def answers_in(lines: Iterable[Line]) -> list[Record]:
    """Return the answers of a model: neither errors nor solutions with flaws."""
    return [line for line in lines if isinstance(line, Record) and line.kind is None]


def _scored(path: Path) -> RecordError:
    return RecordError(f"{path} holds scores of remask score, not records of remask collect.")


def _read_line(row: Mapping[str, Any], path: Path, number: int) -> Line:
    from pydantic import ValidationError

    if "remask_score" in row:
        raise _scored(path)
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
