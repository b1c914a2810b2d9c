"""The figures that README and docs quote, docs/figures.json: how the scripts write to it."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from remask.records.jsonl import write_text

FIGURES = Path(__file__).resolve().parent.parent / "docs" / "figures.json"


def merge(path: Path, new: Mapping[str, Mapping[str, Any]], owned: tuple[str, ...] = ()) -> None:
    """Write figures over those of the same names, and leave the others.

    Older ones whose names begin with `owned` go: a script that measures all of them would otherwise
    leave behind what it does not measure any more.
    """
    known = json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else {}
    others = {name: figure for name, figure in known.items() if not name.startswith(owned)}
    both = dict(sorted({**others, **new}.items()))
    write_text(path, json.dumps({"figures": both}, indent=2) + "\n")


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Return the command line of a script that can write figures, with the flags for that.

    Whoever quotes a figure wants to know what was measured, and on what.
    """
    parser.add_argument("--figures", type=Path, help="figures.json to merge the results into")
    parser.add_argument("--commit", help="commit that was measured")
    parser.add_argument("--hardware", help="what it was measured on")
    found = parser.parse_args(words)
    if found.figures and not (found.commit and found.hardware):
        parser.error("--figures needs --commit and --hardware.")
    return found


def origin(arguments: argparse.Namespace, command: str) -> dict[str, str]:
    """Return what every figure says of its origin."""
    return {"command": command, "hardware": arguments.hardware, "commit": arguments.commit}
