"""The records of the study, read: answers to every test problem, pools, validation and curves.

Sample 0 of a pool is the answer that stands among those to every problem: the pool drew it again,
in other batches, and how often that changed a text is counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from remask.analysis.load_records import RecordFile
from remask.analysis.pool import Pool, pools
from remask.errors import RecordError
from remask.records.record import NoKey, Record
from remask.records.text_file import read_object
from studies.language.jobs import curve_settings, pool_name
from studies.language.problems import BENCHMARKS
from studies.language.text.corpus import bare
from studies.language.workers import record_path

NEAR_FILE = "near.json"


@dataclass(frozen=True, kw_only=True)
class BenchmarkAnswers:
    """All that was collected of one benchmark."""

    name: str
    greedy: RecordFile
    pool: RecordFile | None  # its sample 0 is that of `greedy`; None: not collected
    validation: RecordFile | None  # under the name of the task that it is for
    changed: tuple[bool, ...] = ()  # of each pool: was its first text another one
    near: frozenset[str] | None = None  # questions that a row nearly is; None: not looked for

    @property
    def answers(self) -> list[Pool]:
        """One answer to each problem."""
        return pools(self.greedy.rows)

    @property
    def distinct(self) -> list[Pool]:
        """One answer to each problem that no row nearly is; none where that is not known."""
        if self.near is None:
            return []
        return [pool for pool in self.answers if bare(pool[0].prompt) not in self.near]

    @property
    def pooled(self) -> list[Pool]:
        """Ten answers to some."""
        return [] if self.pool is None else pools(self.pool.rows)

    @property
    def validated(self) -> list[Pool]:
        """One answer to each problem of validation."""
        return [] if self.validation is None else pools(self.validation.rows)


def read_answers(out: Path) -> list[BenchmarkAnswers]:
    """Return the benchmarks that were collected, or raise where none was."""
    near = read_near(out)
    found = [_read(out, name, near) for name in BENCHMARKS if record_path(out, name).exists()]
    if not found:
        raise RecordError(
            f"{out} holds no answers to {', '.join(BENCHMARKS)}; collect some: studies.language "
            "collect MODEL DATA OUT --part greedy."
        )
    return found


def read_curves(out: Path) -> list[RecordFile]:
    """Return the points of the curves."""
    paths = [record_path(out, name) for name in curve_settings()]
    return [RecordFile.read(path) for path in paths if path.exists()]


def _read(out: Path, name: str, near: dict[str, list[str]] | None) -> BenchmarkAnswers:
    greedy = RecordFile.read(record_path(out, name))
    pool, validation = _file(out, pool_name(name)), _file(out, f"validation-{name}")
    first = {row.id: row for row in greedy.rows}
    changed: tuple[bool, ...] = ()
    if pool is not None:
        again = [row for row in pool.rows if row.number == 0 and row.id in first]
        changed = tuple(row.text != first[row.id].text for row in again)
        pool = replace(pool, path=greedy.path, rows=_with_first(pool.rows, first))
    if validation is not None:
        rows = [replace(row, task=name) for row in validation.rows]
        validation = replace(validation, rows=rows)
    return BenchmarkAnswers(
        name=name, greedy=greedy, pool=pool, validation=validation, changed=changed,
        near=None if near is None else frozenset(near[name]),
    )  # fmt: skip


def read_near(out: Path) -> dict[str, list[str]] | None:
    """Return which test questions a row nearly is, by benchmark; None where nobody looked."""
    path = out / NEAR_FILE
    if not path.exists():
        return None
    found = read_object(path, "write it again: studies.language.text near").get("questions")
    if not isinstance(found, dict) or not set(BENCHMARKS) <= found.keys():
        raise RecordError(f"{path} lacks questions of a benchmark; write it again.")
    return found


def _with_first(rows: Sequence[Record], first: dict[str, Record]) -> list[Record]:
    """Return pools whose sample 0 is the answer that was scored.

    Only pools say what votes compare an answer by: its key is that of a sample which says the same.
    Where none does, since other batches changed it, its spelling has to do.
    """
    known = [row for row in rows if row.id in first]
    keys = {(row.id, row.answer): row.key for row in known}
    return [_keyed(first[row.id], keys) if row.number == 0 else row for row in known]


def _keyed(row: Record, keys: dict[tuple[str, str | None], str | NoKey | None]) -> Record:
    return replace(row, key=keys.get((row.id, row.answer), row.key))


def _file(out: Path, name: str) -> RecordFile | None:
    path = record_path(out, name)
    return RecordFile.read(path) if path.exists() else None
