"""How long records take to read, as types that are validated, against an earlier reader.

    git worktree add OLDER 42b305d
    python benchmarks/reading_records.py --older OLDER/src

Both read the same file by turns, in processes of their own; the ratio is that of the fastest times.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lib.report import Report, Row

from remask.records import jsonl
from remask.records.record import Record

READERS = {"now": "read_records", "older": "read_rows"}
CHILD = """
import sys, time
from pathlib import Path
from remask.records.record import {reader} as read
path = Path(sys.argv[1])
sum(1 for _ in zip(range(2), read(path)))  # what is imported or built once
started = time.perf_counter()
rows = list(read(path))
print(time.perf_counter() - started, len(rows))
"""
METRICS = ("token_accuracy", "number_retention", "answer_match", "semantic_similarity",
           "character_similarity", "confidence", "cross_entropy", "critical_divergence",
           "embedding_distance")  # fmt: skip


def example(number: int, tokens: int = 70, trips: int = 4) -> Record:
    """Return a record of the usual size: nine metrics, four trips, seventy tokens."""
    values = [((number * 31 + k) % 1000) / 1000 for k in range(tokens)]
    return Record(
        id=f"wordmath/hard/test/0/{number}", task="wordmath", level="hard", number=0,
        prompt="Ben has 12 apples. " * 12, gold="12", text="Ben: 12. " * 8 + "#### 12",
        answer="12", right=number % 3 > 0, process_ok=number % 3 > 1, forwards=192,
        scores={"confidence": 0.9, "confidence_canvas": 0.8, "roundtrips": values[0]}, stderr=0.01,
        metrics=dict(zip(METRICS, values, strict=False)),
        by_trip=dict.fromkeys(METRICS, values[:trips]), drift=[*values], verify_forwards=64,
        tier="markup", method="number", reason="equal", pieces=[" twelve"] * tokens,
    )  # fmt: skip


def seconds(reader: str, src: Path, path: Path) -> tuple[float, int]:
    """Return how long a process takes to read the file, and how many rows it read."""
    run = subprocess.run(
        [sys.executable, "-c", CHILD.format(reader=reader), path], check=True, text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(src)},
    )  # fmt: skip
    taken, rows = run.stdout.split()
    return float(taken), int(rows)


def main(words: list[str]) -> None:
    """Read by turns, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--older", type=Path, help="src folder of a checkout of 42b305d")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(words)
    sources = {"now": Path(__file__).resolve().parents[1] / "src"}
    if arguments.older is not None:
        sources["older"] = arguments.older
    report = Report("reading_records.py", words, arguments.out, {
        "name": "reading-records", "rows": arguments.rows,
        "notes": ["ratio: the fastest of this reader's times over the fastest of the older one's"],
    })  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        jsonl.append(path, (example(number).to_json() for number in range(arguments.rows)))
        fastest = dict.fromkeys(sources, float("inf"))
        for _ in range(arguments.times):
            for name, src in sources.items():
                taken, rows = seconds(READERS[name], src, path)
                assert rows == arguments.rows
                fastest[name] = min(fastest[name], taken)
        row: Row = {"megabytes": round(path.stat().st_size / 1e6, 1)}
    row |= {f"{name} s": round(taken, 4) for name, taken in fastest.items()}
    if "older" in fastest:
        row["ratio"] = round(fastest["now"] / fastest["older"], 4)
    report.add(row)
    report.show()


if __name__ == "__main__":
    main(sys.argv[1:])
