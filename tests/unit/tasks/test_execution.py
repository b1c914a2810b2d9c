"""Programs run in processes: what passes, what is stopped, and what a program cannot do."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from remask.tasks import execution, supervisor
from remask.tasks.execution import Outcome, ProgramRun, isolation, run_many, run_tests

SQUARE = ("assert f(2) == 4", "assert f(3) == 9", "assert f(-1) == 1")
RIGHT = "def f(x):\n    return x * x"
PATIENCE = 120.0  # seconds: a busy machine is no reason to stop a candidate
run = partial(run_tests, seconds=PATIENCE)


def test_right_code_passes() -> None:
    assert run(RIGHT, SQUARE) == Outcome(passed=True, reason="passed")


def test_the_first_failing_test_is_named() -> None:
    """abs(x) + 2 gives 4 for 2, but 5 for 3: the second test fails."""
    outcome = run("def f(x):\n    return abs(x) + 2", SQUARE)
    assert outcome == Outcome(passed=False, reason="wrong answer in test 2")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f(x:\n    return x", "crashed: SyntaxError"),
        ("def f(x):\n    return y", "crashed: NameError"),
        ("def f(x):\n    return f(x)", "crashed: RecursionError"),
        ("assert False", "crashed: AssertionError"),
        ("\ud800", "crashed: SyntaxError"),
        ("import sys\nsys.exit(0)", "crashed: SystemExit"),
        ("def f(x):\n    raise SystemExit", "crashed: SystemExit"),
        ("import os\nos._exit(0)", "left before the tests ended"),
        ("import ctypes\nctypes.string_at(0)", "crashed: signal 11"),
        ("f = [0] * 10 ** 10", "memory"),
    ],
)
def test_a_failure_is_called_by_its_name(source: str, reason: str) -> None:
    assert run(source, SQUARE) == Outcome(passed=False, reason=reason)


def test_a_null_byte_is_a_crash() -> None:
    """Python calls it a ValueError before 3.11.4 and a SyntaxError since."""
    outcome = run("\x00", SQUARE)
    assert not outcome.passed
    assert outcome.reason in ("crashed: ValueError", "crashed: SyntaxError")


@pytest.mark.parametrize(
    "source",
    [
        "while True:\n    pass",
        "import time\ntime.sleep(600)",
        "import os\nos.close(1)\nwhile True:\n    pass",
        "while True:\n    print('x' * 1000)",
        "class Endless(int):\n    def __add__(self, other): return self\n"
        "def f(x):\n    while True: x = Endless() + x",
    ],
)
def test_what_does_not_end_is_stopped_at_the_deadline(source: str) -> None:
    """The limit on the clock is 4 s; a grader that waited for the program would take 600 s."""
    start = time.monotonic()
    assert run_tests(source, SQUARE, seconds=0.4) == Outcome(passed=False, reason="timeout")
    assert time.monotonic() - start < 300


def test_a_busy_machine_makes_no_right_program_wrong() -> None:
    """Asleep, a candidate is as one that has to wait for a core: its own time does not pass."""
    source = f"import time\ntime.sleep(2.2)\n{RIGHT}"
    assert run_tests(source, SQUARE, seconds=2).passed


def test_a_memory_bomb_that_grows_is_stopped() -> None:
    source = "rows = []\nwhile True:\n    rows.append('x' * 10 ** 6)"
    assert run(source, SQUARE, memory_mb=128).reason == "memory"


@pytest.mark.parametrize("printed", ["passed", "0 passed\\n", "\\xff" * 50])
def test_printing_is_allowed_but_proves_nothing(printed: str) -> None:
    assert run(f"print('{printed}')\n{RIGHT}", SQUARE).passed
    assert not run(f"print('{printed}')\nimport os\nos._exit(0)", SQUARE).passed


def test_right_code_that_takes_the_output_away_still_passes() -> None:
    assert run(f"import sys\nsys.stdout = None\n{RIGHT}", SQUARE).passed


def test_a_child_sees_neither_environment_nor_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "1")
    source = "import os\ndef f():\n    return os.environ.get('SECRET_OF_THE_PARENT'), os.listdir()"
    assert run(source, ["assert f() == (None, [])"]).passed


def test_values_of_every_plain_kind_arrive_as_they_are() -> None:
    source = """
