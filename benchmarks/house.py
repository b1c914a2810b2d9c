"""How large the code is, and how many files a reader opens to follow one call.

    python benchmarks/house.py
    python benchmarks/house.py --figures docs/figures.json --commit SHA --hardware "2 cores"

Lines and files are those of Python in src, experiments and benchmarks. Hops are counted by
tests/test_hops.py: files that one verification enters (`score`), one collected problem before the
core (`collect`), and one POST /v1/verify of the server's own (`verify`).
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lib.figures import figure_of, parse, save

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "experiments", "benchmarks")
BEFORE = 43_037  # lines at 0c361e8, before the packages were drawn anew
TESTS = {  # a word in the name of the test that counts -> the figure, and what is counted
    "verification": ("score", "files of src/remask entered by one verification"),
    "collected": ("collect", "files entered by one collected problem before the core"),
    "request": ("verify", "files of serve entered by one POST /v1/verify"),
}


class Hops:
    """A pytest plugin that keeps what the tests count."""

    def __init__(self) -> None:
        self.files: dict[str, set[str]] = {}  # by figure

    def pytest_runtest_setup(self, item: Any) -> None:
        """Listen to the counter of a test."""
        word = next((word for word in TESTS if word in item.name), None)
        if word is not None:
            item.module.files_entered = self._listen(item.module.files_entered, TESTS[word][0])

    def _listen(self, count: Callable[..., set[str]], name: str) -> Callable[..., set[str]]:
        def counted(*arguments: Any, **options: Any) -> set[str]:
            self.files[name] = count(*arguments, **options)
            return self.files[name]

        return counted


def count_hops() -> dict[str, set[str]]:
    """Return the files that each of the three calls enters."""
    hops = Hops()
    words = ["-q", "-n", "0", "-p", "no:cacheprovider", str(ROOT / "tests" / "test_hops.py")]
    if pytest.main(words, plugins=[hops]) != 0:
        raise SystemExit("house.py: tests/test_hops.py fails.")
    return hops.files


def main(words: Sequence[str]) -> None:
    """Count, print, and merge into a figures.json where one is named."""
    arguments = parse(argparse.ArgumentParser(description=__doc__), words)
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in paths)
    print(f"{len(paths)} files, {lines:,} lines: {lines / BEFORE:.3f} of {BEFORE:,}")
    figures = {
        "house/files": figure_of(len(paths), "Python files"),
        "house/lines": figure_of(lines, f"lines of Python; {BEFORE} at 0c361e8"),
    }
    units = dict(TESTS.values())
    for name, files in count_hops().items():
        print(f"{name}: {len(files)} files: {', '.join(sorted(files))}")
        figures[f"house/hops/{name}"] = figure_of(len(files), units[name])
    save(arguments, figures, "house", "python benchmarks/house.py")


if __name__ == "__main__":
    main(sys.argv[1:])
