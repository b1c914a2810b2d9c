"""What a command may overwrite: never one of its inputs, and nothing else without --force.

A command claims its outputs before it does any work. Whether two names lead to one file is decided
by the disk, so links, relative paths and letters of another case change nothing. A command that
continues its own run (score, collect, align, train) checks first that what is there belongs to it.
No torch here.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from remask.errors import InputError, RecordError
from remask.records.jsonl import unfinished
from remask.records.lock import locked
from remask.records.manifest import manifest_path


@contextmanager
def hold(out: Path, inputs: Iterable[Path | None] = (), *, force: bool = False) -> Iterator[None]:
    """Claim and lock a file that this command alone writes, from before its work to its end."""
    inputs = list(inputs)
    claim(out, inputs, force=True)  # no lock beside what cannot be an output
    with locked(out):
        claim(out, inputs, force=force)
        yield


@contextmanager
def hold_in_folder(
    out: Path, patterns: Iterable[str], inputs: Iterable[Path], *, force: bool = False
) -> Iterator[None]:
    """Claim and lock a folder in which this command writes files of these names."""
    refuse_inputs(out, inputs)
    _check_folder(out)
    with locked(out):
        claim_in_folder(out, patterns, force=force)
        yield


def claim(out: Path, inputs: Iterable[Path | None] = (), *, force: bool = False) -> None:
    """Raise unless a file may be written: it is no input, and it is new or `force` is set."""
    refuse_inputs(out, inputs)
    if out.is_dir():
        raise InputError(f"{out} is a folder; name a file.")
    if out.exists() and not out.is_file():
        raise InputError(f"{out} is not a regular file; name another.")
    if os.path.lexists(out) and not force:
        raise RecordError(
            f"{out} exists already; choose another file, or add --force to replace it."
        )


def claim_in_folder(out: Path, patterns: Iterable[str], *, force: bool = False) -> None:
    """Raise where a folder holds files of these names already, unless `force` is set."""
    _check_folder(out)
    there = sorted(path for pattern in patterns for path in out.glob(pattern))
    if there and not force:
        raise RecordError(
            f"{there[0]} exists already; choose another folder, or add --force to replace it."
        )


def claim_folder(
    out: Path,
    inputs: Iterable[Path | None] = (),
    *,
    is_ours: bool,
    force: bool | None = None,
) -> None:
    """Raise unless a run may have a folder: it is new, empty, or the run's own already.

    Args:
        out: the folder.
        inputs: what the run reads; neither the folder nor anything right in it may be of these.
        is_ours: what is there was written by this run.
        force: whatever is there may be replaced; None where a command has no such flag.
    """
    inputs = list(inputs)
    _check_folder(out)
    refuse_inputs(out, inputs)
    for path in out.iterdir() if out.is_dir() else ():
        refuse_inputs(path, inputs)  # the folders that a run replaces
        if not (is_ours or force):
            more = "" if force is None else ", or add --force to write there all the same"
            raise RecordError(
                f"{out} holds {path.name}, which is not of this run; choose another folder{more}."
            )


def of_records(places: Iterable[Path]) -> list[Path]:
    """Return the files that are read where records are: themselves, and the manifests beside."""
    files: list[Path] = []
    for place in places:
        files += sorted(place.rglob("*.jsonl")) if place.is_dir() else [place]
    return [path for file in files for path in (file, manifest_path(file))]


def _check_folder(out: Path) -> None:
    _check_parents(out)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; name a folder.")


def refuse_inputs(out: Path, inputs: Iterable[Path | None]) -> None:
    """Raise where a file, or its half-written form, is something that the command reads."""
    _check_parents(out)
    for source in filter(None, inputs):
        for path in (out, unfinished(out)):
            if path.exists() and source.exists() and path.samefile(source):
                raise InputError(
                    f"{path} is read by this command ({source}) and would be overwritten; choose "
                    "another output."
                )


def _check_parents(out: Path) -> None:
    """Raise where a folder on the way is a file, or may not be written to."""
    above = next((path for path in out.absolute().parents if os.path.lexists(path)), None)
    if above is None:
        return
    if not above.is_dir():
        raise InputError(f"cannot write {out}: {above} is not a folder; choose another output.")
    if not os.access(above, os.W_OK):
        raise InputError(f"cannot write {out}: {above} is not yours to write to; choose another.")
