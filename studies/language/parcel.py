"""Files that travel in pieces: packed, cut into parts of one size, and put together again.

    OUT/0/NAME.part-000 ...    the parts, so many to a folder as may travel together
    OUT/0/NAME.parcel.json     what they hold, with the sha256 of every file; in each folder

Files are compressed in blocks. Of weights in bfloat16 the upper bytes, which repeat themselves,
come before the lower ones, which do not: a third less than the file.
"""

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from remask.errors import InputError, RecordError
from remask.records.jsonl import write_text
from remask.records.text_file import read_object

MIB = 2**20
BLOCK = 8 * MIB  # of a file, compressed at once
NOTE = ".parcel.json"
_SIZE = struct.Struct("<I")  # of a compressed block, before it
_LEVEL = 1  # more takes long and gains little
_WEIGHTS = ".safetensors"
Note = dict[str, Any]


def pack(
    source: Path, out: Path, *, part: int = 15 * MIB, group: int = 4, skip: Sequence[str] = ()
) -> Note:
    """Pack a file, or all files of a folder, and return the note on what was written.

    Args:
        source: what is to travel.
        out: a new or empty folder.
        part: most bytes of a part.
        group: most parts of a folder.
        skip: files of a folder to leave, such as `*.pt`.
    """
    if not source.exists():
        raise InputError(f"{source} does not exist; name a file or a folder.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is there already; name a new folder for the parts.")
    root = source.parent if source.is_file() else source
    paths = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())
    files = {path.relative_to(root).as_posix(): path for path in paths}
    files = {name: p for name, p in files.items() if not any(fnmatch(name, s) for s in skip)}
    if not files:
        raise InputError(f"{source} holds no files to pack; name a folder that does.")
    name = source.resolve().name
    with _Parts(out, name, part, group) as parts:
        entries = [_write(path, where, parts) for where, path in files.items()]
    note: Note = {"name": name, "parts": parts.number, "bytes": parts.total, "files": entries}
    for folder in sorted(out.iterdir()):
        write_text(folder / f"{name}{NOTE}", json.dumps(note, indent=1) + "\n")
    return note


def unpack(parts: Sequence[Path], out: Path) -> list[Path]:
    """Put a parcel together again; return the files, each of which has been checked.

    Args:
        parts: folders that hold the parts, at any depth.
        out: folder for the files; those of the same names are replaced.
    """
    note = _note(parts)
    stream = _Joined(_found(parts, note))
    return [_read(entry, stream, out) for entry in note["files"]]


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Parts:
    """The parts in the making: what is written runs from one into the next."""

    def __init__(self, out: Path, name: str, part: int, group: int) -> None:
        self.out, self.name, self.part, self.group = out, name, part, group
        self.number, self.total, self.room = 0, 0, 0
        self.file: BinaryIO | None = None

    def __enter__(self) -> "_Parts":
        (self.out / "0").mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()

    def write(self, data: bytes) -> None:
        """Append bytes, in as many parts as they need."""
        self.total += len(data)
        while data:
            if self.room == 0:
                self._next()
            assert self.file is not None, "there is room in an open part"
            self.file.write(data[: self.room])
            data, self.room = data[self.room :], max(0, self.room - len(data))

    def _next(self) -> None:
        self.__exit__()
        folder = self.out / str(self.number // self.group)
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / _part_name(self.name, self.number)).open("wb")
        self.number, self.room = self.number + 1, self.part


class _Joined:
    """The bytes of all parts, one after another."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.left = list(reversed(paths))
        self.rest = b""

    def read(self, size: int) -> bytes:
        """Return the next bytes, or raise where there are not as many."""
        while len(self.rest) < size and self.left:
            self.rest += self.left.pop().read_bytes()
        if len(self.rest) < size:
            raise RecordError("the parts end too early; bring all of them, as they were written.")
        data, self.rest = self.rest[:size], self.rest[size:]
        return data


def _part_name(name: str, number: int) -> str:
    return f"{name}.part-{number:03d}"


def _write(path: Path, name: str, parts: _Parts) -> Note:
    """Write one file into the parts and return what the note says of it."""
    check, blocks = hashlib.sha256(), 0
    apart = path.suffix == _WEIGHTS

    def read() -> Iterator[bytes]:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                check.update(block)
                yield block

    with ThreadPoolExecutor(os.cpu_count()) as threads:  # zlib lets others run meanwhile
        for data in threads.map(partial(_compressed, apart=apart), read()):
            parts.write(_SIZE.pack(len(data)) + data)
            blocks += 1
    size = path.stat().st_size
    return {"path": name, "bytes": size, "blocks": blocks, "apart": apart,
            "sha256": check.hexdigest()}  # fmt: skip


def _compressed(block: bytes, *, apart: bool) -> bytes:
    if not apart:
        return zlib.compress(block, _LEVEL)
    # Exponents come in no order: looking for repeated strings makes them longer.
    coder = zlib.compressobj(_LEVEL, strategy=zlib.Z_HUFFMAN_ONLY)
    return coder.compress(block[1::2] + block[::2]) + coder.flush()


def _expanded(data: bytes, *, apart: bool) -> bytes:
    try:
        block = zlib.decompress(data)
    except zlib.error:
        raise RecordError("a part is damaged; bring it once more.") from None
    if not apart:
        return block
    whole = bytearray(len(block))
    num_upper = len(block) // 2
    whole[1::2], whole[::2] = block[:num_upper], block[num_upper:]
    return bytes(whole)


def _read(entry: Note, stream: _Joined, out: Path) -> Path:
    """Write one file of a parcel, whole or not at all."""
    where = PurePosixPath(entry["path"])
    if where.is_absolute() or ".." in where.parts:
        raise RecordError(f"the note names {where}, which is outside of the folder; it is no ours.")
    path = out / where
    path.parent.mkdir(parents=True, exist_ok=True)
    begun, check = path.with_name(f"{path.name}.begun"), hashlib.sha256()
    with begun.open("wb") as file:
        for _ in range(entry["blocks"]):
            (size,) = _SIZE.unpack(stream.read(_SIZE.size))
            block = _expanded(stream.read(size), apart=entry["apart"])
            check.update(block)
            file.write(block)
    if check.hexdigest() != entry["sha256"]:
        begun.unlink()
        raise RecordError(f"{path} has another sha256 than when it was packed; bring it once more.")
    begun.replace(path)
    return path


def _note(parts: Sequence[Path]) -> Note:
    """Return the one note that folders hold."""
    paths = [path for folder in parts for path in sorted(folder.rglob(f"*{NOTE}"))]
    if not paths:
        raise InputError(f"{', '.join(map(str, parts))} holds no parcel; name folders of parts.")
    notes = [read_object(path, "pack it again") for path in paths]
    if any(note != notes[0] for note in notes):
        raise InputError(f"{paths[0]} and others are notes of several parcels; name one of them.")
    return notes[0]


def _found(parts: Sequence[Path], note: Note) -> list[Path]:
    """Return the parts in their order, or raise naming those that are missing."""
    there = {path.name: path for folder in parts for path in folder.rglob("*.part-*")}
    names = [_part_name(note["name"], number) for number in range(note["parts"])]
    missing = [name for name in names if name not in there]
    if missing:
        raise InputError(f"of {len(names)} parts {', '.join(missing)} are missing; bring them too.")
    paths = [there[name] for name in names]
    if sum(path.stat().st_size for path in paths) != note["bytes"]:
        raise RecordError("the parts are not as large as they were written; bring them once more.")
    return paths
