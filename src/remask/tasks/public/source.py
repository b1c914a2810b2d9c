"""Rows of a benchmark from a local file, or from the hub at a pinned revision.

A file is .jsonl, .json, .csv or .parquet, optionally with .gz. A folder holds one file per split
(`test.jsonl`), or shards (`test-00000-of-00002.parquet`). The SHA-256 of the rows does not depend
on the file format, so a manifest can be checked against a copy in another format.
"""

import csv
import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remask.errors import InputError, MissingExtra
from remask.records.parquet import read_parquet
from remask.records.text_file import check_first_line, decode, read_bytes
from remask.tasks.base import SPLITS, Split

_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")
_ALIASES = {"dev": "validation", "val": "validation", "valid": "validation"}
_ALIASES |= {"trainset": "train", "validset": "validation", "testset": "test"}  # of MAWPS


@dataclass(frozen=True, kw_only=True)
class BenchmarkRow:
    """A row and its place, for error messages."""

    fields: Mapping[str, Any]
    where: str  # "test.jsonl line 3"

    def value(self, *names: str) -> Any:
        """Return the first of these fields that is present; raise InputError if none is."""
        for name in names:
            if self.fields.get(name) is not None:
                return self.fields[name]
        there = ", ".join(self.fields) or "none"
        raise InputError(f"{self.where} lacks the field {names[0]!r}; its fields are {there}.")

    def text(self, *names: str) -> str:
        """Return the first of these fields that is present, which must be a non-empty string."""
        content = self.value(*names)
        if not isinstance(content, str) or not content.strip():
            raise self.wrong(names[0], "is not a text with something in it")
        return content

    def texts(self, name: str) -> list[str]:
        """Return a field that must be a list of strings."""
        content = self.value(name)
        if not isinstance(content, list) or not all(isinstance(part, str) for part in content):
            raise self.wrong(name, "is not a list of texts")
        return content

    def wrong(self, name: str, what: str) -> InputError:
        """Return the error for a field."""
        return InputError(f"{self.where}: the field {name!r} {what}; correct the row.")


@dataclass(frozen=True, kw_only=True)
class BenchmarkRows:
    """The rows of a split and their origin."""

    rows: tuple[BenchmarkRow, ...]
    origin: str  # names of the files, or "repository@revision"
    sha256: str  # of the rows, each as JSON with sorted keys


@dataclass(frozen=True, kw_only=True)
class Hub:
    """Place of a benchmark on the hub or in the repository of its authors."""

    repository: str
    revision: str  # a commit, so that the rows cannot change
    licence: str
    splits: Mapping[Split, str]  # under the hub's own names
    sizes: Mapping[Split, int]
    configs: tuple[str, ...] = ("default",)
    access: str = ""  # how to get it, if a download is not enough
    hosted: bool = True  # False: not on the hub, see `access`


@dataclass(frozen=True, kw_only=True)
class BenchmarkSource:
    """The local file or folder `path`, or the hub if it is None."""

    hub: Hub
    path: Path | None = None
    mixed: bool = False  # one file holds all splits
    _read: dict[Split, BenchmarkRows] = field(default_factory=dict, compare=False)

    def rows(self, split: Split) -> BenchmarkRows:
        """Return the rows of a split, cached."""
        if split not in self._read:
            if self.path is None:
                self._read[split] = download(self.hub, split)
            else:
                self._read[split] = read_files(self._files(self.path, split))
        return self._read[split]

    def _files(self, path: Path, split: Split) -> list[Path]:
        if not path.exists():
            raise InputError(f"{path} does not exist; give a file or a folder of files.")
        if not path.is_dir():
            named = split_named(path)
            if self.mixed or split == (named or "test"):
                return [path]
            raise InputError(
                f"{path} holds the split {named or 'test'!r} alone; give a folder that has a "
                f"{split}.jsonl for the split {split!r}."
            )
        files = sorted(file for file in path.iterdir() if suffix_of(file))
        matching = [file for file in files if split_named(file) == split]
        if not matching and self.mixed and len(files) == 1:
            return files
        if not matching:
            raise InputError(
                f"{path} has no file for the split {split!r}; put {split}.jsonl, .json, .csv or "
                ".parquet there, or give a file."
            )
        return matching


def split_named(path: Path) -> Split | None:
    """Return the split in a file name such as `train-00000-of-00001.parquet`, or None."""
    word = re.split(r"[-.]", path.name.lower(), maxsplit=1)[0]
    word = _ALIASES.get(word, word)
    return next((split for split in SPLITS if split == word), None)


