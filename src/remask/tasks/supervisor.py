"""Runs one program and its tests in separate processes; `execution` starts this file as a script.

The program process runs what a model wrote. It never receives a test: it answers requests of the
judge, such as "call f with 3". The judge runs the tests. In a test, a function of the program is a
`Reference`; calling it returns a copy of the value. The program therefore cannot read an expected
value, and `==` in a test is Python's own.

The supervisor ends when the judge has a verdict or when its standard input is closed, which also
happens when the caller dies. It then kills every process that is left and removes the folder.
"""

from __future__ import annotations

import builtins
import ctypes
import marshal
import os
import pickle
import resource
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from types import CodeType, ModuleType

TYPE_CHECKING = False  # importing typing takes longer than starting a process
if TYPE_CHECKING:
    from typing import Any, BinaryIO

NOBODY = 65534
_KILL_WITH_PARENT, _HIDE_MEMORY, _ADOPT_ORPHANS, _KEEP_RIGHTS = 1, 4, 36, 38  # PR_SET_...
_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = (
    1 << 17, 1 << 27, 1 << 28, 1 << 29, 1 << 30,
)  # fmt: skip  # CLONE_NEW...
_SET_MOUNTS, _RECURSIVE, _READ_ONLY, _PRIVATE = 442, 1 << 15, 1, 1 << 18
_NO_DEVICES = 6  # nor programs with the rights of their owner
FILES_MB = 16  # size of all files in the working folder
_IMMUTABLE = 1 << 8  # flag of a type whose methods cannot be replaced
_PLAIN = (
    int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset, range,
    type(None),
)  # fmt: skip
_COPIED = {(kind.__module__, kind.__name__) for kind in _PLAIN} | {
    ("datetime", "date"), ("datetime", "datetime"), ("datetime", "time"),
    ("datetime", "timedelta"), ("collections", "deque"), ("decimal", "Decimal"),
}  # fmt: skip
_LINUX = ctypes.CDLL(None) if sys.platform == "linux" else None
_OBJECTS: list[object] = []  # in the program process: what the judge has references to


class ProgramEnded(BaseException):
    """The program process does not answer any more."""


def main() -> None:
    """Run the job that comes through the standard input, and print its outcome."""
    requests, replies, verdicts = os.pipe(), os.pipe(), os.pipe()
    judge = _start(_judge, keep=(0, replies[0], requests[1], verdicts[1]))
    _isolate()
    program = _start(_serve, keep=(requests[0], replies[1]))
    for end in (*requests, *replies, verdicts[1]):
        os.close(end)
    poll = select.poll()
    poll.register(0, 0)  # reports only that the other end is closed
    poll.register(verdicts[0], select.POLLIN)
    if (0, select.POLLHUP) not in poll.poll():
        with suppress(OSError):  # the caller may end now
            os.write(1, os.read(verdicts[0], 4096) or _cause(judge, program).encode())
    _end_children()
    try:
        os.rmdir(os.getcwd())
    except OSError:
        os.execvp("rm", ["rm", "-rf", os.getcwd()])


def _start(role: Callable[..., None], keep: tuple[int, ...]) -> int:
    """Start a process that has no open files but those to `keep`, and no rights to spare."""
    pid = os.fork()
    if pid:
        return pid
    try:
        if os.getpid() == 1:  # the first process in a namespace of its own
            _hide_files()
        folders = [os.open(path, os.O_RDONLY) for path in sys.path if os.path.isdir(path)]
        null = os.open(os.devnull, os.O_RDWR)
        for standard in {0, 1, 2} - set(keep):
            os.dup2(null, standard)
        ends = sorted({2, *keep, *folders, os.sysconf("SC_OPEN_MAX")} - {0, 1})
        for one, other in pairwise(ends):
            if one + 1 < other:
                os.closerange(one + 1, other)
        _give_up_rights(folders)
        role(*keep)
    finally:
        os._exit(1)


