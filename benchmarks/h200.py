"""Every shape on one GPU: verification, generation and probes, each in a process of its own.

    PYTHONPATH=src python benchmarks/h200.py run OUT        where the GPU is
    PYTHONPATH=src python benchmarks/h200.py run OUT --shapes llada8b --scripts verify
    python benchmarks/h200.py figures OUT --commit SHA      anywhere, from what OUT holds

`run` writes one JSON file per shape and script, row by row; what fails or takes too long does not
stop the rest. `figures` merges what they say into docs/figures.json.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lib.figures import FIGURES, merge

ROOT = Path(__file__).resolve().parent.parent
ANSWERS = ["1", "8", "32"]
AT_LEAST = 8  # answers verified at once, of the figures
WORDS = {  # what is said to each script beside the shape; dense models gain nothing from 32 rows
    "verify": {
        "llada21mini": ["--answers", *ANSWERS, "128"],  # its passes are one block of each row
        "lladamoe": ["--answers", *ANSWERS],
        "llada8b": ["--answers", *ANSWERS],
        "dream7b": ["--answers", *ANSWERS],
    },
    "generate": {
        "llada21mini": ["--batches", *ANSWERS],
        "lladamoe": ["--batches", *ANSWERS],
        "llada8b": ["--batches", *ANSWERS[:2]],
        "dream7b": ["--batches", *ANSWERS[:2]],
    },
}
SHAPES = tuple(WORDS["verify"])
WORDS["probe"] = {shape: ["--probe", "--answers", str(AT_LEAST)] for shape in SHAPES}
FILES = {"probe": "verify.py"}  # others have their own name
Row = dict[str, Any]


def run(arguments: argparse.Namespace) -> int:
    """Work every script on every shape; return the exit code."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for script in arguments.scripts:
        for shape in arguments.shapes:
            started = time.perf_counter()
            code = child(script, shape, arguments)
            seconds = time.perf_counter() - started
            outcome = "done" if code == 0 else f"FAILED ({code})"
            print(f"=== {script} {shape}: {outcome} in {seconds:.0f} s", flush=True)
            failed += [f"{script} {shape}"] if code else []
    print(f"failed: {', '.join(failed)}" if failed else "all done", flush=True)
    return 1 if failed else 0


def child(script: str, shape: str, arguments: argparse.Namespace) -> int | str:
    """Run one script on one shape; return its exit code, or "time" where it was stopped."""
    words = ["--shape", shape, "--device", arguments.device, *WORDS[script].get(shape, [])]
    words += ["--out", str(arguments.out / f"{script}-{shape}.json")]
    command = [sys.executable, str(ROOT / "benchmarks" / FILES.get(script, f"{script}.py")), *words]
    try:
        return subprocess.run(command, check=False, timeout=arguments.seconds).returncode
    except subprocess.TimeoutExpired:
        return "time"


def write_figures(arguments: argparse.Namespace) -> int:
    """Merge what the reports say into docs/figures.json, and print it."""
    found = {
        name: figure | {"commit": arguments.commit}
        for shape in SHAPES
        for name, figure in figures(arguments.out, shape)
    }
    if not found:
        print(f"{arguments.out} holds no reports; measure first.", file=sys.stderr)
        return 1
    merge(arguments.figures, found)
    for name, figure in found.items():
        print(f"{name}: {figure['value']:.4g} {figure['unit']}")
    return 0


