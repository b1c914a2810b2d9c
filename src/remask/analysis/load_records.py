"""Records on disk -> the studies that they hold, for `remask study`, `remask report` and pages.

Two kinds of places are known. The folder of a whole study has files named as `folder` says, one
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

from remask.analysis.figure import Figure, Figures
from remask.analysis.folder import (
    CURVES,
    DEFAULTS,
    LEVELS,
    MANY_TRIPS,
    TRIPS,
    curves_pool,
    labelled_files,
    pool_files,
    read,
    seed_folders,
)
from remask.analysis.limits import Limit, Limits, chosen_on
from remask.analysis.methods import THRESHOLD
from remask.errors import RecordError
from remask.records.manifest import Manifest, find_manifest, part_path
from remask.records.record import ErrorRecord, Record, errors_in, read_records, records_in
from remask.tasks import TASKS

Rows = Sequence[Record]
ByQuestion = Mapping[str, Record]
Setting = tuple[str, str]  # its name and value: ("mask_ratio", "0.3")


@dataclass(frozen=True, kw_only=True)
class StudyRecords:
    """The answers to one set of problems."""

    name: str  # "wordmath-hard", or that of the file
    task: str
    path: Path
    rows: Rows
    threshold: float  # of the round trips: see `limits`
    drawn: str = ""  # how the pool of each problem was: "greedy + 9 at 0.7"; empty where unknown
    further: Sequence[Rows] = ()  # the same of other seeds
    validation: Rows = ()  # answers that weights are fitted on
    validation_pools: Rows = ()  # and baselines, which look at several samples
    is_changed: bool = False  # collected with another setting than the defaults: a curve's point
    errors: int = 0  # problems that could not be asked


@dataclass(frozen=True, kw_only=True)
class LabelledRecords:
    """Answers whose steps have labels."""

    name: str
    rows: Rows
    threshold: float


@dataclass(frozen=True, kw_only=True)
class CurveRecords:
    """The answers of one seed under other settings, each by question."""

    usual: ByQuestion  # under the default settings
    changed: Mapping[Setting, ByQuestion]
    many: ByQuestion  # with more round trips than usual


@dataclass(frozen=True, kw_only=True)
class Source:
    """Everything that one place holds."""

    name: str
    studies: Sequence[StudyRecords]
    main: str = ""  # the study that a whole folder has curves of
    limits: Limits = field(default_factory=Limits)  # thresholds of the round trips
    chooser: float = THRESHOLD  # the one that is carried over all studies
    curves: Mapping[str, Sequence[CurveRecords]] = field(default_factory=dict)  # seeds, by study
    labelled: Sequence[LabelledRecords] = ()
    injected: Sequence[LabelledRecords] = ()

    def errors(self) -> Figures:
        """Return how many problems of each study could not be asked, where some could not."""
        return Figures(
            Figure(
                section="errors", measure="errors", study=study.name, value=study.errors,
                unit="problems not asked",
            )
            for study in self.studies
            if study.errors
        )  # fmt: skip


def required(figures: Figures, source: Source, what: str, flags: str) -> Figures:
    """Return the figures, or raise where there are none and say what collects what they need."""
    if not figures:
        raise RecordError(f"{source.name} holds no {what}; collect them: remask collect {flags}.")
    return figures


def required_of_trips(figures: Figures, source: Source) -> Figures:
    """Return the figures, or raise where round trips are missing or the answers all alike."""
    scored = any(row.by_trip for study in source.studies for row in study.rows)
    if scored and not figures:
        raise RecordError(
            f"{source.name} holds answers that are too few or all alike; collect others: remask "
            "collect with more --problems or a harder --level."
        )
    return required(figures, source, "round trips", "--scored 1")


def read_source(path: Path, thresholds: Mapping[str, float] | None = None) -> Source:
    """Return what a folder or file of records holds, or raise where it holds none.

    Args:
        path: the folder of a whole study, another folder of records, or a file.
        thresholds: by task, instead of those that validation answers choose.
    """
    if not (path.exists() or part_path(path).exists()):
        raise RecordError(f"{path} does not exist; name a folder or file of records.")
    if is_whole_study(path):
        return _whole(path, thresholds or {})
    paths = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    files = [file for file in map(RecordFile.read, paths) if file.rows]
    if not files:
        raise RecordError(f"{path} holds no records; collect some with remask collect.")
    return source_of(path.resolve().name, files, thresholds)


def is_whole_study(path: Path) -> bool:
    """Say whether a path is the folder of a whole study."""
    return path.is_dir() and any((path / f"{name}.jsonl").exists() for name in pool_files())


def _whole(path: Path, thresholds: Mapping[str, float]) -> Source:
    folders = seed_folders(path)
    chosen = {task: read(path, f"threshold-{task}") for task in TASKS}
    manifests = {task: find_manifest(path / f"threshold-{task}.jsonl") for task in TASKS}
    limits = Limits(given=thresholds, chosen=chosen_on(chosen), manifests=manifests)
    studies = [
        StudyRecords(
            name=name,
            task=task,
            path=path / f"{file}.jsonl",
            rows=rows,
            threshold=_limit(limits, path / f"{file}.jsonl", task),
            drawn=_drawn(find_manifest(path / f"{file}.jsonl")),
            further=[more for folder in folders[1:] if (more := read(folder, file))],
            validation=chosen[task],
            validation_pools=_validation_pool(path, task) or chosen[task],
            errors=len(errors_in(read_records(path / f"{file}.jsonl"))),
        )
        for file, (name, task) in pool_files().items()
        if (rows := read(path, file))
    ]
    pool = curves_pool(path)
    main, task = pool_files().get(pool, ("", studies[0].task if studies else ""))
    chooser = _limit(limits, path / f"{pool}.jsonl", task)
    return Source(
        name=path.resolve().name,
        studies=studies,
        main=main,
        limits=limits,
        chooser=chooser,
        curves={main: [curve_records(folder, pool) for folder in folders]} if main else {},
        labelled=list(_labelled(folders, limits)),
        injected=list(_injected(folders, limits)),
    )


def _limit(limits: Limits, path: Path, task: str) -> float:
    return limits.of(task, find_manifest(path)).value


def _validation_pool(path: Path, task: str) -> list[Record]:
    """Return the pools of validation at the temperature of the study; none where it is unknown."""
    manifest = find_manifest(path / f"threshold-{task}.jsonl")
    temperature = None if manifest is None else manifest.sampler.get("temperature")
    return read(path, f"validation-{task}-hard-t{temperature}")


def curve_records(folder: Path, pool: str) -> CurveRecords:
    """Return the answers to the problems of a pool under every setting, of one seed's folder."""
    return CurveRecords(
        usual=_by_question(read(folder, pool)),
        changed={
            setting: rows
            for file, setting in CURVES.items()
            if (rows := _by_question(read(folder, file)))
        },
        many=_by_question(read(folder, MANY_TRIPS)),
    )


