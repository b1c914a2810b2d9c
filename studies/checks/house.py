"""Count the lines and files of Python in src, studies and benchmarks.

    python -m studies.checks.house
    python -m studies.checks.house --figures docs/figures.json --commit SHA --hardware "2 cores"

With --figures the numbers are also written into architecture.md.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.shared.figures import ROOT, figure_of, parse, save

FOLDERS = ("src", "studies", "benchmarks")
BEFORE = 43_037  # lines at 0c361e8, before the packages were drawn anew


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
    save(arguments, figures, "house", "python -m studies.checks.house")
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