import collections, datetime, decimal, enum, fractions
class Point(collections.namedtuple("Point", "x y")): pass
class Colour(enum.IntEnum): RED = 3
class Node:
    def __init__(self, value): self.value, self.next = value, None
    def double(self): return self.value * 2
def f(value): return eval(value)
def count(n):
    for i in range(n): yield i
def fill(rows, table): rows.append(1); rows.sort(); table["n"] = len(rows)
def same(rows): return rows
"""
    tests = [
        "for text in ('1.5', '[1, (2, {3})]', '{1: None}', \"b'x'\", '2j', 'frozenset([1])', "
        "'range(3)', 'bytearray(2)', 'True', '\"\\\\ud800\"', '10 ** 5000'):\n"
        "    assert f(text) == eval(text) and type(f(text)) is type(eval(text)), text",
        "assert f('Point(1, 2)') == (1, 2) and f('Colour.RED') == 3",
        "assert f('collections.Counter(\"aab\")') == {'a': 2, 'b': 1}",
        "assert f('collections.deque([1])') == collections.deque([1])",
        "assert f('fractions.Fraction(1, 2)') == 0.5 and f('decimal.Decimal(2)') == 2",
        "assert f('datetime.date(2000, 1, 1)') == datetime.date(2000, 1, 1)",
        "assert list(count(3)) == [0, 1, 2] and sum(count(3)) == 3 and next(count(1)) == 0",
        "node = Node(4)\nassert node.value == 4 and node.double() == 8 and node.next is None",
        "rows, table = [2], {}\nfill(rows, table=table)\nassert rows == [1, 2]\n"
        "assert table == {'n': 2}\nassert same(rows) is rows",
        "try: f('1 / 0')\nexcept ZeroDivisionError: pass\nelse: assert False",
    ]
    assert run(source, tests) == Outcome(passed=True, reason="passed")


def test_a_program_may_print_more_than_a_pipe_holds() -> None:
    assert run(f"print('x' * 10 ** 6)\n{RIGHT}", SQUARE).passed


def test_a_file_and_a_process_have_limits() -> None:
    source = """
import os, threading
def write(size):
    with open("file", "wb") as file: file.write(bytes(size))
    return os.path.getsize("file")
def start():
    threading.Thread(target=print).start()
"""
    assert run(source, ["assert write(2 ** 20) == 2 ** 20"]).passed
    assert run(source, ["write(2 ** 20 + 1)"]).reason == "crashed: OSError"
    assert run(source, ["start()"]).reason == "crashed: RuntimeError"


CHEATS = {
    "an object equal to everything": """
class Always:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = None
def f(x): return Always()
""",
    "a number equal to everything": """
class Always(int):
    def __eq__(self, other): return True
    def __hash__(self): return 0
def f(x): return Always(-1)
""",
    "the class of a container changed": """
import collections
class Always(collections.Counter):
    def __reduce_ex__(self, protocol): return Always, ()
    def __eq__(self, other): return True
def f(x): return Always()
""",
    "expected values in the frames": """
import sys
def f(x):
    frame, found = sys._getframe(), []
    while frame:
        found += [v for v in (*frame.f_locals.values(), *frame.f_globals.values())]
        frame = frame.f_back
    texts = [t for v in found for t in (v if isinstance(v, (list, tuple)) else [v])]
    for text in texts:
        if isinstance(text, str) and text.startswith(f"assert f({x})"):
            return eval(text.partition("==")[2])
""",
    "expected values in the memory": """
import gc
def f(x):
    for value in gc.get_objects():
        for text in value if isinstance(value, (list, tuple)) else ():
            if isinstance(text, str) and text.startswith(f"assert f({x})"):
                return eval(text.partition("==")[2])
""",
    "builtins of the tests": """
import builtins
builtins.AssertionError = ZeroDivisionError
abs = round = len = int = lambda *a: 0
def f(x): return 0
""",
    "a verdict at the exit": """
import atexit, os
atexit.register(lambda: [os.write(fd, b"passed") for fd in (1, 2)])
def f(x): raise SystemExit(0)
""",
    "a verdict on every file": """
