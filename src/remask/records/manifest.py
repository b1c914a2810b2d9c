"""The manifest beside a file of records, read. What it holds is told, and written, by `manifest`.

No torch here: records are analysed where there is none.
"""

from pathlib import Path
from typing import Any

from remask.errors import RecordError
from remask.records import text_file

REMEDY = "collect the records again"
COUNTED = ("from", "problems", "chunk")  # of a run: what it is continued by
Document = dict[str, Any]


def path_of(out: Path) -> Path:
    """Return the manifest of a file of records."""
    return Path(f"{out}.manifest.json")


def read(out: Path) -> Document:
    """Return the manifest of a file of records, or raise where there is none."""
    path = path_of(out)
    if not path.exists():
        raise RecordError(f"{out} has no manifest {path.name} beside it; bring both files.")
    found = text_file.read_object(path, REMEDY)
    wrong = _wrong_with(found)
    if wrong:
        raise RecordError(f"{path} is damaged: {wrong}; {REMEDY}.")
    return found


def _wrong_with(found: Document) -> str | None:
    """Return the first part of a manifest that cannot be what `collect` wrote."""
    if not isinstance(found.get("asked"), dict):
        return "it has no asked, the settings by name"
    for name, kind in (("dataset", dict), ("model", dict), ("runs", list)):
        if not isinstance(found.get(name, kind()), kind | None):
            return f"{name} is {found[name]!r:.80}"
    for run in found.get("runs") or ():
        counts = [run.get(name, 0) for name in COUNTED] if isinstance(run, dict) else [None]
        if not all(isinstance(count, int) for count in counts):
            return f"runs has an entry without whole numbers {', '.join(COUNTED)}"
    return None