def _labelled(folders: Sequence[Path], limits: Limits) -> Iterator[LabelledRecords]:
    for file, task in labelled_files().items():
        rows = [row for folder in folders for row in read(folder, file)]
        if rows:
            threshold = _limit(limits, folders[0] / f"{file}.jsonl", task)
            yield LabelledRecords(name=file, rows=rows, threshold=threshold)


def _injected(folders: Sequence[Path], limits: Limits) -> Iterator[LabelledRecords]:
    for task in TASKS:
        for level, ending in LEVELS.items():
            file = f"injected-{task}-{level}"
            rows = [row for folder in folders for row in read(folder, file)]
            if rows:
                threshold = _limit(limits, folders[0] / f"{file}.jsonl", task)
                yield LabelledRecords(name=f"{task}{ending}", rows=rows, threshold=threshold)


@dataclass(frozen=True, kw_only=True)
class RecordFile:
    """What `remask collect` wrote into one file."""

    path: Path
    rows: Rows
    manifest: Manifest | None = None
    errors: Sequence[ErrorRecord] = ()  # problems that could not be asked

    @staticmethod
    def read(path: Path) -> "RecordFile":
        """Return the records of a file, or raise RecordError if it is not sound."""
        lines = read_records(path)
        rows, errors = records_in(lines), errors_in(lines)
        return RecordFile(path=path, rows=rows, manifest=find_manifest(path), errors=errors)

    @property
    def name(self) -> str:
        """The name of the file, which is that of its study."""
        return self.path.stem

    @property
    def task(self) -> str:
        """The task of its problems."""
        return self.rows[0].task

    def limit(self, limits: Limits) -> Limit:
        """Return the threshold of its round trips."""
        return limits.of(self.task, self.manifest)

    @property
    def is_injected(self) -> bool:
        """Whether these are solutions with flaws."""
        return self.rows[0].kind is not None

    @property
    def is_test(self) -> bool:
        """Whether these are answers to judge by, not to choose or fit on."""
        words = self.rows[0].id.split("/")
        return len(words) < 3 or words[2] not in ("train", "validation")

    @property
    def changed(self) -> list[Setting]:
        """The settings of the round trips that are not the defaults."""
        shown = {
            name: f"{value:g}" if isinstance(value, int | float) else str(value)
            for name, value in (self.manifest.consistency if self.manifest else {}).items()
        }
        return [(name, value) for name, value in shown.items() if value != DEFAULTS.get(name)]

    @property
    def group(self) -> str:
        """What files share that differ in nothing but the round trips."""
        names = ("model", "task", "level", "split", "seed")
        manifest = self.manifest or Manifest(settings={})
        shared = [manifest.sampler, *(manifest.settings.get(name) for name in names)]
        return json.dumps(shared, sort_keys=True)


