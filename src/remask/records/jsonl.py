"""Results on the disk: lines appended as they come, files replaced whole. No torch here."""

import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from remask.errors import WriteError
from remask.records import text_file

Row = dict[str, Any]  # a line: a JSON object
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Append rows, and return their bytes once they are on the disk.

    If the disk is full, nothing is appended. NaN raises ValueError: JSON has no NaN.
    """
    content = encode(rows)  # before the file is there
    before = path.stat().st_size if path.exists() else 0
    with _naming(path, len(content)):
        try:
            with path.open("ab") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                os.truncate(path, before)
            raise
    return content


def encode(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as lines; lone surrogates, which UTF-8 cannot encode, are escaped."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    return "".join(lines).encode("utf-8", "backslashreplace")


def unfinished(path: Path) -> Path:
    """Return where a file is written before it is whole: not .part, where score keeps results."""
    return Path(f"{path}.tmp")


@contextmanager
def whole(path: Path, size: int | None = None) -> Iterator[Path]:
    """Yield where to write a file; it takes its name when all of it is on the disk, or never.

    Args:
        path: the file, of which a failure leaves what was there before.
        size: its bytes, where they are known: a full disk is told how many are needed.
    """
    part = unfinished(path)
    with _naming(path, size):
        try:
            yield part
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and make sure that it reaches the disk."""
    with whole(path, len(content)) as part:
        part.write_bytes(content)


@contextmanager
def _naming(path: Path, size: int | None) -> Iterator[None]:
    """Let an error of the disk say which file could not be written, and how much it takes."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        room = _room(path, size) if error.errno in _FULL else ""
        raise WriteError(
            f"{path} could not be written: {reason}{room}; what was there before is unchanged."
        ) from None


def _room(path: Path, size: int | None) -> str:
    """Return how much a file takes and how much there is, as far as both are known."""
    facts = [] if size is None else [f"{size:,} bytes are needed"]
    with suppress(OSError):
        facts.append(f"{shutil.disk_usage(path.parent).free:,} bytes are free")
    return f" ({', '.join(facts)})" if facts else ""


def write_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    replace_file(path, text.encode())


def read(path: Path) -> Iterator[Row]:
    """Yield every row; a broken line is an error that names its number."""
    with text_file.open_file(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield parse_line(line, path, number)


def parse_line(line: bytes, path: Path, number: int) -> Row:
    """Return the row in a line that is not blank."""
    content = line
    if number == 1:
        content = text_file.without_mark(line, str(path)).strip()
        text_file.check_first_line(content, str(path))
    return text_file.parse_object(content, f"{path} line {number}")