def suffix_of(path: Path) -> str:
    """Return the suffix of a supported file without `.gz`, or ""."""
    name = path.name.lower().removesuffix(".gz")
    return next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")


def read_files(paths: Sequence[Path]) -> BenchmarkRows:
    """Return the rows of the shards of a split."""
    rows = tuple(row for path in paths for row in read_file(path))
    if not rows:
        raise InputError(f"{paths[0]} holds no row; give a file with the benchmark in it.")
    return BenchmarkRows(
        rows=rows, origin=", ".join(path.name for path in paths), sha256=digest(rows)
    )


def read_file(path: Path) -> Iterator[BenchmarkRow]:
    """Yield the rows of a file; errors name the file and the line."""
    match suffix_of(path):
        case ".jsonl":
            return _json_lines(_text(path), path.name)
        case ".json":
            return _json_list(_text(path), path.name)
        case ".csv":
            return _csv_rows(_text(path), path.name)
        case ".parquet":
            table = read_parquet(io.BytesIO(_content(path)), path.name)
            return _rows(table.rows, f"{path.name} row")
    raise InputError(f"{path} has no suffix we read; use .jsonl, .json, .csv or .parquet (.gz).")


def _content(path: Path) -> bytes:
    try:
        data = read_bytes(path, InputError)
        return gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    except (EOFError, zlib.error, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read ({reason}); give another copy.") from None


def _text(path: Path) -> str:
    return decode(_content(path), str(path), InputError)


def _json_lines(text: str, name: str) -> Iterator[BenchmarkRow]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{name} line {number}"
            if number == 1:
                check_first_line(line.encode(), name, InputError)
            yield _row(_json(line, where), where)


def _json_list(text: str, name: str) -> Iterator[BenchmarkRow]:
    content = _json(text, name)
    if not isinstance(content, list):
        raise InputError(f"{name} is not a JSON list of rows; write one, or use .jsonl.")
    return _rows(content, f"{name} row")


def _csv_rows(text: str, name: str) -> Iterator[BenchmarkRow]:
    csv.field_size_limit(1 << 24)  # some columns hold pages of explanation
    try:
        return _rows(list(csv.DictReader(io.StringIO(text, newline=""))), f"{name} row")
    except csv.Error as error:
        raise InputError(f"{name} is not valid CSV ({error}); write it again.") from None


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error).split(": line ")[0]
        raise InputError(f"{where} is not valid JSON ({reason}); correct it.") from None


def _rows(listed: Sequence[Any], where: str) -> Iterator[BenchmarkRow]:
    return (_row(fields, f"{where} {number}") for number, fields in enumerate(listed, 1))


def _row(fields: Any, where: str) -> BenchmarkRow:
    if not isinstance(fields, dict):
        raise InputError(f"{where} is not a JSON object; write one object per row.")
    return BenchmarkRow(fields={str(name): value for name, value in fields.items()}, where=where)


def digest(rows: Sequence[BenchmarkRow]) -> str:
    """Return the SHA-256 of the rows, which does not depend on the file format."""
    digest = hashlib.sha256()
    for row in rows:
        line = json.dumps(row.fields, sort_keys=True, default=str)
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def download(hub: Hub, split: Split) -> BenchmarkRows:
    """Return the rows of a split from the hub at the pinned revision."""
    local = hub.access or "give a local file as path"
    if not hub.hosted:
        raise InputError(f"{hub.repository}@{hub.revision} is not on the hub; {local}.")
    try:
        from datasets import load_dataset
    except ImportError:
        raise MissingExtra("datasets", "data", local) from None
    origin = f"{hub.repository}@{hub.revision}"
    listed: list[Any] = []
    for config in hub.configs:
        try:
            part = load_dataset(
                hub.repository, config, split=hub.splits[split], revision=hub.revision
            )
            listed += [dict(row) for row in part]
        except Exception as error:  # whatever the network, the hub and its client raise
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(f"{origin} cannot be read from the hub ({reason}); {local}.") from None
    rows = tuple(_rows(listed, f"{origin} row"))
    if len(rows) != hub.sizes[split]:
        raise InputError(
            f"{origin} has {len(rows)} rows in the split {split!r} where that revision has "
            f"{hub.sizes[split]}; clear the cache of datasets and try again."
        )
    return BenchmarkRows(rows=rows, origin=origin, sha256=digest(rows))
