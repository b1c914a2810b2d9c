"""The records of a file, each field of the type that `collect` writes.

Which fields a study needs is the study's to say; here nothing of another type gets through: a text
for a number, or yes for true, would otherwise be a wrong number in a table. No torch here.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from remask.errors import RecordError
from remask.fields import Unfit, fit
from remask.records import jsonl

Number = float | None
_TYPES: dict[str, Any] = {
    "id": str,
    "task": str,
    "level": str,
    "number": int,
    "text": str,
    "answer": str | None,
    "right": bool,
    "process_ok": bool | None,
    "forwards": int,
    "verify_forwards": int,
    "scores": Mapping[str, Number],
    "metrics": Mapping[str, Number],
    "by_trip": Mapping[str, list[Number]],
    "drift": list[Number],
}


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every record; one with a field of another type is an error that names both.

    A problem that could not be asked has an error, and no answer to look at.
    """
    for number, row in enumerate(jsonl.read(path), 1):
        if "error" not in row and "kind" not in row:  # a kind: a flaw that was injected
            _check(row, path, number)
        yield row


def _check(row: Mapping[str, Any], path: Path, number: int) -> None:
    for name in _TYPES.keys() & row.keys():
        try:
            fit(_TYPES[name], row[name])
        except Unfit as wanted:
            raise RecordError(
                f"{path} is damaged: record {number} has {name} {row[name]!r:.80}, not {wanted}; "
                "collect it again."
            ) from None
