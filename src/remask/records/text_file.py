"""Text and JSON from files of other programs. No torch here.

Text is UTF-8, and a byte-order mark is skipped. UTF-16 and compressed files are refused by name.
Only regular files are opened: a pipe could block, and a device may have no end.
"""

import codecs
import json
import stat
from pathlib import Path
from typing import IO, Any

from remask.errors import RecordError, RemaskError

_FOREIGN = {  # by the first bytes of a file: its format, and the remedy
    codecs.BOM_UTF16_LE: ("UTF-16, not UTF-8", "re-encode it"),
    codecs.BOM_UTF16_BE: ("UTF-16, not UTF-8", "re-encode it"),
    b"\x1f\x8b": ("compressed with gzip", "decompress it with gunzip"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "decompress it with unzstd"),
    b"BZh": ("compressed with bzip2", "decompress it with bunzip2"),
    b"\xfd7zXZ": ("compressed with xz", "decompress it with unxz"),
    b"PK\3\4": ("a zip archive", "unpack it with unzip"),
    b"PAR1": ("Parquet", "name it .parquet"),
}
_HEAD = 4_096  # bytes of a file that show whether it is text
_SPECIAL = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFSOCK: "a socket"}


def open_file(path: Path, error: type[RemaskError] = RecordError) -> IO[bytes]:
    """Open a regular file for reading."""
    try:
        kind = _SPECIAL.get(stat.S_IFMT(path.stat().st_mode))
        if kind:
            raise error(f"{path} must be a regular file, got {kind}.")
        return path.open("rb")
    except OSError as reason:
        raise error(f"cannot use {path}: {reason.strerror}.") from None


def read_bytes(path: Path, error: type[RemaskError] = RecordError) -> bytes:
    """Return the bytes of a file."""
    with open_file(path, error) as file:
        return file.read()


def read_text(path: Path, error: type[RemaskError] = RecordError) -> str:
    """Return the text of a file."""
    return decode(read_bytes(path, error), str(path), error)


def read_object(path: Path, remedy: str, error: type[RemaskError] = RecordError) -> dict[str, Any]:
    """Return the JSON object in a file; `remedy` says what to do about one that is damaged."""
    return parse_object(read_bytes(path, error), str(path), remedy, error)


def decode(content: bytes, where: str, error: type[RemaskError] = RecordError) -> str:
    """Return bytes as text; `where` names them in the error."""
    try:
        return without_mark(content, where, error).decode("utf-8")
    except UnicodeDecodeError as reason:
        raise error(f"{where} is not valid UTF-8 ({reason.reason}); re-encode it.") from None


def without_mark(content: bytes, where: str, error: type[RemaskError] = RecordError) -> bytes:
    """Return bytes without a byte-order mark, or raise if they are no text."""
    for start, (form, remedy) in _FOREIGN.items():
        if content.startswith(start):
            raise error(f"{where} is {form}; {remedy}.")
    if b"\0" in content[:_HEAD]:
        raise error(f"{where} is a binary file or UTF-16; name a file of UTF-8 text.")
    return content.removeprefix(codecs.BOM_UTF8)


def check_first_line(line: bytes, where: str, error: type[RemaskError] = RecordError) -> None:
    """Raise if the first line of a file of JSON lines begins an array or a table."""
    if line.startswith(b"["):
        raise error(f"{where} is a JSON array; write one object per line (jq -c '.[]').")
    if not line.startswith(b"{") and any(mark in line for mark in (b",", b";", b"\t")):
        raise error(f"{where} looks like CSV; write one JSON object per line.")


def parse_object(
    content: bytes, where: str, remedy: str = "", error: type[RemaskError] = RecordError
) -> dict[str, Any]:
    """Return a JSON object, or raise saying where and why it is none. NaN is no number in JSON."""

    def broken(what: str) -> RemaskError:
        return error(
            f"{where} is damaged: it is {what}; {remedy}." if remedy else f"{where} is {what}."
        )

    text = decode(content, where, error)
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise broken("nested too deeply to be read") from None
    except ValueError as reason:
        empty = not content.strip()
        raise broken("empty" if empty else f"not valid JSON ({_first(reason)})") from None
    if not isinstance(value, dict):
        raise broken("not a JSON object")
    return value


def _first(reason: ValueError) -> str:
    """Return why a text is no JSON; Python adds a line and a column of its own."""
    return str(reason).split(": line ")[0]


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not valid in JSON")
