"""Results as JSON lines: appended as they come, readable after kill -9. No torch here."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from remask.errors import RecordError


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows and make sure they reach the disk. NaN is refused, as JSON has none."""
    text = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every row; a broken line is an error that names its number."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise RecordError(
                    f"{path} line {number} is not valid JSON ({error.msg})."
                ) from None
            if not isinstance(row, dict):
                raise RecordError(f"{path} line {number} is no JSON object.")
            yield row


def recover(path: Path) -> int:
    """Cut off a half-written last line, as a kill leaves it, and return how many rows remain."""
    if not path.exists():
        return 0
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
    return data[:whole].count(b"\n")
