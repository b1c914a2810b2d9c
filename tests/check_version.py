"""Fail unless pyproject.toml, CITATION.cff and the top of CHANGELOG.md are of one release."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_TOP = re.compile(r"^## \[([^\]]+)\] - (\S+)$", re.MULTILINE)


def misfit(root: Path) -> str:
    """Return what two of the files say differently; nothing where all agree."""
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    top = _TOP.search((root / "CHANGELOG.md").read_text())
    version, day = top.groups() if top else ("nothing", "nothing")
    if version != declared:
        return f"pyproject.toml says {declared}, the top of CHANGELOG.md says {version}."
    citation = (root / "CITATION.cff").read_text()
    for field, known in (("version", version), ("date-released", day)):
        said = re.search(rf'^{field}: "?([^"\s]+)"?$', citation, re.MULTILINE)
        if said is None or said[1] != known:
            told = said[1] if said else "nothing"
            return f"{field} of CITATION.cff is {told}, the top of CHANGELOG.md says {known}."
    return ""


if __name__ == "__main__":
    sys.exit(misfit(ROOT) or None)