import os
for fd in range(100):
    try: os.write(fd, b"passed\\n")
    except OSError: pass
os._exit(0)
""",
    "a forged reply": """
import gc, io, os, pickle
for fd in range(100):
    try: os.write(fd, pickle.dumps(("value", True, ())) * 100)
    except OSError: pass
def f(x): return None
""",
    "a verdict through the supervisor's files": """
import os
for pid in os.listdir("/proc"):
    for fd in range(12):
        try:
            with open(f"/proc/{pid}/fd/{fd}", "wb", buffering=0) as file: file.write(b"passed")
        except OSError: pass
os._exit(0)
""",
    "an early exit": "import sys\nsys.exit(0)",
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_program_cannot_pass_without_the_right_values(name: str) -> None:
    outcome = run(CHEATS[name], SQUARE)
    assert not outcome.passed


def test_a_program_cannot_redefine_what_a_test_calls() -> None:
    source = "import math\nmath.isclose = abs = lambda *a: True\ndef f(x): return 7.0"
    assert not run(source, ["import math\nassert math.isclose(f(1), 2.0)"]).passed
    assert not run(source, ["assert math.isclose(f(1), 2.0)"]).passed
    assert not run(source, ["assert abs(f(1) - 2.0) < 1e-6"]).passed
    assert run("def sum(x, y): return x + y + 1", ["assert sum(1, 2) == 4"]).passed


@pytest.mark.parametrize("fake", ["class math: isclose = staticmethod(lambda *a: True)", """
import builtins, operator
operator.isclose = lambda *a: True
builtins.__import__ = lambda *a: operator
import math
"""])  # fmt: skip
def test_a_program_cannot_replace_a_module_of_the_tests(fake: str) -> None:
    tests = ["assert math.isclose(f(1), 2.0)"]
    assert not run(f"{fake}\ndef f(x): return 7.0", tests).passed
    assert run("import math\ndef f(x): return 2.0", tests).passed


@pytest.mark.parametrize(
    ("module", "name", "test"),
    [
        ("builtins", "abs", "assert abs(f(1) - 2.0) < 1e-6"),
        ("builtins", "__import__", "import math\nassert math.isclose(f(1), 2.0)"),
        ("math", "isclose", "import math\nassert math.isclose(f(1), 2.0)"),
    ],
)
def test_a_reply_cannot_change_the_process_of_the_tests(module: str, name: str, test: str) -> None:
    """Unpickling can set attributes of every object that a reply has access to."""
    source = f"""
import io, sys
class Fake(int):
    isclose = staticmethod(lambda *a: True)
frame = sys._getframe()
while "replies" not in frame.f_locals: frame = frame.f_back
G = frame.f_globals
G["_OBJECTS"].append(lambda *a: 0 if {name!r} == "abs" else Fake)
class Pickler(G["_ProgramPickler"]):
    def __init__(self, file, protocol):
        self.file, self.body = file, io.BytesIO()
        super().__init__(self.body, protocol)
    def dump(self, reply):
        super().dump(reply)
        self.file.write(self.body.getvalue()[:2] + change + self.body.getvalue()[2:])
def text(value): return b"X" + len(value).to_bytes(4, "little") + value.encode()
target = text("module") + text({module!r}) + b"\\x86Q"
reference = text("object") + b"K\\0" + text("function") + b"\\x87Q"
change = target + b"}}" + text({name!r}) + reference + b"sb0"
G["_ProgramPickler"] = Pickler
def f(x): return 7.0
"""
    assert not run(source, [test]).passed


@pytest.mark.parametrize("signal", [9, 15, 19])
def test_a_program_cannot_stop_the_grader(signal: int) -> None:
    hidden = isolation()  # otherwise the program has the right to end this test
    source = f"""
import os
for pid in (os.getppid(), {os.getpid()}, -1) if {hidden} else (os.getppid(),):
    if pid != os.getpid():
        try: os.kill(pid, {signal})
        except OSError: pass
{RIGHT}
"""
    assert run(source, SQUARE).reason in ("passed", "left before the tests ended")
    assert run(RIGHT, SQUARE).passed


def test_nothing_that_a_program_starts_outlives_it(tmp_path: Path) -> None:
    """Where a process may be started at all, it is found by its environment."""
    mark = f"REMASK_TEST={tmp_path.name}"
    source = f"""