def source_of(
    name: str, files: Sequence[RecordFile], thresholds: Mapping[str, float] | None = None
) -> Source:
    """Return what files of records hold that are no whole study."""
    answers = [file for file in files if not file.is_injected]
    tests = [file for file in answers if file.is_test] or answers
    validation = [file for file in answers if file not in tests]
    chosen = chosen_on({file.task: file.rows for file in reversed(validation)})
    manifests = {file.task: file.manifest for file in reversed(validation)}
    limits = Limits(given=thresholds or {}, chosen=chosen, manifests=manifests)
    usual = {file.group for file in tests if not file.changed}
    studies = [
        _study(file, validation, limits, is_changed=bool(file.changed) and file.group in usual)
        for file in tests
    ]
    return Source(
        name=name,
        studies=studies,
        limits=limits,
        chooser=studies[0].threshold if studies else THRESHOLD,
        curves=_curves(tests),
        labelled=[
            LabelledRecords(name=s.name, rows=s.rows, threshold=s.threshold) for s in studies
        ],
        injected=[
            LabelledRecords(name=f.name, rows=f.rows, threshold=f.limit(limits).value)
            for f in files
            if f.is_injected
        ],
    )


def _study(
    file: RecordFile,
    validation: Sequence[RecordFile],
    limits: Limits,
    *,
    is_changed: bool,
) -> StudyRecords:
    own = [other for other in validation if other.task == file.task]
    own.sort(key=lambda other: other.rows[0].level != file.rows[0].level)
    seeds = seed_folders(file.path.parent)[1:]
    return StudyRecords(
        name=file.name,
        task=file.task,
        path=file.path,
        rows=file.rows,
        threshold=file.limit(limits).value,
        drawn=_drawn(file.manifest),
        further=[rows for folder in seeds if (rows := read(folder, file.name))],
        validation=own[0].rows if own else (),
        validation_pools=own[0].rows if own else (),
        is_changed=is_changed,
        errors=len(file.errors),
    )


def _curves(files: Sequence[RecordFile]) -> dict[str, list[CurveRecords]]:
    """Return the curves: files that differ in one setting from one with the defaults."""
    curves = {}
    for usual in files:
        changed = {
            file.changed[0]: file.name
            for file in files
            if len(file.changed) == 1 and file.group == usual.group
        }
        if changed and not usual.changed:
            folders = seed_folders(usual.path.parent)
            seeds = [_curve_seed(folder, usual.name, changed) for folder in folders]
            curves[usual.name] = [seed for seed in seeds if seed.usual]
    return curves


def _curve_seed(folder: Path, usual: str, changed: Mapping[Setting, str]) -> CurveRecords:
    answers = {setting: _by_question(read(folder, name)) for setting, name in changed.items()}
    most = ("trips", str(max(TRIPS)))
    return CurveRecords(
        usual=_by_question(read(folder, usual)),
        changed={setting: rows for setting, rows in answers.items() if rows and setting != most},
        many=answers.get(most, {}),
    )


def _by_question(rows: Iterable[Record]) -> dict[str, Record]:
    return {row.id: row for row in rows if row.number == 0}


def _drawn(manifest: Manifest | None) -> str:
    return "" if manifest is None else manifest.drawn