def _isolate() -> None:
    """Cut the network and hide other processes from the program, if the kernel allows it."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        with suppress(OSError):  # a container without the right to change the owner
            os.chown(".", NOBODY, NOBODY)
    if _LINUX is None:
        return
    _LINUX.prctl(_ADOPT_ORPHANS, 1)
    new_user = _NEW_USER if user else 0  # without root, the others require a user namespace
    unshared = _LINUX.unshare(new_user | _NEW_PROCESSES | _NEW_NETWORK | _NEW_IPC) == 0
    if unshared and user:
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    with suppress(OSError), open("/proc/sys/kernel/shmall", "w") as file:
        file.write("0" if unshared else "")  # shared memory would not count as the program's
    _LINUX.prctl(_HIDE_MEMORY, 0)  # the program may not read or change the supervisor


def _hide_files() -> None:
    """Make all files read-only but those of a new working folder, and hide other processes."""
    change = (ctypes.c_uint64 * 4)(_READ_ONLY, 0, _PRIVATE, 0)
    if (
        _LINUX is not None
        and _LINUX.unshare(_NEW_MOUNTS) == 0
        and _LINUX.syscall(_SET_MOUNTS, 0, b"/", _RECURSIVE, change, ctypes.sizeof(change)) == 0
    ):
        size = b"mode=777,nr_inodes=1024,size=%dm" % FILES_MB
        _LINUX.mount(b"none", b".", b"tmpfs", _NO_DEVICES, size)
        _LINUX.mount(b"none", b"/proc", b"proc", _NO_DEVICES | _READ_ONLY, None)
        os.chdir(os.getcwd())


def _give_up_rights(folders: Sequence[int]) -> None:
    """Become nobody if root, end with the supervisor, and set the limits."""
    os.setsid()
    if os.geteuid() == 0:
        with suppress(OSError):  # a container without the right to change the user
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
    if not os.access(os.__file__, os.R_OK):
        # Python is installed in a home folder that nobody may enter; open folders stay readable.
        sys.path[:] = [f"/proc/self/fd/{folder}" for folder in folders]
        for module in [m for m in sys.modules.values() if getattr(m, "__path__", None)]:
            module.__path__ = [f"{path}/{module.__name__}" for path in sys.path]
    if _LINUX is not None:
        _LINUX.capset((ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)())
        _LINUX.prctl(_KEEP_RIGHTS, 1, 0, 0, 0)
        _LINUX.prctl(_HIDE_MEMORY, 0)
        _LINUX.prctl(_KILL_WITH_PARENT, 9)
    for limit in sys.argv[1:]:
        name, _, value = limit.partition("=")
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (int(value), int(value)))


def _cause(judge: int, program: int) -> str:
    """Return why there is no verdict."""
    seconds = next(int(limit[4:]) for limit in sys.argv if limit.startswith("CPU="))
    for pid in (judge, program):
        os.kill(pid, 9)  # has no effect on a process that ended
        _, status, used = os.wait4(pid, 0)
        signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if signal == 9 and used.ru_utime + used.ru_stime > seconds / 2:
            return "timeout"
        if signal not in (0, 9):
            return f"crashed: signal {signal}"
    return "left before the tests ended"


def _end_children() -> None:
    """Kill all children; the orphans that the program left behind are among them."""
    while True:
        with suppress(FileNotFoundError), open(f"/proc/self/task/{os.getpid()}/children") as file:
            for child in file.read().split():
                os.kill(int(child), 9)
        try:
            os.wait()
        except ChildProcessError:
            return


class _ProgramPickler(pickle.Pickler):
    def persistent_id(self, value: object) -> object:
        """Return what stands for an object that has no plain copy."""
        kind = value if isinstance(value, type) else type(value)
        if isinstance(value, _PLAIN) or (kind.__module__, kind.__name__) in _COPIED:
            return None
        if kind.__module__ == "fractions":
            return "fraction", str(value)
        _OBJECTS.append(value)
        return "object", len(_OBJECTS) - 1, kind.__name__

    def reducer_override(self, value: object) -> Any:
        """Write an object of a subclass, such as a named tuple, as one of the plain type."""
        for kind in _PLAIN:
            if isinstance(value, kind) and type(value) is not kind:
                new = getattr(kind, "__getnewargs__", lambda value, kind=kind: (kind(value),))
                return kind, new(value)
        return NotImplemented


class _ProgramUnpickler(pickle.Unpickler):
    def persistent_load(self, key: int) -> object:
        """Return the object with this number."""
        return _OBJECTS[key]


def _serve(request_end: int, reply_end: int) -> None:
    """Answer requests until the judge or the supervisor ends."""
    sys.modules["candidate"] = ModuleType("candidate")
    space = sys.modules["candidate"].__dict__
    actions: dict[str, Callable[..., Any]] = {
        "run": lambda source: exec(compile(source, "candidate", "exec"), space),
        "names": lambda names: {name: space[name] for name in names if name in space},
        "call": lambda f, values, names, more: f(*values, **dict(zip(names, more, strict=True))),
        "getitem": lambda value, key: value[key],
        **{function.__name__: function for function in (getattr, iter, next, len, bool)},
    }
    with open(request_end, "rb") as requests, open(reply_end, "wb") as replies:
        while True:
            action, arguments = _ProgramUnpickler(requests).load()
            try:
                reply: Any = ("value", actions[action](*arguments), arguments)
                _ProgramPickler(replies, 5).dump(reply)
            except BaseException as error:
                bases = [kind for kind in type(error).__mro__ if kind.__module__ == "builtins"]
                reply = ("error", type(error).__name__, bases[0].__name__)
                _ProgramPickler(replies, 5).dump(reply)
            replies.flush()


def _ask(action: str) -> Any:
    return lambda self, *arguments: self._judge.ask(action, self, *arguments)


class Reference:
    """An object of the program that has no plain copy; equal only to itself."""

    def __init__(self, judge: Judge, key: int, kind: str) -> None:
        self._judge, self._key, self._kind = judge, key, kind

    __getitem__, __iter__, __next__ = _ask("getitem"), _ask("iter"), _ask("next")
    __len__, __bool__ = _ask("len"), _ask("bool")

    def __call__(self, *positional: object, **named: object) -> Any:
        return self._judge.ask("call", self, positional, (*named,), (*named.values(),))

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("A program must not change a reference.")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._judge.ask("getattr", self, name)


class _JudgePickler(pickle.Pickler):
    def persistent_id(self, value: object) -> int | None:
        """Return the number of a reference."""
        return value._key if isinstance(value, Reference) else None


class _JudgeUnpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, judge: Judge) -> None:
        super().__init__(file)
        self.judge = judge

    def find_class(self, module: str, name: str) -> Any:
        """Return a type of plain values; methods of the other types could be replaced."""
        kind = getattr(__import__(module), name) if (module, name) in _COPIED else object()
        if not getattr(kind, "__flags__", 0) & _IMMUTABLE:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return kind

    def persistent_load(self, key: Any) -> object:
        """Return a fraction or a reference; what a reply could change must not be returned."""
        if key[0] == "fraction":
            from fractions import Fraction

            return Fraction(str(key[1]))
        return Reference(self.judge, key[1], key[2])


class Judge:
    """The end of the two pipes that the tests see."""

    def __init__(self, replies: BinaryIO, requests: BinaryIO) -> None:
        self.replies, self.requests = replies, requests
        self.ended = False

    def ask(self, action: str, *arguments: Any) -> Any:
        """Return what the program answers, or raise what it raises."""
        try:
            _JudgePickler(self.requests, 5).dump((action, arguments))
            self.requests.flush()
            reply = _JudgeUnpickler(self.replies, self).load()
        except (EOFError, OSError):
            self.ended = True
            raise ProgramEnded from None
        if reply[0] == "error":
            kind: Any = type(reply[1], (getattr(builtins, reply[2]),), {})
            raise kind.__new__(kind)
        _, value, changed = reply
        return _update(arguments, changed, value)

    def names_in(self, statements: Sequence[str]) -> dict[str, Any]:
        """Return what the program defines of the names that occur in some statements.

        A name of Python or of its library, such as `abs` or `math`, is taken from the program only
        if the statements use no other name of it. Otherwise a program could change the meaning of
        a test.
        """
        names = set().union(*(_names(compile(text, "test", "exec")) for text in statements))
        library = names & sys.stdlib_module_names
        found = self.ask("names", names)
        own = {name for name in (names - library) & found.keys() if not hasattr(builtins, name)}
        space = {name: found[name] for name in own or names & found.keys()}
        return {name: __import__(name) for name in library & found.keys()} | space


def _names(code: CodeType) -> set[str]:
    """Return all names in a piece of code, those in its functions included."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _update(arguments: Any, changed: Any, value: Any) -> Any:
    """Repeat on our arguments what a call changed in its copies; return the value of the call."""
    for mine, theirs in zip(arguments, changed, strict=True):
        if type(mine) is tuple and type(theirs) is tuple:
            value = _update(mine, theirs, value)
        elif type(mine) is type(theirs) and isinstance(mine, (list, dict, set)):
            if value is theirs:
                value = mine
            mine.clear()
            mine.extend(theirs) if isinstance(mine, list) else mine.update(theirs)
    return value


