"""How large the code is, and how many files a reader opens to follow one call.

    python benchmarks/house.py
    python benchmarks/house.py --figures docs/figures.json --commit SHA --hardware "2 cores"

Lines and files are those of Python in src, experiments and benchmarks. Hops are counted by
tests/test_hops.py: files that one verification enters (`score`), one collected problem before the
core (`collect`), and one POST /v1/verify of the server's own (`verify`). With --figures the page
beside them, architecture.md, gets the numbers too.
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
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
        self._name = ""
        self._count: Callable[..., set[str]] | None = None  # of the tests

    def pytest_runtest_setup(self, item: Any) -> None:
        """Listen to the counter of the tests, and note whose turn it is."""
        self._name = next(name for word, (name, _) in TESTS.items() if word in item.name)
        if self._count is None:
            self._count, item.module.files_entered = item.module.files_entered, self._listen

    def _listen(self, *arguments: Any, **options: Any) -> set[str]:
        assert self._count is not None
        self.files[self._name] = self._count(*arguments, **options)
        return self.files[self._name]


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
    if arguments.figures:
        quote(arguments.figures.with_name("architecture.md"), figures)


def quote(page: Path, figures: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the numbers into the page that quotes them."""
    text = page.read_text("utf-8")
    for name, figure in figures.items():
        text = re.sub(rf"[\d,]+(?=<!--fig:{name}-->)", f"{figure['value']:,}", text)
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
