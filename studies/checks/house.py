"""Count the lines and files of Python that git tracks.

    python -m studies.checks.house
    python -m studies.checks.house --figures docs/figures.json --commit SHA --hardware "2 cores"

With --figures the numbers are also written into architecture.md.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.shared.figures import ROOT, figure_of, parse, save


def main(words: Sequence[str]) -> None:
    """Count, print, and merge into a figures.json where one is named."""
    arguments = parse(argparse.ArgumentParser(description=__doc__), words)
    listing = subprocess.check_output(["git", "ls-files", "*.py"], cwd=ROOT, text=True)
    lines = {
        name: len((ROOT / name).read_text("utf-8").splitlines()) for name in listing.splitlines()
    }
    total = sum(lines.values())
    in_src = sum(count for name, count in lines.items() if name.startswith("src/"))
    print(f"{len(lines)} files, {total:,} lines, {in_src:,} of them in src")
    figures = {
        "house/files": figure_of(len(lines), "Python files"),
        "house/lines": figure_of(total, "lines of Python"),
        "house/src_lines": figure_of(in_src, "lines of Python in src"),
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