import os, subprocess, time
def again():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", ["sleep", "600"], {{"REMASK_TEST": {tmp_path.name!r}}})
        os._exit(0)
try: again()
except OSError: pass
{RIGHT}
"""
    run(source, SQUARE)
    assert with_environment(mark) == []


def test_a_fork_bomb_starts_no_process() -> None:
    source = f"import os\nfor i in range(1000):\n    os.fork()\n{RIGHT}"
    assert run(source, SQUARE).reason == "crashed: BlockingIOError"


WITH_NAMESPACES = pytest.mark.skipif(
    "other files are read-only" not in isolation(), reason="the kernel refuses namespaces"
)


@WITH_NAMESPACES
@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/dev/shm"])
def test_a_program_leaves_no_file_elsewhere(folder: str) -> None:
    path = Path(folder) / f"remask-left-by-{os.getpid()}"
    source = f"""
import ctypes, os
def f():
    ctypes.CDLL(None).umount2(os.getcwd().encode(), 2)
    open({str(path)!r}, "w").close()
"""
    assert run(source, ["f()"]).reason == "crashed: OSError"
    assert not path.exists()


@WITH_NAMESPACES
def test_a_folder_that_cannot_be_removed_goes_with_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's `rmtree` fails in folders as deep as its recursion limit."""
    work = tempfile.mkdtemp()  # other tests use the usual folder at the same time
    os.chmod(work, 0o755)
    monkeypatch.setattr(tempfile, "tempdir", work)
    source = f"""
import os
os.symlink("/", "root")
for _ in range(3):
    try: os.rename(os.getcwd(), {str(tmp_path / "moved")!r})
    except OSError: pass
try:
    for _ in range(3000): os.mkdir("d"); os.chdir("d")
except OSError: pass
os.chmod(".", 0)
{RIGHT}
"""
    assert run(source, SQUARE).passed
    assert list(tmp_path.iterdir()) == []
    os.rmdir(work)  # fails if the program left anything


@WITH_NAMESPACES
def test_all_files_of_a_program_have_a_limit() -> None:
    source = """
def f(number):
    for i in range(number):
        with open(str(i), "wb") as file: file.write(bytes(2 ** 20 - 4096))
"""
    assert run(source, [f"f({supervisor.FILES_MB})"]).passed
    assert run(source, [f"f({supervisor.FILES_MB + 1})"]).reason == "crashed: OSError"
    source = f"import os\nfiles = [os.memfd_create('') for i in range({execution.OPEN_FILES})]"
    assert run(source, ["True"]).reason == "crashed: OSError"


@WITH_NAMESPACES
def test_shared_memory_does_not_outlive_a_program() -> None:
    source = "import ctypes\ndef f(): return ctypes.CDLL(None).shmget(0, 2 ** 20, 0o1600)"
    before = Path("/proc/sysvipc/shm").read_text()
    outcome = run(source, ["assert f() == -1"])
    assert outcome.passed or os.geteuid() != 0
    assert Path("/proc/sysvipc/shm").read_text() == before


