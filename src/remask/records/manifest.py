"""The manifest beside a file of records or scores: settings, model, cost and state.

    version     of the manifest; 1 and 2, of 0.1.0 and 0.2.0, have no digests
    asked       the settings, by name, and the model: `Manifest.settings`
    about       what votes compare answers by; with the baseline `editor`, whether the model edits
    scorers     the version of each scorer; 1 if missing
    thresholds  above which the model's preset trusts an answer to this task, by scorer
    dataset     origin, sha256 and wording of a public benchmark's rows; null for a generated task
    model       name, revision on the hub, dtype, a digest of the weights
    runs        one entry per call that computed something
    shard       of a file that is one of several: its number and rows; `remask join` removes it
    journal     of an unfinished file: the committed rows, bytes and SHA-256 of FILE.part
    file        of a finished file: its rows, bytes and SHA-256
    checksum    SHA-256 of everything above

The manifest is replaced atomically: replacing it commits rows. A file that was edited after remask
wrote it is external: it is read without its manifest. No torch here: records are analysed on
machines that do not have it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from remask.errors import RecordError
from remask.records import jsonl, text_file
from remask.records.validation import STRICT, explain, validate
from remask.settings import checked

VERSION = 3
REMEDY = "collect the records again"
# Settings that do not change results, so a resumed run may change them.
FREE = ("problems", "chunk", "tokens", "batch", "data", "allow_execution")
# The values of settings that older manifests lack.
_OLDER = {
    "wording": "llada", "shots": 0, "baselines": ["confidence", "agreement", "vote"], "probes": [],
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Which model gave the answers."""

    __pydantic_config__: ClassVar = STRICT

    name: str = ""
    revision: str | None = None  # a commit of the hub
    dtype: str | None = None
    weights: str | None = None  # a digest


