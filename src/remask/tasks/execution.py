"""Running generated programs against tests, with limits on what they can use and reach.

`supervisor` runs as a process of its own for each program and says what a program cannot do. It is
no security boundary: a program has the rights of the user it runs as, and reads what that user may
read. Programs that mean harm require a container around the caller.

The time limit counts processor time, so a busy machine does not fail a right program. A program
that waits is stopped after `PATIENCE` times its limit.
"""

import importlib.util
import marshal
import math
import os
import secrets
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from remask.tasks import supervisor

_COMPILED = importlib.util.cache_from_source(supervisor.__file__)  # written by the import above
_SUPERVISOR = _COMPILED if os.path.exists(_COMPILED) else supervisor.__file__
SECONDS = 15.0  # of processor time for a benchmark's program; the slowest of its solutions takes 6
PATIENCE = 10  # limit on the clock, in multiples of the limit on processor time
END_SECONDS = 10.0  # after the limit on the clock, until the supervisor is killed
MEMORY_MB = 512
FILE_MB = 1  # size of one file that a program writes
OPEN_FILES = 64
_PROBE = """
import os, socket
def user(): return os.getuid()
def writable(): return os.access("/tmp", os.W_OK)
def processes(): return [name for name in os.listdir("/proc") if name.isdigit()]
def connect(): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("127.0.0.1", 9))
"""


@dataclass(frozen=True, kw_only=True)
class ProgramRun:
    """One program and the statements that test it."""

    source: str
    tests: tuple[str, ...] = ()  # such as "assert f(2) == 4"; an AssertionError is a wrong answer
    calls: tuple[str, ...] = ()  # such as "f(2)": what to observe instead of running tests
    seconds: float = 2.0  # of processor time, rounded up
    memory_mb: int = MEMORY_MB


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one program."""

    passed: bool
    reason: str  # such as "passed", "wrong answer in test 3", "timeout" or "crashed: NameError"


def run_tests(
    source: str, tests: Sequence[str], *, seconds: float = 2.0, memory_mb: int = MEMORY_MB
) -> Outcome:
    """Return whether `source` survives every statement of `tests` within the limits."""
    return _run(ProgramRun(source=source, tests=tuple(tests), seconds=seconds, memory_mb=memory_mb))


def watch_calls(
    source: str, calls: Sequence[str], *, seconds: float = 2.0, memory_mb: int = MEMORY_MB
) -> str | None:
    """Return a digest of what the calls return; None where no call returns anything in time.

    Numbers count by value, sets and dictionaries in any order, objects of other types by the type
    alone: their addresses would be others in every run.
    """
    outcome = _run(
        ProgramRun(source=source, calls=tuple(calls), seconds=seconds, memory_mb=memory_mb)
    )
    kind, _, digest = outcome.reason.partition(" ")
    return digest[:32] if kind == "outputs" else None


def run_many(jobs: Sequence[ProgramRun], *, workers: int | None = None) -> list[Outcome]:
    """Return one outcome per job, in order; `workers` children run at once (None: one per core)."""
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        return list(pool.map(_run, jobs))


def isolation() -> list[str]:
    """Return which protections are in force on this machine."""
    tests = {
        "another user": f"assert user() != {os.getuid()}",
        "no view of other processes": "assert processes() == ['1']",
        "other files are read-only": "assert not writable()",
        "no network": "try: connect()\nexcept OSError: pass\nelse: assert False",
    }
    jobs = [ProgramRun(source=_PROBE, tests=(test,)) for test in tests.values()]
    outcomes = run_many(jobs)
    return [name for name, outcome in zip(tests, outcomes, strict=True) if outcome.passed]


def _run(job: ProgramRun) -> Outcome:
    limits = {
        "CPU": math.ceil(job.seconds),
        "AS": job.memory_mb << 20,
        "FSIZE": FILE_MB << 20,
        "NPROC": 0,
        "CORE": 0,
        "NOFILE": OPEN_FILES,
    }
    token = secrets.token_hex()  # without namespaces a program can write to our end of the pipe
    source = job.source.encode("utf-8", "replace").decode()  # surrogates become question marks
    with (
        tempfile.TemporaryDirectory(prefix="remask-", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", _SUPERVISOR]
            + [f"{name}={value}" for name, value in limits.items()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd=folder,
            start_new_session=True,
        ) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(BrokenPipeError):
            child.stdin.write(marshal.dumps((source, job.tests, job.calls, token)))
            child.stdin.flush()
        in_time = select.select([child.stdout], [], [], job.seconds * PATIENCE)[0]
        with suppress(BrokenPipeError):
            child.stdin.close()  # the supervisor ends itself and all that it started
        if not select.select([child.stdout], [], [], END_SECONDS)[0]:
            child.kill()  # the program stopped it; the others end with it
        _, is_verdict, reason = child.stdout.read().decode(errors="replace").rpartition(token)
    if not in_time:
        return Outcome(passed=False, reason="timeout")
    if not reason or (reason == "passed" and not is_verdict):
        return Outcome(passed=False, reason="left before the tests ended")
    return Outcome(passed=reason == "passed", reason=reason)
