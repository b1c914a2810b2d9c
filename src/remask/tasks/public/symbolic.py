"""Symbolic comparison of two LaTeX answers by math-verify in worker processes.

Sympy may not terminate on a short formula, and the time limit of math-verify uses signals, which do
not work in threads. So each comparison runs in a child process with a deadline in processor time,
which does not depend on the load of the machine. A late child is killed, after `PATIENCE` times the
deadline also by the wall clock. Workers are reused, one for each concurrent comparison.
"""

import atexit
import importlib.util
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction

from remask.errors import MissingExtra
from remask.tasks.public.latex import MAX_ANSWER

PATIENCE = 10  # times its processor time that a comparison may take by the clock
START_SECONDS = 60.0  # to import sympy on a busy machine
_LONG_NUMBER = re.compile(r"[0-9]{257}")
_DEEPEST = 64  # braces in braces

# The comparison is not symmetric: the gold answer comes first. Replies use a copy of the standard
# output, because sympy may print to `sys.stdout`.
_WORKER = """
import json, os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
answers = os.fdopen(os.dup(1), "w")
sys.stdout = sys.stderr
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
forms = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
def read(text):
    parsed = parse("\\\\boxed{%s}" % text, forms, "no_fallback", parsing_timeout=None)
    return parsed or parse("$%s$" % text, forms, "no_fallback", parsing_timeout=None)
def compare(gold, answer):
    gold, answer = read(gold), read(answer)
    if not gold or not answer:
        return "unread"
    same = verify(gold, answer, allow_set_relation_comp=True, timeout_seconds=None)
    return "equal" if same else "different"
def worth(text):
    number = read(text)[0].evalf(40)
    return "worth %s" % number if number.is_real and number.is_Float else "unread"
print("ready", file=answers, flush=True)
for line in sys.stdin:
    seconds, patience, gold, answer = json.loads(line)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(int(seconds * patience) + 2)
    try:
        verdict = worth(gold) if answer is None else compare(gold, answer)
    except Exception as error:
        verdict = "failed: " + type(error).__name__
    signal.alarm(0)
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(verdict, file=answers, flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class SymbolicVerdict:
    """What a comparison came to."""

    equal: bool | None  # None: not decided
    reason: str  # why not equal, or not decided; "" for equal


@dataclass(kw_only=True)
class SymbolicChecker:
    """Workers that compare, with a deadline for each comparison."""

    seconds: float = 5.0  # of processor time
    _idle: list["_Worker"] = field(default_factory=list)
    _owner: int = field(default_factory=os.getpid)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def compare(self, gold: str, answer: str) -> SymbolicVerdict:
        """Return whether two answers are equal by algebra, or undecided after the deadline."""
        refused = _refused(gold) or _refused(answer)
        reply = None if refused else self._ask(gold, answer)
        if reply == "equal":
            return SymbolicVerdict(equal=True, reason="")
        if reply == "different":
            return SymbolicVerdict(equal=False, reason="math-verify finds them different")
        if reply == "unread":
            return SymbolicVerdict(equal=False, reason="math-verify cannot read one of them")
        late = f"not decided in {self.seconds:g} s"
        return SymbolicVerdict(
            equal=None, reason=refused or (reply and f"math-verify {reply}") or late
        )

    def worth(self, text: str) -> Fraction | None:
        """Return the value of a formula without variables to 40 digits, or None."""
        reply = "" if _refused(text) else self._ask(text, None) or ""
        return Fraction(reply.removeprefix("worth ")) if reply.startswith("worth ") else None

    def _ask(self, gold: str, answer: str | None) -> str | None:
        """Return the reply of a worker, or None if it is late or dead."""
        worker = self._take()
        reply = worker.ask(gold, answer, self.seconds)
        if reply is None:
            worker.end()
        else:
            with self._lock:
                self._idle.append(worker)
        return reply

    def close(self) -> None:
        """End the workers."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.end()

    def _take(self) -> "_Worker":
        """Return an idle worker; after a fork, the workers belong to the parent process."""
        with self._lock:
            if self._owner != os.getpid():
                self._idle, self._owner = [], os.getpid()
            if self._idle:
                return self._idle.pop()
        return _Worker()


class _Worker:
    def __init__(self) -> None:
        require()
        self.child = subprocess.Popen(
            (sys.executable, "-P", "-c", _WORKER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.said = b""
        if self._listen(START_SECONDS) != "ready":
            self.end()
            raise MissingExtra("math-verify that can be imported", "math")

    def ask(self, gold: str, answer: str | None, seconds: float) -> str | None:
        """Return the reply, or None if the child is late or dead.

        Without an answer, the child computes the value of `gold`.
        """
        assert self.child.stdin is not None
        line = json.dumps((seconds, PATIENCE, gold, answer)) + "\n"
        try:
            self.child.stdin.write(line.encode())
            self.child.stdin.flush()
        except BrokenPipeError:
            return None
        return self._listen(seconds * PATIENCE)

    def _listen(self, seconds: float) -> str | None:
        assert self.child.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self.said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.child.stdout], [], [], left)[0]:
                return None
            chunk = os.read(self.child.stdout.fileno(), 4096)
            if not chunk:
                return None
            self.said += chunk
        line, _, self.said = self.said.partition(b"\n")
        return line.decode()

    def end(self) -> None:
        """Kill the child and reap it."""
        self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def require() -> None:
    """Raise MissingExtra if math-verify is not installed."""
    if importlib.util.find_spec("math_verify") is None:
        raise MissingExtra("math-verify", "math")


def _refused(text: str) -> str:
    """Return why sympy must not read a text, or ""."""
    if len(text) > MAX_ANSWER:
        return f"not decided: longer than {MAX_ANSWER} characters"
    if _LONG_NUMBER.search(text):
        return "not decided: a number of more than 256 digits"
    depth = deepest = 0
    for mark in text:
        depth += (mark in "{([") - (mark in "})]")
        deepest = max(deepest, depth)
    return f"not decided: brackets nested more than {_DEEPEST} deep" if deepest > _DEEPEST else ""


CHECKER = SymbolicChecker()
atexit.register(CHECKER.close)