@dataclass(slots=True, kw_only=True)
class RunEntry:
    """One call that computed something; older entries lack some fields."""

    __pydantic_config__: ClassVar = STRICT

    started: str | None = None
    versions: dict[str, str | None] = field(default_factory=dict)
    device: str | None = None
    engine: str = "local"
    problems: int = 0  # the row after the last one that the file should hold
    chunk: int = 0  # maximum rows of a chunk
    tokens: int | None = None  # maximum tokens of a chunk
    start: int = 0  # "from": the first row that was missing
    stop: int = 0  # "to": the first row that is still missing
    seconds: float = 0.0
    forwards: int = 0
    errors: int = 0
    finished: str | None = None  # time; None: it was killed
    retried: int | None = None  # number of errors that were computed again
    budget: int | None = None  # "work": maximum tokens times forward passes of a chunk

    def to_json(self) -> dict[str, Any]:
        row = {_IN_FILE.get(name, name): value for name, value in asdict(self).items()}
        return {name: v for name, v in row.items() if name != "retried" or v is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRange:
    """Which problems, or rows, a file holds if several jobs share a collection or a file."""

    __pydantic_config__: ClassVar = STRICT

    number: int  # of the shard, from 1
    of: int  # number of shards
    start: int  # its first problem or row
    stop: int  # the first one after it; 0: not known before the model is loaded

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """What a file holds: its number of rows, and its bytes."""

    __pydantic_config__: ClassVar = STRICT

    rows: int = 0
    bytes: int = 0
    sha256: str = hashlib.sha256().hexdigest()

    @staticmethod
    def of(path: Path, rows: int) -> "FileState":
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileState(rows=rows, bytes=path.stat().st_size, sha256=digest)

    def matches(self, path: Path) -> bool:
        """Return whether the file has these bytes."""
        return path.is_file() and FileState.of(path, self.rows) == self


# Fields that have another name in the file.
_IN_FILE = {"settings": "asked", "notes": "about", "start": "from", "stop": "to", "budget": "work"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything that is known of a file of records or scores."""

    __pydantic_config__: ClassVar = STRICT

    settings: dict[str, Any]  # and the model
    notes: dict[str, Any] | None = None  # "about"
    scorers: dict[str, int] = field(default_factory=dict)  # name -> version
    thresholds: dict[str, float] = field(default_factory=dict)  # of the preset, by scorer
    dataset: dict[str, Any] | None = None
    model: ModelIdentity | None = None
    runs: list[RunEntry] = field(default_factory=list)
    started: str | None = None  # time, in manifests without runs
    shard: ShardRange | None = None  # None: all problems are in one file
    journal: FileState | None = None  # None: the file is finished
    file: FileState | None = None  # None: of an older version, or never finished
    version: int = VERSION

    @property
    def problems(self) -> range:
        """The numbers of the problems, or rows, that the file should hold."""
        if self.shard is not None:
            return range(self.shard.start, self.shard.stop)
        return range(self.settings["problems"])

    @property
    def is_scored(self) -> bool:
        """Whether `remask score` wrote the file."""
        return "answer_column" in self.settings

    @property
    def is_finished(self) -> bool:
        """Whether all rows are there; older versions note it in their last run."""
        if self.version < VERSION:
            return not self.runs or self.runs[-1].finished is not None
        return self.journal is None

    @property
    def sampler(self) -> dict[str, Any]:
        """The settings of the sampler."""
        return whole_sampler(self.settings.get("sampler"))

    @property
    def consistency(self) -> dict[str, Any]:
        """The settings of the round trips."""
        return self.settings.get("consistency") or {}

    def scorer_version(self, name: str) -> int:
        """Return the version of a scorer; 1 if the manifest does not name it."""
        return self.scorers.get(name, 1)

    def facts(self, free: Iterable[str] = ()) -> dict[str, Any]:
        """Return what the rows depend on, by name, without the settings `free`."""
        settings = {**_OLDER, **self.settings} if self.version < VERSION else self.settings
        if settings.get("sampler") is not None:
            settings = {**settings, "sampler": self.sampler}
        dataset, notes = self.dataset or {}, {"compared_by": "spelling", **(self.notes or {})}
        return {
            **_flat({name: value for name, value in settings.items() if name not in free}),
            **{f"{name} of the data": dataset.get(name) for name in ("sha256", "examples")},
            "votes": notes["compared_by"],
            **{f"version of {name}": version for name, version in self.scorers.items()},
            **{f"{n} of the model": v for n, v in asdict(self.model or ModelIdentity()).items()},
            "shard": None if self.shard is None else str(self.shard),
            "rows of the shard": str(self.problems)[5:] if self.shard and self.shard.stop else None,
        }

    @property
    def drawn(self) -> str:
        """How each pool was drawn: "10 at 1.6", "greedy + 9 at 0.7"; "" if unknown."""
        size, temperature = self.settings.get("samples"), self.sampler.get("temperature")
        if temperature is None or size is None:
            return ""
        if temperature > 0:
            return f"{size} at {temperature:g}"
        if size == 1:
            return "greedy"
        # Before there was a temperature for them, further samples of a greedy pool were copies.
        warmer = self.sampler["resample_temperature"]
        return f"{size} greedy copies" if warmer is None else f"greedy + {size - 1} at {warmer:g}"

    def to_json(self) -> dict[str, Any]:
        """Return the document of its file."""
        states = {"shard": self.shard, "journal": self.journal, "file": self.file}
        document = {
            "version": VERSION,
            "asked": self.settings,
            **({} if self.notes is None else {"about": self.notes}),
            **({"scorers": self.scorers} if self.scorers else {}),
            **({"thresholds": self.thresholds} if self.thresholds else {}),
            "dataset": self.dataset,
            "model": None if self.model is None else asdict(self.model),
            "runs": [run.to_json() for run in self.runs],
            **{name: asdict(state) for name, state in states.items() if state is not None},
        }
        return {**document, "checksum": _checksum(document)}

    def write(self, out: Path) -> None:
        """Write it beside a file, atomically."""
        jsonl.write_text(manifest_path(out), json.dumps(self.to_json(), indent=2) + "\n")


def whole_sampler(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a sampler, with what an older file does not say."""
    later = {"resample_temperature": None, "sub_block": None, "commit_gap": None}
    return {**later, **(settings or {})}


def manifest_path(out: Path) -> Path:
    """Return the manifest of a file of records."""
    return Path(f"{out}.manifest.json")


def part_path(out: Path) -> Path:
    """Return the journal of an unfinished file; see `collect.runner`."""
    return Path(f"{out}.part")


@checked
def find_manifest(out: Path) -> Manifest | None:
    """Return the manifest of a file; None if there is none, or the file was edited afterwards."""
    if not manifest_path(out).exists():
        return None
    manifest = read_manifest(out)
    return None if is_edited(out, manifest) else manifest


def is_edited(out: Path, manifest: Manifest) -> bool:
    """Return whether a finished file has other bytes than remask wrote."""
    return manifest.file is not None and not manifest.file.matches(out)


@checked
def read_manifest(out: Path) -> Manifest:
    """Return the manifest beside a file, or raise if there is none, or it was edited."""
    path = manifest_path(out)
    if not path.exists():
        raise RecordError(f"{out} has no manifest {path.name} beside it; bring both files.")
    return parse_manifest(text_file.read_object(path, REMEDY), path)


def check_resumable(out: Path, stored: Manifest, new: Manifest) -> None:
    """Raise unless the rows of a file were computed as a new run would compute them."""
    fixed = () if new.shard is None else ("problems", "batch")  # they decide where shards are cut
    free = [name for name in FREE if name not in fixed]
    before, after = stored.facts(free), new.facts(free)
    differences = []
    for name in dict.fromkeys([*after, *before]):
        is_version = name.startswith("version of ")
        old, now = before.get(name, 1 if is_version else None), after.get(name)
        may_miss = name in FREE or is_version or name.endswith((" of the model", " of the shard"))
        is_unknown = may_miss and None in (old, now)
        is_older = stored.version < VERSION and name not in after
        if old != now and not is_unknown and not is_older and name != "name of the model":
            differences.append(f"{name} was {_shown(old)}, got {_shown(now)}")
    if differences:
        raise RecordError(
            f"Cannot resume {out}: {'; '.join(differences[:5])}. Choose another file, or pass "
            "--force to overwrite it."
        )


def parse_manifest(document: Mapping[str, Any], path: Path) -> Manifest:
    """Return the manifest in a JSON object, of this version or an older one; `path` is named."""
    from pydantic import ValidationError

    version = document.get("version", 1)
    if isinstance(version, bool) or version not in range(1, VERSION + 1):
        raise RecordError(
            f"{path} has version {version!r:.80}, and this remask reads 1 to {VERSION}; install a "
            "newer one."
        )
    if version >= 3 or "checksum" in document:
        content = {name: value for name, value in document.items() if name != "checksum"}
        if document.get("checksum") != _checksum(content):
            raise RecordError(
                f"{path} was edited after remask wrote it (its checksum differs). Restore it, or "
                f"{REMEDY}."
            )
    if not isinstance(document.get("asked"), Mapping):
        raise _damaged(path, "it has no asked, the settings by name")
    for part in ("sampler", "consistency"):
        value = document["asked"].get(part)
        if not isinstance(value, dict | None):
            raise _damaged(path, f"asked.{part} is {value!r:.80}, not names with values")
    try:
        return validate(Manifest, {"version": 1, **_renamed(document)})
    except ValidationError as error:
        fault = explain(error, _renamed(document))
    place = ".".join(_IN_FILE.get(part, part) for part in fault.place.split("."))
    if fault.is_missing:
        raise _damaged(path, f"it has no {place}")
    raise _damaged(path, f"{place} is {fault.value!r:.80}, not {fault.wanted}")


def _renamed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document under the names of the fields; what is null is left out."""
    names = {written: name for name, written in _IN_FILE.items()}
    document = {names.get(name, name): v for name, v in document.items() if v is not None}
    if isinstance(document.get("runs"), list):
        document["runs"] = [
            {names.get(name, name): value for name, value in run.items()}
            if isinstance(run, dict)
            else run
            for run in document["runs"]
        ]
    return document


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings under dotted names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        nested = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value}
    return flat


def _shown(value: Any) -> str:
    return "not set" if value is None else f"{value}"[:80]


def _damaged(path: Path, what: str) -> RecordError:
    return RecordError(f"{path} is damaged: {what}; {REMEDY}.")
