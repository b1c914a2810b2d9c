"""Kills, pairs of writers and edits: every run must end as a clean one does, or be refused.

    python benchmarks/faults.py WORK --kills 60 --pairs 60 --edits 500

Each draw takes one of `score`, `collect`, `align` and `adapt` with a random model of one or two
layers. A kill is `kill -9` at a random time, then the same command again. A pair is two processes
that write the same output and start 0 to 3 s apart. An edit changes a byte, a line or a file of an
unfinished or a finished output before the same command runs again. A draw fails unless the result
equals that of a clean run but for the times in it; after an edit the command may also exit with one
sentence. Processes are forked, so that none of them imports torch again. WORK is emptied.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lib.figures import figure_of, parse, save

from remask import cli
from remask.testing import write_checkpoint

LOADED = (  # before the processes are forked
    "accelerate", "matplotlib.figure", "peft", "remask.align.trainer", "remask.api",
    "remask.collect.collect", "remask.pretrain.adapt", "remask.report.training",
)  # fmt: skip
PAIRED = ("score", "collect", "align")
TIMES = ("time/", "seconds", "_s", "memory/", "memory_gb")
EDITS = ("byte", "remove", "double", "swap", "cut", "delete")
PICTURES = (".png", ".svg", ".lock")
Rows = list[dict[str, Any]]


class Command(NamedTuple):
    """A command that writes `out` into a folder of its own."""

    words: tuple[str, ...]
    out: str
    logs: tuple[str, ...] = ()  # of rows, in a folder that is written
    models: tuple[str, ...] = ()

    def result(self, folder: Path) -> dict[str, Any]:
        """Return what a run must reproduce."""
        out = folder / self.out
        logs = [out / name for name in self.logs] or [out]
        found: dict[str, Any] = {log.name: rows_of(log) for log in logs}
        for model in self.models:
            for path in sorted((out / model).rglob("*")):
                if path.is_file():
                    found[str(path.relative_to(out))] = path.read_bytes()
        return found


def rows_of(path: Path) -> Rows | None:
    """Return the rows of a file without their times; None if it is absent or not of rows."""
    try:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError):
        return None
    return [timeless(row) for row in rows]


def timeless(value: Any) -> Any:
    """Return a value of JSON without the times and the memory in it."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if not any(word in k for word in TIMES)}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def commands(base: Path) -> dict[str, Command]:
    """Return the commands, after their inputs are written."""
    size: dict[str, Any] = {"layers": 1, "width": 16, "heads": 2, "inner": 16, "length": 16}
    model = str(write_checkpoint(base / "model", dtype=torch.float32, max_length=512, **size))
    rows = base / "rows.jsonl"
    pairs = [(f"What is {i} + {i}?", f"The answer is {2 * i}.") for i in range(24)]
    rows.write_text("".join(
        json.dumps({"prompt": p, "answer": a, "response": a}) + "\n" for p, a in pairs
    ))  # fmt: skip
    trips = ("--metrics", "core", "--trips", "2", "--rebuild-steps", "2")
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "unit" / "pretrain"))
    import ancestors  # type: ignore[import-not-found]

    source = str(ancestors.write_gguf(base / "model.gguf", "llama"))
    return {
        "score": Command(
            ("score", str(rows), "-o", "out.jsonl", "-m", model, *trips, "--batch", "2",
             "--device", "cpu"), "out.jsonl",
        ),
        "collect": Command(
            ("collect", "--task", "countdown", "-o", "out.jsonl", "-m", model, *trips, "--problems",
             "8", "--samples", "2", "--length", "16", "--steps", "4", "--block", "4", "--device",
             "cpu"), "out.jsonl",
        ),
        "align": Command(
            ("align", "-m", model, "--task", "countdown", "-o", "out", "--tuning", "full",
             "--reward", "ungated", *trips, "--updates", "12", "--prompts-per-update", "1",
             "--num-generations", "2", "--inner-updates", "2", "--length", "16", "--steps", "4",
             "--block", "4", "--eval-problems", "2", "--eval-every", "4", "--checkpoint-every", "2",
             "--set", "show_every=2", "--track", "none", "--device", "cpu"), "out",
            ("log.jsonl", "completions.jsonl"), ("best", "final"),
        ),
        "adapt": Command(
            ("adapt", source, str(rows), "--valid", str(rows), "--canvas", "24", "--least-canvas",
             "8", "--longest", "96", "--tokens", "384", "--epochs", "6", "--eval-every", "2",
             "--log-every", "1", "--checkpoint-every", "3", "-o", "out", "--device", "cpu"), "out",
            ("adapt.jsonl",), ("model",),
        ),
    }  # fmt: skip


