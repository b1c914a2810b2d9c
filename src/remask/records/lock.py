"""Locks on outputs, so that two processes never write the same file or folder.

The lock of `OUT` is an advisory lock on `OUT.lock`, which names the process that holds it. The
operating system releases it when the process ends, even after `kill -9`.
"""

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import IO

from remask.errors import RecordError, WriteError

_TRIES = 1_000
_held: ContextVar[Mapping[Path, IO[str]]] = ContextVar("held", default=MappingProxyType({}))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock an output, file or folder, or raise RecordError naming the process that holds it.

    Take the lock before you read, repair or remove anything of the output. A caller that holds it
    can take it again.
    """
    lock = _lock_of(path)
    if lock in _held.get():
        yield
        return
    made = [folder for folder in lock.parents if not folder.exists()]
    file = _acquire(lock, path)
    held = _held.set({**_held.get(), lock: file})
    try:
        file.write(f"process {os.getpid()} ({_command()})")
        file.flush()
        yield
    finally:
        _held.reset(held)
        with suppress(OSError):
            if _is_same(lock, file):
                lock.unlink()  # still locked: a process that waits for this file sees it is gone
            for folder in made:
                folder.rmdir()  # fails, as it should, if the output is there
        file.close()


def check_held(path: Path) -> None:
    """Raise RecordError if the lock file that this thread holds was removed: the lock is void."""
    lock = _lock_of(path)
    if lock in _held.get() and not _is_same(lock, _held.get()[lock]):
        raise RecordError(f"{lock} must exist until the end of the run, and was removed.")


def _lock_of(path: Path) -> Path:
    name = Path(os.path.realpath(path))  # links to one output share a lock
    return name.with_name(f"{name.name}.lock")


def _is_same(lock: Path, file: IO[str]) -> bool:
    return lock.exists() and os.path.samestat(lock.stat(), os.fstat(file.fileno()))


def _acquire(lock: Path, path: Path) -> IO[str]:
    for _ in range(_TRIES):
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("a+", errors="backslashreplace")
        except FileNotFoundError:
            continue  # the last holder removed the folder between the two calls
        except OSError as error:
            raise WriteError(f"Cannot write {lock}: {error.strerror}.") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read() or "another process"
            file.close()
            raise RecordError(f"{path} is in use by {owner}.") from None
        except OSError as error:  # some network file systems have no locks
            file.close()
            raise WriteError(f"Cannot lock {lock}: {error.strerror}.") from None
        with suppress(FileNotFoundError):
            if _is_same(lock, file):
                file.truncate(0)
                return file
        file.close()  # its holder removed the file between the two calls above
    raise WriteError(f"Cannot write {lock}: no file can be made there.")


def _command() -> str:
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:120]
