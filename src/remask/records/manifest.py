"""The manifest beside a file of records: how they were collected, from what, by whom, at what cost.

    version    of the manifest and its records; 1, of 0.1.0 and 0.2.0, does not say so
    asked      the settings, by name, and the model: `Manifest.settings`
    about      what votes compare answers by; with the baseline `editor`, whether the model edits
    scorers    the version of each that scored the answers; 1 where unsaid
    thresholds above which the model's preset trusts an answer to this task, by scorer
    dataset    origin, sha256 and wording of a public benchmark's rows; null for a generated task
    model      name, revision where the hub gave one, dtype, a digest of some weights
    runs       one entry per call that had something to do
    shard      of a file that is one of several: which one, and its problems; `remask join` ends it

A shard that `remask score` wrote has one as well, of its settings, model and rows, until it is
joined. The file is replaced whole, so a kill leaves the one before. Entries are added and never
removed. No torch here: records are analysed where there is none.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from remask.errors import RecordError
from remask.records import jsonl, text_file
from remask.records.validation import STRICT, explain, validate

VERSION = 2
REMEDY = "collect the records again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Which model gave the answers."""

    __pydantic_config__: ClassVar = STRICT

    name: str = ""
    revision: str | None = None  # a commit of the hub
    dtype: str | None = None
    weights: str | None = None  # tells them from others of the same shape


@dataclass(slots=True, kw_only=True)
class RunEntry:
    """One call of `collect` that had something to do; older ones do not say everything."""

    __pydantic_config__: ClassVar = STRICT

    started: str | None = None
    versions: dict[str, str | None] = field(default_factory=dict)
    device: str | None = None
    engine: str = "local"
    problems: int = 0  # as many as there shall be
    chunk: int = 0  # most problems of a chunk
    tokens: int | None = None  # most tokens of one
    start: int = 0  # "from": the problem that it began with
    stop: int = 0  # "to": the first problem that is not finished
    seconds: float = 0.0
    forwards: int = 0
    errors: int = 0
    finished: str | None = None  # when; None: it was killed
    from_sample: int | None = None  # of that problem, the answer that it began with
    retried: int | None = None  # problems that were asked again
    budget: int | None = None  # "work": most tokens times forward passes of a chunk

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it stands in the file."""
        row = {_IN_FILE.get(name, name): value for name, value in asdict(self).items()}
        optional = ("from_sample", "retried")
        unsaid = [name for name in optional if row[name] is None]
        if len(unsaid) == len(optional):  # chunks are cut by their number of problems alone
            unsaid.append("work")
        return {name: value for name, value in row.items() if name not in unsaid}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRange:
    """Which problems, or rows, a file holds, where several jobs share a collection or a file."""

    __pydantic_config__: ClassVar = STRICT

    number: int  # of the shard, from 1
    of: int  # so many shards
    start: int  # its first problem or row
    stop: int  # the first one after it

    def __str__(self) -> str:
        """Return it as the flag has it."""
        return f"{self.number}/{self.of}"


# Fields that have another name in the file.
_IN_FILE = {"settings": "asked", "notes": "about", "start": "from", "stop": "to", "budget": "work"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is known of a file of records."""

    __pydantic_config__: ClassVar = STRICT

    settings: dict[str, Any]  # and the model
    notes: dict[str, Any] | None = None  # "about"
    scorers: dict[str, int] = field(default_factory=dict)  # name -> version
    thresholds: dict[str, float] = field(default_factory=dict)  # of the preset, by scorer
    dataset: dict[str, Any] | None = None
    model: ModelIdentity | None = None
    runs: list[RunEntry] = field(default_factory=list)
    started: str | None = None  # when, in a manifest of before there were runs
    shard: ShardRange | None = None  # None: all problems are in one file
    version: int = VERSION

    @property
    def problems(self) -> range:
        """The problems that the file is to hold, by number."""
        if self.shard is not None:
            return range(self.shard.start, self.shard.stop)
        return range(self.settings["problems"])

    @property
    def sampler(self) -> dict[str, Any]:
        """The settings of the sampler."""
        return whole_sampler(self.settings.get("sampler"))

    @property
    def consistency(self) -> dict[str, Any]:
        """The settings of the round trips."""
        return self.settings.get("consistency") or {}

    def scorer_version(self, name: str) -> int:
        """Return the version of the scorer that gave the scores of this name."""
        return self.scorers.get(name, 1)

    @property
    def drawn(self) -> str:
        """How each pool was drawn: "10 at 1.6", "greedy + 9 at 0.7"; empty where unsaid."""
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
        """Return the manifest as it stands in its file, in the form of this version."""
        about = {} if self.notes is None else {"about": self.notes}
        return {
            "version": VERSION,
            "asked": self.settings,
            **about,
            **({"scorers": self.scorers} if self.scorers else {}),
            **({"thresholds": self.thresholds} if self.thresholds else {}),
            "dataset": self.dataset,
            "model": None if self.model is None else asdict(self.model),
            "runs": [run.to_json() for run in self.runs],
            **({} if self.shard is None else {"shard": asdict(self.shard)}),
        }

    def write(self, out: Path) -> None:
        """Write it beside a file of records, whole or not at all."""
        jsonl.write_text(manifest_path(out), json.dumps(self.to_json(), indent=2) + "\n")


def whole_sampler(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a sampler, with what an older file does not say."""
    later = {"resample_temperature": None, "sub_block": None, "commit_gap": None}
    return {**later, **(settings or {})}


def manifest_path(out: Path) -> Path:
    """Return the manifest of a file of records."""
    return Path(f"{out}.manifest.json")


def find_manifest(out: Path) -> Manifest | None:
    """Return the manifest of a file of records; None where there is none."""
    return read_manifest(out) if manifest_path(out).exists() else None


def read_manifest(out: Path) -> Manifest:
    """Return the manifest of a file of records, or raise where there is none that can be read."""
    path = manifest_path(out)
    if not path.exists():
        raise RecordError(f"{out} has no manifest {path.name} beside it; bring both files.")
    return parse_manifest(text_file.read_object(path, REMEDY), path)


def parse_manifest(document: Mapping[str, Any], path: Path) -> Manifest:
    """Return the manifest in a JSON object, of this version or an older one; `path` is named."""
    from pydantic import ValidationError

    version = document.get("version", 1)
    if isinstance(version, bool) or version not in range(1, VERSION + 1):
        raise RecordError(
            f"{path} has version {version!r:.80}, and this remask reads 1 to {VERSION}; install a "
            "newer one."
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


def _damaged(path: Path, what: str) -> RecordError:
    return RecordError(f"{path} is damaged: {what}; {REMEDY}.")
