"""Results on the disk: lines appended as they come, files replaced whole. No torch here."""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from remask.errors import RecordError


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows and make sure they reach the disk. NaN is refused, as JSON has none."""
    content = _lines(rows)  # before the file is there
    with path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write other rows in the place of those of a file, all of them or none."""
    replace_file(path, _lines(rows))


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as they stand in a file; half a surrogate pair, which is no UTF-8, is escaped."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    return "".join(lines).encode("utf-8", "backslashreplace")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a file to append to, or raise where another process holds it.

    Two that append would each write every row. The hold ends with the process, however it ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordError(
                f"{path} is being written by another process; wait for it or choose another file."
            ) from None
        try:
            yield
        finally:
            if path.exists() and not path.stat().st_size:
                path.unlink()


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and make sure that it reaches the disk."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    replace_file(path, text.encode())


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every row; a broken line is an error that names its number."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _row(line, f"{path} line {number}")


def _row(line: bytes, where: str) -> dict[str, Any]:
    """Return one line as an object, or raise saying where and why it is none."""
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise RecordError(f"{where} is not valid UTF-8 ({error.reason}); re-encode it.") from None
    except RecursionError:
        raise RecordError(f"{where} is nested too deeply to be read.") from None
    except ValueError as error:
        reason = str(error).split(": line ")[0]
        raise RecordError(f"{where} is not valid JSON ({reason}).") from None
    if not isinstance(row, dict):
        raise RecordError(f"{where} is no JSON object.")
    return row


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number there")


def recover(path: Path, group: int = 1) -> int:
    """Cut off what a kill left unfinished, and return how many groups of rows remain.

    Unfinished are a half-written last line and, where rows come in groups, a group that is not
    whole.
    """
    if not path.exists():
        return 0
    lines = path.read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n")]
    groups = len(whole) // group
    keep(path, groups * group)
    return groups


def keep(path: Path, num_rows: int) -> None:
    """Cut off what follows the first rows."""
    with path.open("r+b") as file:
        for _ in range(num_rows):
            file.readline()
        file.truncate(file.tell())
