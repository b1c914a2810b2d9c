"""The pages in docs are made from docs/figures.json alone."""

from pathlib import Path

import pytest

from studies.frontier import page as frontier_page
from studies.language import __main__ as real_study
from studies.paper import measure as results

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the three pages, made anew."""
    results.main(["page", "--page", str(tmp_path / "results.md")])
    real_study.main(["page", "--page", str(tmp_path / "real.md")])
    monkeypatch.setattr(frontier_page, "PAGE", tmp_path / "frontier.md")
    monkeypatch.setattr(frontier_page, "PICTURE", tmp_path / "frontier.svg")
    frontier_page.write_page()
    return tmp_path


def test_pages_are_reproduced_byte_for_byte(made: Path) -> None:
    for name in ("results.md", "real.md", "frontier.md"):
        assert (made / name).read_bytes() == (DOCS / name).read_bytes()
