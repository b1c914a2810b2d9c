"""The browser that is driven: without one, a sentence says what to install."""

from pathlib import Path

import pytest
from serving import chromium


def test_a_missing_browser_is_told_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chromium, "CHROMIUM", "no-such-browser")
    with pytest.raises(FileNotFoundError, match=r"no-such-browser is not installed: apt-get"):
        chromium.Chromium(tmp_path)
