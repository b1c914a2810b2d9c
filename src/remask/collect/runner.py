"""Compute the rows of a long job in chunks, so that an interrupted run can be resumed.

    with open_results(out, manifest) as results:
        for row in results.run(engine, ChunkedWork(cut(results.missing), load, compute), entry):
            show_progress(row)
        results.finish(render)

Rows go to the journal `OUT.part`: one line per row, `{"row": 7, "lines": [...]}`, in the order in
which they are computed. `OUT.manifest.json` commits chunks: it holds the number, size and SHA-256
of the journal's rows. A resumed run discards uncommitted bytes and computes their chunks again, so
it writes the same bytes as an uninterrupted run. A later line for a row replaces an earlier one,
which is how errors are retried. When every row is there, `finish` writes `OUT` in one move, in the
order of the rows and without their numbers, and the manifest gets its SHA-256. The output is locked
before anything is read.

A row is whatever the caller counts: for `collect` a problem, which has one line for each answer or
one line with an error; for `score` a row of the input.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from remask.collect.chunks import Chunk
from remask.collect.engine import ChunkedWork, Engine, Lines
from remask.errors import RecordError
from remask.records import jsonl
from remask.records.jsonl import Row
from remask.records.lock import check_held, locked
from remask.records.manifest import (
    VERSION,
    FileState,
    Manifest,
    RunEntry,
    check_resumable,
    is_edited,
    manifest_path,
    part_path,
    read_manifest,
)

Group = Callable[[Iterator[Row]], Iterator[list[Row]]]  # lines of a finished file -> of each row


_REMEDY = "Move it, or pass --force to overwrite it."


@contextmanager
def open_results(
    out: Path, manifest: Manifest, *, force: bool = False, group: Group | None = None
) -> Iterator["Results"]:
    """Lock an output, check that this run can continue it, and yield it.

    Args:
        out: the file; it does not exist before it is finished.
        manifest: of this run; `manifest.problems` are the rows to compute.
        force: start over if the run cannot continue the stored one.
        group: separates the lines of a finished file into those of each row; None: one per row.
    """
    with locked(out):
        results = Results(out, manifest, group, force)
        try:
            results.resume()
        except RecordError:
            if not force:
                raise
            manifest_path(out).unlink(missing_ok=True)  # first: it commits the journal
            part_path(out).unlink(missing_ok=True)
            results = Results(out, manifest, group, force)
        yield results


def check(out: Path, manifest: Manifest) -> None:
    """Raise RecordError if a run with this manifest cannot continue what is there."""
    if any(path.exists() for path in (out, part_path(out), manifest_path(out))):
        with locked(out):
            Results(out, manifest).resume(dry=True)


class Results:
    """A locked output; `open_results` creates it."""

    def __init__(
        self, out: Path, manifest: Manifest, group: Group | None = None, force: bool = False
    ) -> None:
        self.out, self.part, self.manifest, self.force = out, part_path(out), manifest, force
        self.group: Group = group or (lambda lines: ([line] for line in lines))
        self.rows = manifest.problems
        self._places: dict[int, int] = {}  # row -> where its line begins in the journal
        self._digest = hashlib.sha256()  # of the committed bytes
        self._size = 0

    @property
    def is_finished(self) -> bool:
        """Whether the output is there, with all rows."""
        return self.manifest.file is not None and self.manifest.journal is None

    @property
    def missing(self) -> list[int]:
        """The rows without a result."""
        return [] if self.is_finished else [row for row in self.rows if row not in self._places]

    def resume(self, *, dry: bool = False) -> None:
        """Continue the stored run, or raise RecordError; `dry` changes nothing."""
        out, part = self.out, self.part
        if not out.exists() and not part.exists():
            return  # a manifest alone has no rows that could be mixed
        if not manifest_path(out).exists():
            if part.exists() and part.read_bytes()[:10] == b'{"asked": ':
                raise _unfinished_older(out)
            raise RecordError(f"{part if part.exists() else out} has no manifest. {_REMEDY}")
        stored = read_manifest(out)
        check_resumable(out, stored, self.manifest)
        if not stored.is_finished and stored.version < VERSION:
            raise _unfinished_older(out)
        self.manifest = replace(
            stored, settings=self.manifest.settings, thresholds=self.manifest.thresholds,
            model=stored.model or self.manifest.model, version=VERSION,
        )  # fmt: skip
        if stored.journal is not None:
            self._read_journal(stored.journal, dry)
        elif is_edited(out, stored):
            raise RecordError(f"{out} was edited after remask wrote it. {_REMEDY}")
        elif not dry:
            self._adopt(stored)

    def _read_journal(self, committed: FileState, dry: bool) -> None:
        content = self.part.read_bytes() if self.part.exists() else b""
        if hashlib.sha256(content[: committed.bytes]).hexdigest() != committed.sha256:
            raise RecordError(f"{self.part} was edited after remask wrote it. {_REMEDY}")
        if dry:
            return
        if len(content) > committed.bytes:  # a killed run wrote them and did not commit them
            os.truncate(self.part, committed.bytes)
        self._add(content[: committed.bytes])
        while self.rows.stop in self._places:  # an earlier run was to compute more rows
            self._set_rows(range(self.rows.start, self.rows.stop + 1))

    def _adopt(self, stored: Manifest) -> None:
        """Continue with a finished file; its rows go to a journal if there are more to compute."""
        if stored.file is None:  # older versions did not store what they wrote
            found = sum(1 for _ in self.group(jsonl.read(self.out)))
            if found != len(stored.problems):
                raise RecordError(
                    f"{self.out} must hold {len(stored.problems)} rows, got {found}. {_REMEDY}"
                )
        self.part.unlink(missing_ok=True)  # a kill at the end of `finish` left it
        state = stored.file or FileState.of(self.out, len(stored.problems))
        self.manifest = replace(self.manifest, file=state)
        if self.rows.stop > stored.problems.stop:
            self.reopen()
        else:
            self._set_rows(stored.problems)

    def _set_rows(self, rows: range) -> None:
        self.rows = rows
        if self.manifest.shard is None:
            settings = {**self.manifest.settings, "problems": rows.stop}
            self.manifest = replace(self.manifest, settings=settings)

    def reopen(self) -> None:
        """Write the rows of the finished file to a journal, so that rows can be added to it."""
        if self.is_finished:
            content = jsonl.encode({"row": row, "lines": lines} for row, lines in self.lines())
            jsonl.replace_file(self.part, content)
            self._add(content)
            self._commit()

    def lines(self) -> Iterator[tuple[int, list[Row]]]:
        """Yield the rows that are there with their lines, in order."""
        if self.is_finished:
            yield from enumerate(self.group(jsonl.read(self.out)), self.rows.start)
        elif self._places:
            with self.part.open("rb") as file:
                for row in self.rows:
                    if row in self._places:
                        file.seek(self._places[row])
                        yield row, json.loads(file.readline())["lines"]

    def run(
        self, engine: Engine, work: ChunkedWork[Any], entry: RunEntry
    ) -> Iterator[tuple[Chunk, Lines]]:
        """Compute chunks, and yield each one with its lines once it is committed.

        `entry` describes the run in the manifest.
        """
        began = time.monotonic()
        self.manifest = replace(self.manifest, runs=[*self.manifest.runs, entry])
        self._commit()
        for chunk, lines in engine.results(work):
            check_held(self.out)
            rows = zip(range(*chunk), lines, strict=True)
            self._add(jsonl.append(self.part, ({"row": row, "lines": some} for row, some in rows)))
            entry.stop = (self.missing or [self.rows.stop])[0]
            entry.forwards += sum(map(forwards_of, chain(*lines)))
            entry.errors += sum(error_of(line) is not None for line in chain(*lines))
            entry.seconds = round(time.monotonic() - began, 3)
            self._commit()
            yield chunk, lines

    def finish(self, write: Callable[[Path, list[Row]], None] | None = None) -> None:
        """Write the output in one move; `write` writes lines to a path (None: as JSON lines)."""
        if self.is_finished:
            return
        check_held(self.out)
        journal = self.manifest.journal
        if journal is not None and not journal.matches(self.part):
            raise RecordError(f"{self.part} was edited during the run. {_REMEDY}")
        lines = [line for _, some in self.lines() for line in some]
        self.out.parent.mkdir(parents=True, exist_ok=True)
        with jsonl.whole(self.out) as ready:
            if write is None:
                ready.write_bytes(jsonl.encode(lines))
            else:
                write(ready, lines)
            state, earlier = FileState.of(ready, len(self.rows)), self.manifest.file
            # It may be there after a kill between the next two commits, or have fewer rows.
            is_ours = state.matches(self.out) or (earlier and earlier.matches(self.out))
            if self.out.exists() and not is_ours and not self.force:
                raise RecordError(f"{self.out} was not written by this run. {_REMEDY}")
        if self.manifest.runs:
            self.manifest.runs[-1].finished = now()
        self.manifest = replace(self.manifest, journal=None, file=state)
        self.manifest.write(self.out)
        self.part.unlink(missing_ok=True)

    def _add(self, content: bytes) -> None:
        for line in content.splitlines(keepends=True):
            self._places[json.loads(line)["row"]] = self._size
            self._size += len(line)
        self._digest.update(content)

    def _commit(self) -> None:
        state = FileState(rows=len(self._places), bytes=self._size, sha256=self._digest.hexdigest())
        self.manifest = replace(self.manifest, journal=state)
        self.manifest.write(self.out)


def forwards_of(line: Mapping[str, Any]) -> int:
    """Return the forward passes that a line cost: generation, scores, baselines and probes."""
    baselines = sum(cost["forwards"] for cost in line.get("baselines", {}).values())
    features = line.get("features", {})
    probes = sum(value for name, value in features.items() if name.endswith(".forwards"))
    own = sum(line.get(name, 0) for name in ("forwards", "verify_forwards", "remask_forwards"))
    return int(own + baselines + probes)


def error_of(line: Mapping[str, Any]) -> str | None:
    """Return why a line has no answer or no score; None if it has one."""
    return line.get("error") or line.get("remask_error")


def now() -> str:
    """Return the time in UTC, as manifests state it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _unfinished_older(out: Path) -> RecordError:
    return RecordError(
        f"{out} is an unfinished run of remask 0.2.0. Finish it with that version, or pass --force "
        "to start over."
    )
