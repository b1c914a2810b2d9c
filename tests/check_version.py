"""Fail unless pyproject.toml and the top heading of CHANGELOG.md name the same version."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    top = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    if top is None or top[1] != declared:
        heading = top[1] if top else "nothing"
        sys.exit(f"pyproject.toml says {declared}, the top of CHANGELOG.md says {heading}.")


if __name__ == "__main__":
    main()
