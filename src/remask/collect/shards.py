"""Finished portions on the disk, until they can be joined: one Parquet file each.

Workers finish out of order, and the file of results is written in order. What is finished early
waits in the folder OUT.shards, named by its rows, as in 00000016-00000024.parquet; a row is kept as
the JSON that it will be, so that joining changes no byte. Beside them `asked.json` says what was
asked: shards of another question are never joined.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remask.errors import RecordError
from remask.records import jsonl, text_file
from remask.records.parquet import read_table, write_parquet


@dataclass(frozen=True)
class Shards:
    """The folder beside a file of results."""

    folder: Path
    asked: Mapping[str, Any]

    @staticmethod
    def of(out: Path, asked: Mapping[str, Any]) -> "Shards":
        """Return the shards of a file, or refuse where they belong to another question."""
        shards = replace(Shards.beside(out), asked=json.loads(json.dumps(asked)))
        if shards._note.exists() and any(shards.folder.glob("*.parquet")):
            found = text_file.read_object(shards._note, f"remove {shards.folder}")
            other = [name for name, value in shards.asked.items() if found.get(name) != value]
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
        """Return the shards of a file, whatever their question."""
        return Shards(Path(f"{out}.shards"), {})

    def _strangers(self) -> bool:
        """Say whether the folder holds what was never written here."""
        beginning = jsonl.unfinished(self._note)
        return self.folder.exists() and any(path != beginning for path in self.folder.iterdir())

    @property
    def _note(self) -> Path:
        return self.folder / "asked.json"

    def path(self, portion: tuple[int, int]) -> Path:
        """Return the file of a portion."""
        return self.folder / "{:08}-{:08}.parquet".format(*portion)

    def has(self, portion: tuple[int, int]) -> bool:
        """Say whether a portion is finished."""
        return self.path(portion).exists()

    def write(self, portion: tuple[int, int], rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep the rows of a portion, whole or not at all."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
        text = json.dumps(self.asked, indent=2) + "\n"
        if not self._note.exists() or self._note.read_text(encoding="utf-8") != text:
            jsonl.write_text(self._note, text)  # first: no shard is without one
        kept = [{"record": json.dumps(row, allow_nan=False)} for row in rows]
        write_parquet(self.path(portion), kept)

    def read(self, portion: tuple[int, int]) -> list[dict[str, Any]]:
        """Return the rows of a finished portion."""
        return [json.loads(row["record"]) for row in read_table(self.path(portion)).rows]

    def clear(self) -> None:
        """Remove the folder, once everything in it has been joined."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
