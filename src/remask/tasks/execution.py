"""Running candidate code against tests, one child process per candidate.

The child gets its own session, limits on time, memory, files and processes, no environment, an
empty folder and no input. It has passed only when a secret word, drawn for this run and handed over
through the standard input, comes back as the last line after all tests: leaving early, however
politely, is no pass.

Time is the processor's: a busy machine makes no right program wrong. The clock on the wall stops
only what waits, after `PATIENCE` times as long.

This is no security boundary. It stops the accidents of generated code (endless loops, memory
bombs, floods of output, early exits); code that means harm needs a container around the caller.
"""

import marshal
import math
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

OUTPUT_LIMIT = 65_536  # bytes on the standard output
PATIENCE = 10  # times its processor time that a candidate may take by the clock

# The limits are set by the child itself, before it looks at the candidate: a function run between
# fork and exec would not be safe under the threads of `run_many`. The job travels as marshal, which
# is built in and read under this same interpreter: importing json would double the child's time.
# Root is not bound by NPROC: there a fork goes through, and dies with the group.
_HARNESS = """
import marshal, resource, sys
def main():
    word, seconds, memory, source, tests, calls = marshal.loads(sys.stdin.buffer.read())
    sys.stdin.close()
    for name, value in (("AS", memory), ("FSIZE", 1 << 20), ("NPROC", 0), ("CORE", 0)):
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    del sys.modules["marshal"], sys.modules["resource"]
    verdict = watch(source, calls) if calls else run(source, tests)
    sys.stdout = sys.__stdout__
    print("\\n" + word, verdict, flush=True)
def run(source, tests):
    space, number = {"__name__": "candidate"}, 0
    try:
        exec(compile(source, "candidate", "exec"), space)
        for number, test in enumerate(tests, 1):
            exec(compile(test, "test", "exec"), space)
    except MemoryError:
        return "memory"
    except AssertionError:
        return "wrong answer in test %d" % number if number else "crashed: AssertionError"
    except BaseException as error:
        return "crashed: " + type(error).__name__
    return "passed"
def watch(source, calls):
    import hashlib
    space, outputs, crash = {"__name__": "candidate"}, [], None
    try:
        exec(compile(source, "candidate", "exec"), space)
    except BaseException as error:
        return "crashed: " + type(error).__name__
    for call in calls:
        try:
            outputs.append(show(eval(compile(call, "call", "eval"), space)))
        except BaseException as error:
            crash = "crashed: " + type(error).__name__
            outputs.append(crash)
    if crash and all(output.startswith("crashed: ") for output in outputs):
        return crash
    return "outputs " + hashlib.sha256("\\0".join(outputs).encode("utf-8", "replace")).hexdigest()
def show(value, depth=0):
    if depth > 20:
        return "..."
    if isinstance(value, (list, tuple)):
        inner = [show(item, depth + 1) for item in value]
    elif isinstance(value, (set, frozenset)):
        inner = sorted(show(item, depth + 1) for item in value)
    elif isinstance(value, dict):
        inner = sorted(show(pair, depth + 1) for pair in value.items())
    elif isinstance(value, float):
        whole = value == value and abs(value) < 1e15 and value == int(value)
        return repr(int(value)) if whole else "%.12g" % value
    elif value is None or isinstance(value, (bool, int, str, bytes, complex)):
        return repr(value)
    else:
        return type(value).__name__
    kind = "set" if isinstance(value, frozenset) else type(value).__name__
    return kind + "(" + ", ".join(inner) + ")"
main()
"""
_COMMAND = (sys.executable, "-I", "-S", "-B", "-c", _HARNESS)


@dataclass(frozen=True, kw_only=True)
class ProgramRun:
    """One candidate and the statements that test it, run in its namespace."""

    source: str
    tests: tuple[str, ...] = ()  # such as "assert f(2) == 4"; an AssertionError is a wrong answer
    calls: tuple[str, ...] = ()  # such as "f(2)": what is to be watched in place of tests
    seconds: float = 2.0  # of processor time, rounded up
    memory_mb: int = 512


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one candidate."""

    passed: bool
    reason: (
        str  # "passed", "wrong answer in test 3", "timeout", "memory", "crashed: NameError", ...
    )


def run_tests(
    source: str, tests: Sequence[str], *, seconds: float = 2.0, memory_mb: int = 512
) -> Outcome:
    """Return whether `source` survives every statement of `tests` within the limits."""
    return _run(ProgramRun(source=source, tests=tuple(tests), seconds=seconds, memory_mb=memory_mb))


def watch_calls(
    source: str, calls: Sequence[str], *, seconds: float = 2.0, memory_mb: int = 512
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


def _run(job: ProgramRun) -> Outcome:
    word = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="remask-", ignore_cleanup_errors=True) as folder:
        child = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd=folder,
            start_new_session=True,
        )
        try:
            _hand_over(child, job, word)
            output, stopped = _listen(child, time.monotonic() + job.seconds * PATIENCE)
        finally:
            _end(child)
    return _judge(output, stopped, child.returncode, word)


def _hand_over(child: subprocess.Popen[bytes], job: ProgramRun, word: str) -> None:
    """Send the job; surrogates, which UTF-8 cannot carry, become question marks."""
    source = job.source.encode("utf-8", "replace").decode()
    limits = (math.ceil(job.seconds), job.memory_mb << 20)
    assert child.stdin is not None
    with suppress(BrokenPipeError), child.stdin:
        child.stdin.write(marshal.dumps((word, *limits, source, job.tests, job.calls)))


def _listen(child: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, str]:
    """Return the child's output, and why we stopped listening ("" where it ended by itself)."""
    assert child.stdout is not None
    output = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
            return bytes(output), "timeout"
        chunk = os.read(child.stdout.fileno(), OUTPUT_LIMIT)
        if not chunk:
            return bytes(output), _wait(child, deadline)
        output += chunk
        if len(output) > OUTPUT_LIMIT:
            return bytes(output), "output limit"


def _wait(child: subprocess.Popen[bytes], deadline: float) -> str:
    """Wait for a child that closed its output, which a looping candidate can do as well."""
    try:
        child.wait(max(deadline - time.monotonic(), 0.01))
    except subprocess.TimeoutExpired:
        return "timeout"
    return ""


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of the child's group, and reap the child."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _judge(output: bytes, stopped: str, status: int, word: str) -> Outcome:
    if stopped:
        return Outcome(passed=False, reason=stopped)
    last = output.decode(errors="replace").rstrip("\n").rpartition("\n")[2]
    said, _, verdict = last.partition(" ")
    if said == word:
        return Outcome(passed=verdict == "passed", reason=verdict)
    if status == -signal.SIGXCPU:
        return Outcome(passed=False, reason="timeout")
    if status < 0:
        return Outcome(passed=False, reason=f"crashed: signal {-status}")
    return Outcome(passed=False, reason="left before the tests ended")