def test_classes_know_their_module() -> None:
    source = """
from __future__ import annotations
import dataclasses, pickle
@dataclasses.dataclass
class Point:
    x: int = 0
def f(x): return pickle.loads(pickle.dumps(Point(x))).x * x
"""
    assert run(source, SQUARE).passed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_root_without_capabilities_grades_programs() -> None:
    code = f"from remask.tasks.execution import run_tests\nprint(run_tests({RIGHT!r}, {SQUARE!r}))"
    drop = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", sys.executable, "-c", code]
    printed = subprocess.run(drop, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(Outcome(passed=True, reason="passed"))


@pytest.mark.skipif("no network" not in isolation(), reason="the kernel refuses namespaces")
def test_a_program_has_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source = f"""
import socket
def f(): socket.create_connection(("127.0.0.1", {port}), 5)
"""
        assert run(source, ["f()"]).reason == "crashed: OSError"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
def test_root_runs_programs_as_another_user(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("1")
    (tmp_path / "secret").chmod(0o600)
    source = f"""
import os, textwrap, json
def user(): return os.getuid(), os.geteuid(), os.getgid(), os.getgroups()
def read(): open({str(tmp_path / "secret")!r}).read()
def write(): open("file", "w").write("1"); return os.listdir()
def back(): os.setuid(0)
"""
    nobody = 65534
    assert run(source, [f"assert user() == ({nobody}, {nobody}, {nobody}, [])"]).passed
    assert run(source, ["assert write() == ['file']"]).passed
    assert run(source, ["read()"]).reason == "crashed: PermissionError"
    assert run(source, ["back()"]).reason == "crashed: PermissionError"


def test_the_grader_does_not_wait_after_the_verdict() -> None:
    """A program that prevents its end by every means holds the grader for no 1,200 s."""
    source = f"""
import atexit, signal, time
for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
atexit.register(time.sleep, 1200)
class Slow:
    def __del__(self): time.sleep(1200)
slow = Slow()
{RIGHT}
"""
    start = time.monotonic()
    assert run(source, SQUARE).passed
    assert time.monotonic() - start < 300


def test_a_killed_grader_leaves_nothing_behind(tmp_path: Path) -> None:
    code = "from remask.tasks.execution import run_tests\n" + (
        "run_tests('import time\\nopen(\"file\", \"w\").close()\\ntime.sleep(600)', ['f()'])"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "REMASK_TEST": tmp_path.name}
    grader = subprocess.Popen([sys.executable, "-c", code], env=environment)
    wait_until(lambda: len(descendants(grader.pid)) == 3)  # supervisor, judge and program
    others = descendants(grader.pid)
    grader.kill()
    grader.wait()
    wait_until(lambda: not others & parents().keys())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.write(1, b'passed')", "left before the tests ended"),  # not by the judge
        ("import time; time.sleep(600)", "timeout"),  # stopped by the program
    ],
)
def test_a_supervisor_that_the_program_can_reach_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    (tmp_path / "fake.py").write_text(code)
    monkeypatch.setattr(execution, "_SUPERVISOR", str(tmp_path / "fake.py"))
    monkeypatch.setattr(execution, "END_SECONDS", 1.0)
    seconds = 0.3 if reason == "timeout" else PATIENCE
    assert run_tests(RIGHT, SQUARE, seconds=seconds) == Outcome(passed=False, reason=reason)


def test_many_jobs_keep_their_order_and_leave_no_child_behind() -> None:
    jobs = [
        ProgramRun(
            source=f"def f():\n    return {i % 3}", tests=("assert f() == 1",), seconds=PATIENCE
        )
        for i in range(12)
    ]
    before = children()
    outcomes = run_many(jobs, workers=3)
    assert [o.passed for o in outcomes] == [i % 3 == 1 for i in range(12)]
    assert children() == before


def children() -> set[str]:
    """Return the ids of this process's children; other tests may have left a helper running."""
    listed = Path("/proc/self/task").glob("*/children")
    return {child for path in listed for child in path.read_text().split()}


def test_the_page_states_the_limits() -> None:
    page = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    seconds, patience = execution.SECONDS, execution.PATIENCE
    for text in (
        f"{seconds:g} s (`pycode`: {ProgramRun(source='').seconds:g} s)",
        f"{patience} times the processor time: {seconds * patience:g} s",
        f"; {execution.END_SECONDS:g} s more if",
        f"| {execution.MEMORY_MB} MB |",
        f"| {execution.FILE_MB} MB; {supervisor.FILES_MB} MB, ",
        f"| {execution.OPEN_FILES} |",
    ):
        assert text in page


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def parents() -> dict[int, int]:
    """Return the parent of every running process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text().rpartition(") ")[2].split()[:2]
            if state != "Z":
                found[int(path.parent.name)] = int(parent)
    return found


def descendants(root: int) -> set[int]:
    """Return the processes that a process started, directly or not."""
    found, parent_of = {root}, parents()
    while more := {pid for pid, parent in parent_of.items() if parent in found} - found:
        found |= more
    return found - {root}


def with_environment(mark: str) -> list[str]:
    """Return the processes with a variable in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_text(errors="replace").split("\0"):
                found.append(path.parent.name)
    return found
