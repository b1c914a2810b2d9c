"""What is released, and when: three files say it, and say the same."""

from pathlib import Path

import pytest
from check_version import ROOT, misfit  # type: ignore[import-not-found]

FILES = {
    "pyproject.toml": '[project]\nversion = "1.2.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## [1.2.0] - 2026-01-02\n\n## [1.1.0] - 2025-01-01\n",
    "CITATION.cff": 'cff-version: 1.2.0\nversion: 1.2.0\ndate-released: "2026-01-02"\n',
}


def test_this_release_is_told_in_one_way() -> None:
    assert misfit(ROOT) == ""


@pytest.mark.parametrize(
    ("name", "old", "new", "sentence"),
    [
        ("CITATION.cff", "", "", ""),
        ("pyproject.toml", "1.2.0", "1.3.0", "pyproject.toml says 1.3.0, the top of CHANGELOG.md"),
        ("CITATION.cff", "\nversion: 1.2.0", "", "version of CITATION.cff is nothing, the top"),
        ("CITATION.cff", "-02", "-03", "date-released of CITATION.cff is 2026-01-03, the top of"),
    ],
)
def test_what_two_files_say_differently_is_told(
    tmp_path: Path, name: str, old: str, new: str, sentence: str
) -> None:
    for file, content in FILES.items():
        (tmp_path / file).write_text(content.replace(old, new) if file == name and old else content)
    found = misfit(tmp_path)
    assert found.startswith(sentence)
    assert bool(found) == bool(sentence)
