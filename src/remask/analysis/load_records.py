"""Records on disk -> the studies that they hold, for `remask study` and the results page.

Two kinds of places are known. The folder of a whole study has files named as `figures` says, one
pool for each task and level. Anything else is a file, or a folder of files, that `remask collect`
wrote: each is a study by itself, named like its file, but for two kinds. Answers to another split
than `test` are what weights and thresholds of their task are chosen on; rows with a `kind` are
solutions with injected flaws. Folders seed-1, seed-2 and so on hold the same of further seeds.

What the answers were collected with is read in the manifests beside them: files that differ in one
setting of the round trips alone are points of a curve.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remask.analysis.curves import USUAL_TRIPS, Settings, settings_in
from remask.analysis.diagnosis import THRESHOLD
from remask.analysis.figures import DEFAULTS, LEVELS, MAIN, TRIPS, read
from remask.analysis.pool import Row, answered
from remask.analysis.spurious import flawed_files
from remask.collect.manifest import drawn_as, sampler_in
from remask.decide.threshold import accepts_all, best_f1
from remask.errors import RecordError
from remask.records import manifest
from remask.records.record import read_rows
from remask.tasks import TASKS

Rows = Sequence[Row]
USUAL = dict(setting.split("/") for setting in DEFAULTS) | {"trips": str(USUAL_TRIPS)}
_FIELDS = ("id", "task", "number", "answer", "right", "process_ok", "forwards", "scores")


@dataclass(frozen=True, kw_only=True)
class Study:
    """The answers to one set of problems."""

    name: str  # "wordmath-hard", or that of the file
    task: str
    path: Path
    rows: Rows
    threshold: float  # of the round trips: chosen on validation, or the paper's
    drawn: str = ""  # how the pool of each problem was: "greedy + 9 at 0.7"; empty where unknown
    further: Sequence[Rows] = ()  # the same of other seeds
    validation: Rows = ()  # answers that weights are fitted on
    validation_pools: Rows = ()  # and baselines, which look at several samples
    is_changed: bool = False  # collected with another setting than the defaults: a curve's point
    errors: int = 0  # problems that could not be asked

    @property
    def level(self) -> str:
        """The level of its problems."""
        return str(self.rows[0]["level"])


@dataclass(frozen=True, kw_only=True)
class Flawed:
    """Answers whose steps have labels."""

    name: str
    rows: Rows
    threshold: float


@dataclass(frozen=True, kw_only=True)
class Source:
    """Everything that one place holds."""

    name: str
    studies: Sequence[Study]
    chooser: float  # the threshold that is carried over all studies
    settings: Mapping[str, Sequence[Settings]] = field(default_factory=dict)  # by study
    labelled: Sequence[Flawed] = ()
    injected: Sequence[Flawed] = ()


def read_source(path: Path) -> Source:
    """Return what a folder or file of records holds, or raise where it holds none."""
    if not path.exists():
        raise RecordError(f"{path} does not exist; name a folder or file of records.")
    if path.is_dir() and any((path / f"{name}.jsonl").exists() for name in _pool_names()):
        return _whole(path)
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    found = [told for file in files if (told := _File.read(file)).rows]
    if not found:
        raise RecordError(f"{path} holds no records; collect some with remask collect.")
    return _collected(path, found)


def seed_folders(path: Path) -> list[Path]:
    """Return a folder and those of its further seeds."""
    return [path, *sorted(folder for folder in path.glob("seed-*") if folder.is_dir())]


def _pool_names() -> dict[str, tuple[str, str]]:
    """Return the files of the pools with the study and task of each."""
    return {
        f"pool-{task}-{level}": (f"{task}{ending}", task)
        for task in TASKS
        for level, ending in LEVELS.items()
    }


def _whole(path: Path) -> Source:
    folders = seed_folders(path)
    chosen = {task: read(path, f"threshold-{task}") for task in TASKS}
    limits = {task: _threshold(rows) for task, rows in chosen.items()}
    studies = [
        Study(
            name=name,
            task=task,
            path=path / f"{file}.jsonl",
            rows=rows,
            threshold=limits[task],
            drawn=drawn_as(_asked(path / f"{file}.jsonl")),
            further=[more for folder in folders[1:] if (more := read(folder, file))],
            validation=chosen[task],
            validation_pools=_validation_pool(path, task) or chosen[task],
            errors=_errors(path / f"{file}.jsonl"),
        )
        for file, (name, task) in _pool_names().items()
        if (rows := read(path, file))
    ]
    return Source(
        name=path.resolve().name,
        studies=studies,
        chooser=limits["wordmath"],
        settings={MAIN: [settings_in(folder) for folder in folders]},
        labelled=list(_labelled(folders, limits)),
        injected=list(_injected(folders, limits)),
    )


def _errors(path: Path) -> int:
    return sum("error" in row for row in read_rows(path))


def _validation_pool(path: Path, task: str) -> list[dict[str, Any]]:
    """Return the pools of validation at the temperature of the study; none where it is unknown."""
    asked = _asked(path / f"threshold-{task}.jsonl")
    temperature = asked.get("sampler", {}).get("temperature")
    return read(path, f"validation-{task}-hard-t{temperature}")


def _labelled(folders: Sequence[Path], limits: Mapping[str, float]) -> Iterator[Flawed]:
    for file, task in flawed_files().items():
        rows = [row for folder in folders for row in read(folder, file)]
        if rows:
            yield Flawed(name=file, rows=rows, threshold=limits[task])


def _injected(folders: Sequence[Path], limits: Mapping[str, float]) -> Iterator[Flawed]:
    for task in TASKS:
        for level, ending in LEVELS.items():
            file = f"injected-{task}-{level}"
            rows = [row for folder in folders for row in read(folder, file)]
            if rows:
                yield Flawed(name=f"{task}{ending}", rows=rows, threshold=limits[task])


@dataclass(frozen=True, kw_only=True)
class _File:
    """What `remask collect` wrote into one file."""

    path: Path
    rows: Rows
    asked: Mapping[str, Any]
    errors: int = 0

    @staticmethod
    def read(path: Path) -> "_File":
        every = list(read_rows(path))
        rows = answered(every)
        for number, row in enumerate(rows, 1):
            missing = [name for name in _FIELDS if name not in row and "kind" not in row]
            if missing:
                raise RecordError(
                    f"record {number} of {path} has no {missing[0]!r}: give what remask collect "
                    "wrote."
                )
        errors = len(every) - len(rows)
        return _File(path=path, rows=rows, asked=_asked(path), errors=errors)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def task(self) -> str:
        return str(self.rows[0]["task"])

    @property
    def is_injected(self) -> bool:
        return "kind" in self.rows[0]

    @property
    def is_test(self) -> bool:
        words = str(self.rows[0]["id"]).split("/")
        return len(words) < 3 or words[2] not in ("train", "validation")

    @property
    def changed(self) -> list[str]:
        """The settings of the round trips that are not the defaults: "mask_ratio/0.3"."""
        asked = self.asked.get("consistency", {})
        told = {name: _shown(value) for name, value in asked.items()}
        return [f"{name}/{told[name]}" for name in told if told[name] != USUAL.get(name)]

    @property
    def group(self) -> str:
        """What files share that differ in nothing but the round trips."""
        names = ("model", "task", "level", "split", "seed")
        shared = [sampler_in(self.asked), *(self.asked.get(name) for name in names)]
        return json.dumps(shared, sort_keys=True)


def _collected(path: Path, files: Sequence[_File]) -> Source:
    answers = [file for file in files if not file.is_injected]
    tests = [file for file in answers if file.is_test] or answers
    fitted = [file for file in answers if file not in tests]
    limits = {file.task: _threshold(file.rows) for file in reversed(fitted)}
    usual = {file.group for file in tests if not file.changed}
    studies = [
        _study(file, fitted, limits, is_changed=bool(file.changed) and file.group in usual)
        for file in tests
    ]
    return Source(
        name=path.resolve().name,
        studies=studies,
        chooser=studies[0].threshold if studies else THRESHOLD,
        settings=_settings(tests),
        labelled=[Flawed(name=s.name, rows=s.rows, threshold=s.threshold) for s in studies],
        injected=[
            Flawed(name=f.name, rows=f.rows, threshold=limits.get(f.task, THRESHOLD))
            for f in files
            if f.is_injected
        ],
    )


def _study(
    file: _File, fitted: Sequence[_File], limits: Mapping[str, float], *, is_changed: bool
) -> Study:
    own = [other for other in fitted if other.task == file.task]
    own.sort(key=lambda other: other.rows[0]["level"] != file.rows[0]["level"])
    seeds = seed_folders(file.path.parent)[1:]
    return Study(
        name=file.name,
        task=file.task,
        path=file.path,
        rows=file.rows,
        threshold=limits.get(file.task, THRESHOLD),
        drawn=drawn_as(file.asked),
        further=[rows for folder in seeds if (rows := read(folder, file.name))],
        validation=own[0].rows if own else (),
        validation_pools=own[0].rows if own else (),
        is_changed=is_changed,
        errors=file.errors,
    )


def _settings(files: Sequence[_File]) -> dict[str, list[Settings]]:
    """Return the curves: files that differ in one setting from one with the defaults."""
    found = {}
    for usual in files:
        changed = {
            file.changed[0]: file
            for file in files
            if len(file.changed) == 1 and file.group == usual.group
        }
        if changed and not usual.changed:
            folders = seed_folders(usual.path.parent)
            seeds = [_seed(folder, usual, changed) for folder in folders]
            found[usual.name] = [settings for settings in seeds if settings.usual]
    return found


def _seed(folder: Path, usual: _File, changed: Mapping[str, _File]) -> Settings:
    told = {name: _by_question(read(folder, file.name)) for name, file in changed.items()}
    most = f"trips/{max(TRIPS)}"
    return Settings(
        usual=_by_question(read(folder, usual.name)),
        changed={name: rows for name, rows in told.items() if rows and name != most},
        many=told.get(most, {}),
    )


def _by_question(rows: Iterable[Row]) -> dict[str, Row]:
    return {row["id"]: row for row in rows if row["number"] == 0}


def _threshold(rows: Rows) -> float:
    """Return the threshold with the best F1 on these answers; the paper's where it rejects none.

    Rejection sampling by a threshold that accepts every answer would be no rejection sampling.
    """
    first = [row for row in rows if row["number"] == 0]
    scores = [row["scores"].get("roundtrips") for row in first]
    if not first:
        return THRESHOLD
    best = best_f1(scores, [row["right"] for row in first])
    return THRESHOLD if accepts_all(scores, best) else best


def _asked(path: Path) -> dict[str, Any]:
    """Return the settings in a manifest; none where it is not there."""
    return dict(manifest.read(path)["asked"]) if manifest.path_of(path).exists() else {}


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
