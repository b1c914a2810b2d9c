"""Who works the chunks: the process at hand, with one model or several replicas; or a cluster.

Workers finish out of order, and the file of results is written in order. What is finished early
waits in shards, one Parquet file for each chunk. `cluster` has the engine that needs Ray.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch

from remask.collect.chunks import Chunk
from remask.denoisers.base import Denoiser
from remask.denoisers.wrap import Wrapped
from remask.errors import RecordError
from remask.records import jsonl, text_file
from remask.records.jsonl import Row
from remask.records.parquet import read_table, write_parquet
from remask.sampling.batches import spread

_Given = TypeVar("_Given")


@dataclass(frozen=True)
class Shards:
    """Finished chunks beside a file of results, until they can be joined.

    The folder is OUT.shards, and a shard is named by its rows: 00000016-00000024.parquet. A row
    stands there as the JSON that it will be, so that joining changes no byte. `asked.json` holds
    the settings: shards of other ones are never joined.
    """

    folder: Path
    settings: Mapping[str, Any]

    @staticmethod
    def of(out: Path, settings: Mapping[str, Any]) -> "Shards":
        """Return the shards of a file, or refuse where they belong to other settings."""
        shards = replace(Shards.beside(out), settings=json.loads(json.dumps(settings)))
        if shards._note.exists() and any(shards.folder.glob("*.parquet")):
            earlier = text_file.read_object(shards._note, f"remove {shards.folder}")
            other = [name for name, value in shards.settings.items() if earlier.get(name) != value]
            if other:
                raise RecordError(
                    f"{shards.folder} was begun with another {' and '.join(other)}; "
                    "repeat the earlier command to continue it, or remove the folder."
                )
        if not shards._note.exists() and shards._strangers():
            raise RecordError(
                f"{shards.folder} is in the way: what is finished early waits there, and that "
                "folder holds something else; move it."
            )
        return shards

    @staticmethod
    def beside(out: Path) -> "Shards":
        """Return the shards of a file, whatever their settings."""
        return Shards(Path(f"{out}.shards"), {})

    def _strangers(self) -> bool:
        """Return whether the folder holds what was never written here."""
        beginning = jsonl.unfinished(self._note)
        return self.folder.exists() and any(path != beginning for path in self.folder.iterdir())

    @property
    def _note(self) -> Path:
        return self.folder / "asked.json"

    def path(self, chunk: tuple[int, int]) -> Path:
        """Return the file of a chunk."""
        return self.folder / "{:08}-{:08}.parquet".format(*chunk)

    def has(self, chunk: tuple[int, int]) -> bool:
        """Return whether a chunk is finished."""
        return self.path(chunk).exists()

    def write(self, chunk: tuple[int, int], rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows of a chunk, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.settings, indent=2) + "\n"
        if not self._note.exists() or self._note.read_text(encoding="utf-8") != text:
            jsonl.write_text(self._note, text)  # first: no shard is without one
        lines = [{"record": json.dumps(row, allow_nan=False)} for row in rows]
        write_parquet(self.path(chunk), lines)

    def read(self, chunk: tuple[int, int]) -> list[Row]:
        """Return the rows of a finished chunk."""
        return [json.loads(row["record"]) for row in read_table(self.path(chunk)).rows]

    def clear(self) -> None:
        """Remove the folder, once everything in it has been joined."""
        if self.folder.exists():
            shutil.rmtree(self.folder)


@dataclass(frozen=True)
class ChunkedWork(Generic[_Given]):
    """A piece of work in chunks; the rows of one are `run(model, load(chunk))`."""

    chunks: Sequence[Chunk]
    load: Callable[[Chunk], _Given]  # runs here
    run: Callable[[Denoiser, _Given], list[Row]]  # maybe elsewhere: with what it is given, pickled
    shards: Shards  # what an earlier run has left there is not worked again


class Engine(Protocol):
    """Does the chunks of a piece of work."""

    @property
    def name(self) -> str:
        """What a manifest calls it."""
        ...

    def results(self, job: ChunkedWork[Any]) -> Iterator[list[Row]]:
        """Yield the rows of each chunk, in the order of the chunks."""
        ...


@dataclass(frozen=True, eq=False)
class Local:
    """The process at hand, with the model it has; replicas of a model take a chunk each."""

    denoiser: Denoiser
    name: str = "local"

    def results(self, job: ChunkedWork[Any]) -> Iterator[list[Row]]:
        """Yield the rows of each chunk, one after another."""

        def rows_of(denoiser: Denoiser, chunk: Chunk) -> list[Row]:
            if job.shards.has(chunk):
                return job.shards.read(chunk)
            return job.run(denoiser, job.load(chunk))

        for _, rows in spread(self.denoiser, job.chunks, rows_of):
            yield rows


@dataclass(frozen=True, eq=False)
class RemoteModel(Wrapped):
    """A model that other processes hold: all that can be told without its weights."""

    on: torch.device
    folder: str  # there
    weights: str  # what tells them from others

    @property
    def device(self) -> torch.device:
        """Where the weights are, over there."""
        return self.on


def append_results(
    path: Path,
    engine: Engine,
    job: ChunkedWork[Any],
    lines_of: Callable[[list[Row]], list[Row]] = list,
) -> Iterator[tuple[Chunk, list[Row]]]:
    """Append the rows of each chunk to a file as they come, and yield them once they are there."""
    for chunk, rows in zip(job.chunks, engine.results(job), strict=True):
        jsonl.append(path, lines_of(rows))
        yield chunk, rows
