"""The report: rows, what they depend on besides the code, on disk after every row.

A run that is stopped keeps what it has measured, and its last line says what it was at.
"""

import argparse
import importlib.metadata
import json
import platform
import shlex
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from remask.denoisers.devices import choose_device, choose_dtype
from remask.records.jsonl import write_text
from studies.shared.run import commit, hardware

ROOT = Path(__file__).resolve().parents[2]
STARTED = time.perf_counter()
Row = dict[str, Any]


class Report:
    """A table that grows row by row, in a JSON file."""

    def __init__(self, script: str, words: Sequence[str], out: Path | None, about: Row) -> None:
        """Begin: `about` says what is measured; its name says where to write, unless `out` does."""
        said = [word for word in words if word not in ("--out", str(out))]
        self.out = out or ROOT / "benchmarks" / "results" / f"{about['name']}.json"
        self.content: Row = {
            "command": shlex.join(["python", f"benchmarks/{script}", *said]),
            **surroundings(),
            **about,
            "results": [],
        }

    @staticmethod
    def of_shape(
        script: str, arguments: argparse.Namespace, words: Sequence[str], shape: Row, peak: float,
        about: Row,
    ) -> "Report":  # fmt: skip
        """Begin the report of a script on a shape, `peak` being what square matmuls reach."""
        device = choose_device(arguments.device)
        known = {
            "name": f"{script}-{arguments.shape}-{device.type}",
            "device": device.type,
            "dtype": str(choose_dtype("auto", device)).removeprefix("torch."),
            "shape": shape,
            "matmul_tflops": peak,
        }
        progress(f"square matmuls reach {peak:.3g} TFLOP/s; weights of {arguments.shape}")
        return Report(f"{script}.py", words, arguments.out, known | about)

    def add(self, row: Row) -> None:
        """Add a row and write the file."""
        self.content["results"].append(row)
        self.content["seconds_in_all"] = time.perf_counter() - STARTED
        self.out.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.out, json.dumps(self.content, indent=2) + "\n")

    def show(self) -> None:
        """Print the table with its surroundings and notes."""
        report = self.content
        print_table([{k: v for k, v in row.items() if k != "seconds"} for row in report["results"]])
        if "matmul_tflops" in report:
            peak = f"{report['matmul_tflops']:.3g} TFLOP/s in {report['dtype']}"
            print(f"square matmuls reach {peak}")
        versions = ", ".join(f"{k} {v}" for k, v in report["versions"].items())
        print(report["hardware"])
        print(versions, "commit", report["commit"])
        for note in report["notes"]:
            print(f"- {note}")
        print(f"written to {self.out}")


def print_table(rows: Sequence[Row]) -> None:
    """Print rows of the same columns below their names."""
    shown = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in r.values()] for r in rows]
    cells = [list(rows[0]), *shown]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def progress(what: str) -> None:
    """Say what happens now, and after how many seconds."""
    print(f"{time.perf_counter() - STARTED:.1f} s: {what}", file=sys.stderr, flush=True)


def surroundings() -> Row:
    """Return what the numbers depend on besides the code."""
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    versions = {"remask": ours, "python": platform.python_version()}
    versions |= {p: importlib.metadata.version(p) for p in ("torch", "numpy", "tokenizers")}
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
        versions["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    return {"hardware": hardware(), "versions": versions, "commit": commit()}
