"""What other programs wrote: text and JSON from files, read alike wherever they come from.

Text is UTF-8. A byte-order mark, which some editors put before it, is passed over; UTF-16 is
refused by name. What cannot be read is one sentence with the file, the place and the remedy. No
torch here.
"""

import codecs
import json
from pathlib import Path
from typing import Any

from remask.errors import RecordError, RemaskError

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, error: type[RemaskError] = RecordError) -> str:
    """Return the text of a file."""
    return decode(path.read_bytes(), str(path), error)


def read_object(path: Path, remedy: str, error: type[RemaskError] = RecordError) -> dict[str, Any]:
    """Return the JSON object in a file; `remedy` says what to do about one that is damaged."""
    return parse_object(without_mark(path.read_bytes(), str(path), error), str(path), remedy, error)


def decode(content: bytes, where: str, error: type[RemaskError] = RecordError) -> str:
    """Return bytes as text; `where` names them in the error."""
    try:
        return without_mark(content, where, error).decode("utf-8")
    except UnicodeDecodeError as reason:
        raise error(f"{where} is not valid UTF-8 ({reason.reason}); re-encode it.") from None


def without_mark(content: bytes, where: str, error: type[RemaskError] = RecordError) -> bytes:
    """Return bytes without the mark that some editors put before UTF-8."""
    if content.startswith(_UTF_16):
        raise error(f"{where} is UTF-16, not UTF-8; re-encode it.")
    return content.removeprefix(codecs.BOM_UTF8)


def parse_object(
    content: bytes, where: str, remedy: str = "", error: type[RemaskError] = RecordError
) -> dict[str, Any]:
    """Return a JSON object, or raise saying where and why it is none. NaN is no number in JSON."""

    def broken(what: str) -> RemaskError:
        return error(
            f"{where} is damaged: it is {what}; {remedy}." if remedy else f"{where} is {what}."
        )

    try:
        value = json.loads(decode(content, where, error), parse_constant=_refuse)
    except RecursionError:
        raise broken("nested too deeply to be read") from None
    except ValueError as reason:
        empty = not content.strip()
        raise broken("empty" if empty else f"not valid JSON ({_first(reason)})") from None
    if not isinstance(value, dict):
        raise broken("no JSON object")
    return value


def _first(reason: ValueError) -> str:
    """Return why a text is no JSON; Python adds a line and a column of its own."""
    return str(reason).split(": line ")[0]


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number there")