def _judge(job_end: int, reply_end: int, request_end: int, verdict_end: int) -> None:
    """Read the job, run its tests and write the verdict; none if the program ended."""
    with open(job_end, "rb") as file:
        source, tests, calls, token = marshal.load(file)
    with open(reply_end, "rb") as replies, open(request_end, "wb") as requests:
        judge = Judge(replies, requests)
        verdict = _watch(judge, source, calls) if calls else _test(judge, source, tests)
        os.write(verdict_end, b"" if judge.ended else (token + verdict).encode(errors="replace"))
        os._exit(0)


def _test(judge: Judge, source: str, tests: Sequence[str]) -> str:
    number = 0
    try:
        judge.ask("run", source)
        space = {"__name__": "test", **judge.names_in(tests)}
        for number, test in enumerate(tests, 1):  # noqa: B007
            exec(compile(test, "test", "exec"), space)
    except MemoryError:
        return "memory"
    except AssertionError:
        return f"wrong answer in test {number}" if number else "crashed: AssertionError"
    except BaseException as error:
        return f"crashed: {type(error).__name__}"
    return "passed"


def _watch(judge: Judge, source: str, calls: Sequence[str]) -> str:
    import hashlib

    outputs: list[str] = []
    try:
        judge.ask("run", source)
        space = {"__name__": "test", **judge.names_in(calls)}
        for call in calls:
            try:
                outputs.append(_show(eval(compile(call, "call", "eval"), space)))
            except BaseException as error:
                outputs.append(f"crashed: {type(error).__name__}")
    except BaseException as error:
        outputs = [f"crashed: {type(error).__name__}"]
    if all(output.startswith("crashed: ") for output in outputs):
        return outputs[-1]
    return "outputs " + hashlib.sha256("\0".join(outputs).encode("utf-8", "replace")).hexdigest()


def _show(value: Any, depth: int = 0) -> str:
    """Write a value so that equal values are written alike."""
    if depth > 20:
        return "..."
    if isinstance(value, (list, tuple)):
        inner = [_show(item, depth + 1) for item in value]
    elif isinstance(value, (set, frozenset)):
        inner = sorted(_show(item, depth + 1) for item in value)
    elif isinstance(value, dict):
        inner = sorted(_show(pair, depth + 1) for pair in value.items())
    elif isinstance(value, float):
        whole = value == value and abs(value) < 1e15 and value == int(value)
        return repr(int(value)) if whole else f"{value:.12g}"
    elif isinstance(value, _PLAIN):
        return repr(value)
    else:
        return value._kind if isinstance(value, Reference) else type(value).__name__
    kind = "set" if isinstance(value, frozenset) else type(value).__name__
    return f"{kind}({', '.join(inner)})"


if __name__ == "__main__":
    try:
        main()
    finally:
        os._exit(0)