def figures(folder: Path, shape: str) -> Iterator[tuple[str, Row]]:
    """Yield the figures of a shape by name, each without its commit."""
    path = f"h200/{shape}"
    verified, written, probed = (read(folder / f"{script}-{shape}.json") for script in WORDS)
    rows = [row for row in rows_of(verified) if row["answers"] >= AT_LEAST]
    if rows:
        row = min(rows, key=lambda row: float(row["seconds_per_answer"]))
        at_once = f"{row['answers']} answers at once, {manner(row)}"
        seconds = [second / row["answers"] for second in row["seconds"]]
        peak = f"{verified['matmul_tflops']:.0f} TFLOP/s that square matmuls reach"
        about = origin(row["answers"], f"verify-{shape}", verified)
        yield f"{path}/verify_seconds", spread(seconds, f"s per answer, {at_once}") | about
        for name, value, unit in (
            ("verify_ratio", row["ratio"], f"times the speed of the public loop, {at_once}"),
            ("peak_share", row["peak_share"], f"share of the {peak}, {at_once}"),
            ("memory_gb", row["peak_memory_gb"], f"GB allocated at the peak, {at_once}"),
        ):
            yield f"{path}/{name}", spread([value], unit) | about
    yield from probe_figures(probed, shape)
    if rows := rows_of(written):
        row = max(rows, key=lambda row: float(row["tokens_per_second"]))
        tokens = [row["rows"] * row["timed_steps"] / second for second in row["seconds"]]
        unit = (
            f"tokens/s at one token per forward, {row['rows']} answers at once, "
            f"rows of {row['canvas']} tokens, {manner(row)}"
        )
        about = origin(row["rows"], f"generate-{shape}", written)
        yield f"{path}/generate_tokens_per_s", spread(tokens, unit) | about


def probe_figures(probed: Row, shape: str) -> Iterator[tuple[str, Row]]:
    """Yield what sets of probes take, and round trips in the same run."""
    for name, loop in (("probe", "probe"), ("verifier", "verifier"), ("roundtrips", "ours")):
        rows = [row for row in rows_of(probed, loop) if row["answers"] >= AT_LEAST]
        if rows:
            row = min(rows, key=lambda row: float(row["seconds_per_answer"]))
            seconds = [second / row["answers"] for second in row["seconds"]]
            unit = f"s per answer, {row['answers']} answers at once, {manner(row)}"
            about = origin(row["answers"], f"probe-{shape}", probed)
            yield f"h200/{shape}/{name}_seconds", spread(seconds, unit) | about


def read(path: Path) -> Row:
    """Return a report; one that was not written has no rows."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {"results": []}


def rows_of(report: Row, loop: str = "ours") -> list[Row]:
    """Return the rows of one loop; the library's own by default."""
    return [row for row in report["results"] if row["loop"] == loop]


def manner(row: Row) -> str:
    """Return how the network ran."""
    return "compiled" if row["compiled"] else "not compiled"


def origin(n: int, key: str, report: Row) -> Row:
    """Return what says where the figures of a report come from."""
    return {"n": n, "run": key, "command": report["command"], "hardware": report["hardware"]}


def spread(values: Sequence[float], unit: str) -> Row:
    """Return a figure over repetitions: their middle, and the least and the most of several."""
    ranked, several = sorted(values), len(values) > 1
    middle = (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2
    return {
        "value": middle,
        "low": ranked[0] if several else None,
        "high": ranked[-1] if several else None,
        "unit": unit,
    }


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Measure every shape on one GPU.")
    commands = parser.add_subparsers(dest="command", required=True)
    work = commands.add_parser("run", help="measure, where the GPU is")
    work.add_argument("out", type=Path, help="folder for the reports")
    work.add_argument("--shapes", nargs="+", default=SHAPES, help="some of them, in this order")
    work.add_argument("--scripts", nargs="+", choices=list(WORDS), default=list(WORDS))
    work.add_argument("--seconds", type=float, default=150, help="most that one script may take")
    work.add_argument("--device", default="cuda", help="cpu or cuda")
    tell = commands.add_parser("figures", help="into docs/figures.json, from reports")
    tell.add_argument("out", type=Path, help="folder with the reports")
    tell.add_argument("--commit", required=True, help="commit that was measured")
    tell.add_argument("--figures", type=Path, default=FIGURES)
    return parser.parse_args(arguments)


def main(command: Sequence[str]) -> int:
    """Run one of the two commands and return the exit code."""
    arguments = read_arguments(command)
    return run(arguments) if arguments.command == "run" else write_figures(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
