"""A dead link, a lost anchor and a foreign host are found in a built site."""

from pathlib import Path

import check_site  # type: ignore[import-not-found]
import pytest

PAGE = '<h1 id="top">A</h1><a href="b.html#there">b</a><img src="a.png"><script src="a.js">'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "a.html").write_text(PAGE)
    (tmp_path / "b.html").write_text(
        '<p id="there">1.5<!--fig:a/b--></p><a href="https://arxiv.org/"></a><a href="a.html#top">'
    )
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "a.js").write_text("")
    (tmp_path / "a.css").write_text("p { background: url(a.png) url(data:image/png;base64,AA) }")
    return tmp_path


def test_a_site_that_is_whole_has_no_fault(site: Path) -> None:
    assert check_site.faults(site) == []


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('<a href="gone.html">', "c.html: gone.html leads to no file."),
        ('<a href="b.html#lost">', "c.html: b.html#lost names no element of b.html."),
        ('<a href="#lost">', "c.html: #lost names no element of c.html."),
        ('<img src="gone.png">', "c.html: gone.png leads to no file."),
        ('<a href="/b.html">', "c.html: /b.html is absolute; "
         "the site may lie in a folder of its host."),
        ('<script src="https://cdn.org/x.js"></script>', "c.html: loads https://cdn.org/x.js."),
        ('<link rel="stylesheet" href="//fonts.org/x.css">', "c.html: loads //fonts.org/x.css."),
        ('<p style="background: url(https://x.org/a.png)">', "c.html: loads https://x.org/a.png."),
        ("<p>1.5&lt;!--fig:a/b--&gt;</p>", "c.html: a mark of a figure can be seen."),
    ],
)  # fmt: skip
def test_a_fault_is_named(site: Path, content: str, fault: str) -> None:
    (site / "c.html").write_text(content)
    assert check_site.faults(site) == [fault]


def test_style_sheets_are_looked_into(site: Path) -> None:
    (site / "a.css").write_text('@import "https://fonts.org/x.css";')
    assert check_site.faults(site) == ["a.css: loads https://fonts.org/x.css."]


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert "has no pages" in check_site.faults(tmp_path)[0]
