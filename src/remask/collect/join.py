"""The shards of a collection, or of a scored file -> one file, with the bytes of one job.

    join_shards([Path("shard-1"), Path("shard-2")], Path("records"))

Folders hold a file each under one name, or several; files that are named one by one are the shards
of one collection. Whatever would make other records than one job does is refused before anything is
written: other settings, weights or rows, a shard that is missing, there twice, or not finished.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remask.errors import RecordError
from remask.records import jsonl, outputs
from remask.records.manifest import (
    VERSION,
    FileState,
    Manifest,
    ShardRange,
    is_edited,
    manifest_path,
    part_path,
    read_manifest,
)

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
        """Return a finished shard, or raise RecordError."""
        if not path.is_file() and not part_path(path).is_file():
            raise RecordError(f"{path} does not exist; name the files that --shard wrote.")
        manifest = read_manifest(path)
        if manifest.shard is None:
            raise RecordError(
                f"{path} is not a shard: it was written without --shard; leave it out."
            )
        if not manifest.is_finished or not path.is_file():
            raise RecordError(f"{path} is not finished. Repeat the command that writes it.")
        if is_edited(path, manifest):
            raise RecordError(
                f"{path} was edited after remask wrote it. Repeat the command that writes it, with "
                "--force."
            )
        return ShardFile(path=path, manifest=manifest, shard=manifest.shard)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that all shards of one collection share, by name."""
        facts = self.manifest.facts(_LOCAL)
        own = ("shard", "rows of the shard")
        return {name: value for name, value in facts.items() if name not in own}


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
    with ExitStack() as stack:
        for target, paths in groups.items():
            inputs = outputs.of_records(paths)
            stack.enter_context(outputs.hold(target, inputs, force=force))
            outputs.claim(manifest_path(target), inputs, force=force)
        checked = {target: _checked(paths) for target, paths in groups.items()}
        return tuple(_write(target, shards) for target, shards in checked.items())


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


def _checked(paths: Iterable[Path]) -> list[ShardFile]:
    """Return the shards of one file in their order, or raise where they do not make one."""
    shards = sorted(map(ShardFile.read, paths), key=lambda one: one.shard.number)
    first = shards[0]
    for one in shards[1:]:
        ours, others = ({**s.facts, "number of shards": s.shard.of} for s in (one, first))
        different = [
            f"{name} is {others.get(name)} and {ours.get(name)}"[:160]
            for name in dict.fromkeys([*ours, *others])
            if ours.get(name) != others.get(name)
        ]
        if different:
            raise RecordError(
                f"{first.path} and {one.path} are shards of two files: {'; '.join(different[:5])}."
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


def _write(out: Path, shards: Sequence[ShardFile]) -> JoinedFile:
    """Write the rows of all shards, and the manifest with the runs of all of them."""
    runs = [run for one in shards for run in one.manifest.runs]
    size = sum(one.path.stat().st_size for one in shards)
    rows = 0
    with jsonl.whole(out, size) as part:
        with part.open("wb") as file:
            for one in shards:
                content = one.path.read_bytes()
                rows += content.count(b"\n")
                file.write(content)
        state = FileState.of(part, rows=shards[-1].shard.stop)
        settings = {name: v for name, v in shards[0].manifest.settings.items() if name != "shard"}
        manifest = replace(
            shards[0].manifest, settings=settings, runs=runs, shard=None, file=state,
            version=VERSION,
        )  # fmt: skip
        manifest.write(out)
    return JoinedFile(out=out, shards=len(shards), rows=rows)
