"""Run the notebooks of docs/tutorials: do they still print what they show?

    python website/notebooks.py            # run them, compare what they print; nothing is written
    python website/notebooks.py --write    # run them and keep what they print

Words must be the same, numbers may differ in their last digits, as on another processor.
"""

import argparse
import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from notebook_page import printed

TUTORIALS = Path(__file__).resolve().parent.parent / "docs" / "tutorials"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
SECONDS = 3600  # for one cell: only a defect takes that long


def outputs(notebook: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield what each code cell printed, in one text; pictures are not compared."""
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            shown = [o for o in cell["outputs"] if "image/png" not in o.get("data", {})]
            yield number, "".join(printed(output) for output in shown)


def alike(ours: str, theirs: str) -> bool:
    """Say whether two texts have the same words, and numbers that differ by rounding alone."""
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        return False
    pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.01, abs_tol=0.011) for a, b in pairs)


def differences(committed: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each cell that printed something else than it shows."""
    return [
        f"cell {number} prints {now!r}, the notebook shows {before!r}."
        for (number, before), (_, now) in zip(outputs(committed), outputs(run), strict=True)
        if not alike(before, now)
    ]


def execute(path: Path) -> tuple[Any, Any]:
    """Return a notebook as it is, and as it is after all of its cells were run."""
    import nbformat
    from nbclient import NotebookClient

    committed = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    NotebookClient(run, timeout=SECONDS, kernel_name="python3", resources=folder).execute()
    for cell in run.cells:
        cell.metadata.pop("execution", None)  # the times of the day
    return committed, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="Keep what the notebooks print.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="All of docs/tutorials by default.")
    given = parser.parse_args()
    wrong = []
    for path in given.notebooks or sorted(TUTORIALS.glob("*.ipynb")):
        committed, run = execute(path)
        if given.write:
            import nbformat

            nbformat.write(run, path)
        else:
            wrong += [f"{path.name}: {sentence}" for sentence in differences(committed, run)]
    if wrong:
        sys.exit("\n".join([*wrong, "If that is right: python website/notebooks.py --write"]))


if __name__ == "__main__":
    main()
