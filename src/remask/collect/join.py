"""The shards of a collection, or of a scored file -> one file, with the bytes of one job.

    join_shards([Path("shard-1"), Path("shard-2")], Path("records"))

Folders hold a file each under one name, or several; files that are named one by one are the shards
of one collection. Whatever would make other records than one job does is refused before anything is
written: other settings, weights or rows, a shard that is missing, there twice, or not finished.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from remask.errors import RecordError
from remask.records import jsonl, outputs
from remask.records.manifest import Manifest, ShardRange, manifest_path, read_manifest

_LOCAL = ("data", "allow_execution")  # a job's own affair: the rows are told apart by their hash


@dataclass(frozen=True, kw_only=True)
class JoinedFile:
    """What was written."""

    out: Path
    shards: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class ShardFile:
    """One shard on the disk."""

    path: Path
    manifest: Manifest
    shard: ShardRange

    @staticmethod
    def read(path: Path) -> "ShardFile":
        """Return a shard, or raise where a file is none."""
        if not path.is_file():
            if _begun(path).exists():
                raise RecordError(
                    f"{path} is not finished: {_begun(path)} holds what was scored so far; repeat "
                    "the remask score that writes it, which goes on there."
                )
            raise RecordError(f"{path} does not exist; name the files that --shard wrote.")
        manifest = read_manifest(path)
        if manifest.shard is None:
            raise RecordError(f"{path} is no shard: it was written without --shard; leave it out.")
        return ShardFile(path=path, manifest=manifest, shard=manifest.shard)

    @property
    def is_scored(self) -> bool:
        """Whether `score` wrote it: one row per row, and no manifest once the rows are together."""
        return "samples" not in self.manifest.settings

    @property
    def facts(self) -> dict[str, Any]:
        """What the shards of one collection have in common, by name."""
        settings = {n: v for n, v in self.manifest.settings.items() if n not in _LOCAL}
        known = {name: getattr(self.manifest, name) for name in ("dataset", "notes", "scorers")}
        model = {} if self.manifest.model is None else asdict(self.manifest.model)
        return {
            **settings,
            **known,
            **{f"{name} of the model": value for name, value in model.items()},
            "number of shards": self.shard.of,
        }

    def num_rows(self) -> int:
        """Return how many lines the shard has, or raise where it is not finished."""
        rows = done = 0
        samples, problems = self.manifest.settings.get("samples", 1), self.manifest.problems
        with self.path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):  # else it was killed while it wrote
                    rows += 1
                    row = jsonl.parse_line(line, self.path, rows)
                    done += samples if "error" in row else 1
        if done != len(problems) * samples:
            raise RecordError(
                f"{self.path} is not finished: it is shard {self.shard}, and has {done} of "
                f"{len(problems) * samples} answers; repeat the command that writes it"
                f"{', with --force' if self.is_scored else ''}."  # collect goes on, score does not
            )
        return rows


def join_shards(
    sources: Sequence[Path], out: Path, *, force: bool = False
) -> tuple[JoinedFile, ...]:
    """Join shards and return what was written.

    Args:
        sources: folders, in each of which a file is a shard of the collection of its name; or the
            files of one collection.
        out: the file; or, of folders, the folder of the files.
        force: replace what is there already.
    """
    groups = _groups(sources, out)
    for target, paths in groups.items():
        for path in (target, manifest_path(target)):
            outputs.claim(path, outputs.of_records(paths), force=force)
    checked = {target: _checked(paths) for target, paths in groups.items()}
    counts = {target: sum(one.num_rows() for one in shards) for target, shards in checked.items()}
    return tuple(_write(target, shards, counts[target]) for target, shards in checked.items())


def _groups(sources: Sequence[Path], out: Path) -> dict[Path, list[Path]]:
    """Return the shards of each file that is to be written."""
    folders = [path for path in sources if path.is_dir()]
    if not folders:
        return {out: [*sources]}
    if len(folders) < len(sources):
        other = next(path for path in sources if path not in folders)
        raise RecordError(f"{other} is no folder and {folders[0]} is one; name either kind alone.")
    groups: dict[Path, list[Path]] = {}
    for folder in folders:
        begun = (path.with_suffix("") for path in folder.glob("*.jsonl.part"))
        files = sorted({*folder.glob("*.jsonl"), *begun})
        if not files:
            raise RecordError(f"{folder} holds no records; name folders that hold shards.")
        for path in files:
            groups.setdefault(out / path.name, []).append(path)
    return groups


def _begun(path: Path) -> Path:
    """Return where `score` keeps its results until all are there."""
    return Path(f"{path}.part")


def _checked(paths: Iterable[Path]) -> list[ShardFile]:
    """Return the shards of one file in their order, or raise where they do not make one."""
    shards = sorted(map(ShardFile.read, paths), key=lambda one: one.shard.number)
    first = shards[0]
    for one in shards[1:]:
        other = [name for name, value in one.facts.items() if first.facts.get(name) != value]
        if other:
            raise RecordError(
                f"{one.path} and {first.path} are shards of two files: they have another "
                f"{' and '.join(other)}; join what one command wrote."
            )
    by_number: dict[int, Path] = {}
    for one in shards:
        number = one.shard.number
        if number in by_number:
            raise RecordError(
                f"{by_number[number]} and {one.path} are both shard {one.shard}; leave one out."
            )
        by_number[number] = one.path
    missing = [number for number in range(1, first.shard.of + 1) if number not in by_number]
    if missing:
        names = ", ".join(f"{number}/{first.shard.of}" for number in missing)
        raise RecordError(
            f"of {first.path.name} the shards {names} are missing; make them, or name them too."
        )
    _check_edges(shards)
    return shards


def _check_edges(shards: Sequence[ShardFile]) -> None:
    """Raise where a shard does not begin where the one before it ends: it was cut otherwise."""
    ends = [0, *(one.shard.stop for one in shards)]
    for one, begin in zip(shards, ends, strict=False):
        if one.shard.start != begin:
            raise RecordError(
                f"{one.path} begins with number {one.shard.start}, and the shard before it ends "
                f"with {begin - 1}: they were made on devices that cut the work differently; make "
                "them on devices of one kind."
            )


def _write(out: Path, shards: Sequence[ShardFile], rows: int) -> JoinedFile:
    """Write the records of all shards, and the manifest with the runs of all of them."""
    out.parent.mkdir(parents=True, exist_ok=True)
    runs = [run for one in shards for run in one.manifest.runs]
    manifest = replace(shards[0].manifest, runs=runs, shard=None)
    size = sum(one.path.stat().st_size for one in shards)
    with jsonl.whole(out, size) as part:
        with part.open("wb") as file:
            for one in shards:
                with one.path.open("rb") as source:
                    shutil.copyfileobj(source, file)
        if not shards[0].is_scored:
            manifest.write(out)
    return JoinedFile(out=out, shards=len(shards), rows=rows)
