"""The figures that README and docs quote, docs/figures.json: how the scripts write to it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remask.denoisers.save import write_text


def merge(path: Path, new: Mapping[str, Mapping[str, Any]], owned: tuple[str, ...] = ()) -> None:
    """Write figures over those of the same names, and leave the others.

    Older ones whose names begin with `owned` go: a script that measures all of them would otherwise
    leave behind what it does not measure any more.
    """
    known = json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else {}
    others = {name: figure for name, figure in known.items() if not name.startswith(owned)}
    both = dict(sorted({**others, **new}.items()))
    write_text(path, json.dumps({"figures": both}, indent=2) + "\n")