class Process:
    """A forked process that runs a command in a folder."""

    def __init__(self, command: Command, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.errors = folder.with_name(f"{folder.name}-{time.monotonic_ns()}.err")
        self.pid = os.fork()
        if self.pid == 0:
            self._run(command.words, folder)

    def _run(self, words: Sequence[str], folder: Path) -> None:
        code = 70
        try:
            os.chdir(folder)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(self.errors, os.O_CREAT | os.O_WRONLY), 2)
            sys.argv = ["remask", *words]
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def wait(self) -> tuple[int, str]:
        """Return the exit code, and what was written to standard error."""
        _, status = os.waitpid(self.pid, 0)
        said = self.errors.read_text("utf-8", errors="replace") if self.errors.exists() else ""
        self.errors.unlink(missing_ok=True)
        return os.waitstatus_to_exitcode(status), said

    def kill(self) -> None:
        """Kill the process, if it has not ended."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()


def is_refusal(code: int, said: str) -> bool:
    """Return whether a command ended with an error of one sentence."""
    last = said.strip().splitlines()[-1:] or [""]
    return code in (1, 2) and last[0].startswith("remask: ") and "Traceback" not in said


def kill(command: Command, folder: Path, wanted: Any, seconds: float, draw: random.Random) -> str:
    """Kill a run and repeat it; return what went wrong."""
    process = Process(command, folder)
    time.sleep(draw.random() * seconds)
    process.kill()
    code, said = Process(command, folder).wait()
    finished = is_refusal(code, said) and "exists" in said  # the kill came after the last write
    right = command.result(folder) == wanted
    return "" if right and (code == 0 or finished) else f"exit code {code}, same {right}: {said}"


def pair(command: Command, folder: Path, wanted: Any, seconds: float, draw: random.Random) -> str:
    """Start two processes on one output; return what went wrong."""
    first = Process(command, folder)
    time.sleep(draw.random() * 3)
    second = Process(command, folder)
    ends = [first.wait(), second.wait()]
    right = command.result(folder) == wanted
    one = any(code == 0 for code, _ in ends)
    named = all(code == 0 or is_refusal(code, said) for code, said in ends)
    return "" if right and one and named else f"same {right}: {ends}"


def edit(command: Command, folder: Path, wanted: Any, seconds: float, draw: random.Random) -> str:
    """Edit an output, finished or not, and repeat the run; return what went wrong."""
    process = Process(command, folder)
    if draw.random() < 0.75:
        time.sleep((0.2 + 0.8 * draw.random()) * seconds)
        process.kill()
    else:
        process.wait()
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix not in PICTURES]
    path, kind = folder, "nothing written"
    if files:
        path, kind = draw.choice(files), draw.choice(EDITS)
        change(path, kind, draw)
    code, said = Process(command, folder).wait()
    right = command.result(folder) == wanted
    if (code == 0 and right) or is_refusal(code, said):
        return ""
    return f"{kind} in {path}, exit code {code}, same {right}: {said}"


def change(path: Path, kind: str, draw: random.Random) -> None:
    """Change a byte or a line of a file, cut it or delete it."""
    content = path.read_bytes()
    lines, place = content.splitlines(keepends=True), draw.randrange(max(len(content), 1))
    line, other = (draw.randrange(max(len(lines), 1)) for _ in range(2))
    if kind == "byte" and content:
        changed = bytes([content[place] ^ (1 << draw.randrange(8))])
        content = content[:place] + changed + content[place + 1 :]
    elif kind == "remove":
        content = b"".join(lines[:line] + lines[line + 1 :])
    elif kind == "double":
        content = b"".join(lines[: line + 1] + lines[line:])
    elif kind == "swap" and lines:
        lines[line], lines[other] = lines[other], lines[line]
        content = b"".join(lines)
    elif kind == "cut":
        content = content[:place]
    path.write_bytes(content)
    if kind == "delete":
        path.unlink()


Draw = Callable[[Command, Path, Any, float, random.Random], str]


def check(
    name: str, try_once: Draw, number: int, known: Mapping[str, Command], base: Path,
    clean: Mapping[str, tuple[Any, float]], seed: int,
) -> int:  # fmt: skip
    """Return the number of failed draws, and print each."""
    failed = Counter[str]()
    draw = random.Random(f"{name}/{seed}")
    for each in range(number):
        chosen = draw.choice(sorted(known))
        folder = base / f"{name}-{each}"
        wrong = try_once(known[chosen], folder, *clean[chosen], draw)
        if wrong:
            failed[chosen] += 1
            print(f"{name} {each} of {chosen}: {wrong}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{name}: {failed.total()} of {number} failed {dict(failed)}", flush=True)
    return failed.total()


def main(words: Sequence[str] | None = None) -> int:
    """Run the draws; return how many failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path, help="folder for the runs; it is emptied")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--commands", nargs="+", default=["score", "collect", "align", "adapt"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parse(parser, sys.argv[1:] if words is None else words)
    base: Path = arguments.work.resolve()
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    torch.set_num_threads(1)
    for module in LOADED:
        import_module(module)
    known = {n: c for n, c in commands(base).items() if n in arguments.commands}
    clean = {}
    for name, command in known.items():
        started = time.monotonic()
        code, said = Process(command, base / f"clean-{name}").wait()
        if code:
            raise SystemExit(f"{name} failed with exit code {code}: {said}")
        clean[name] = (command.result(base / f"clean-{name}"), time.monotonic() - started)
        print(f"{name}: {clean[name][1]:.1f} s", flush=True)
    paired = {name: one for name, one in known.items() if name in PAIRED}
    plan: dict[str, tuple[Draw, int, dict[str, Command]]] = {
        "kills": (kill, arguments.kills, known),
        "two_writers": (pair, arguments.pairs, paired or known),
        "edits": (edit, arguments.edits, known),
    }
    figures = {
        f"faults/{name}": figure_of(
            check(name, draw, number, chosen, base, clean, arguments.seed), "failures", number
        )
        for name, (draw, number, chosen) in plan.items()
        if number
    }  # fmt: skip
    save(arguments, figures, "faults", "python benchmarks/faults.py WORK")
    return int(any(figure["value"] for figure in figures.values()))


if __name__ == "__main__":
    raise SystemExit(main())
