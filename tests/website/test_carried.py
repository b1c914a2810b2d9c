"""Links lead on the site where they lead in the repository."""

from pathlib import Path

import carried  # type: ignore[import-not-found]
import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("page", "target", "on_site"),
    [
        ("README.md", "docs/models.md#presets", "models.md#presets"),
        ("README.md", "docs/images/race.png", "images/race.png"),
        ("README.md", "LICENSE", "repository/LICENSE.md"),
        ("docs/alignment.md", "../examples/a.yaml", "repository/examples/a.yaml.md"),
        ("docs/models/a2d.md", "../models.md#presets", "../models.md#presets"),
        ("docs/models/a2d.md", "../../README.md", "../index.md"),
        ("docs/quickstart.md", "tutorials/solve.ipynb", "tutorials/solve.md"),
        ("docs/release-0.2.0.md", "../CHANGELOG.md", "changelog.md"),
        ("CHANGELOG.md", "docs/concepts.md#rivals", "concepts.md#rivals"),
        ("README.md", "https://arxiv.org/abs/2604.16565", "https://arxiv.org/abs/2604.16565"),
        ("docs/extending.md", "#a-metric", "#a-metric"),
    ],
)
def test_a_link_is_moved(page: str, target: str, on_site: str) -> None:
    assert carried.for_site(f"see [it]({target}).", page) == f"see [it]({on_site})."


def test_code_is_left_as_it_is() -> None:
    text = "```python\nx = '[a](docs/b.md)'\n- 1\n```\nand `[a](docs/b.md)`"
    assert carried.for_site(text, "README.md") == text


def test_a_word_behind_the_language_of_a_block_goes() -> None:
    assert carried.for_site("```bash no-run\nmake demo\n```", "README.md").startswith("```bash\n")


def test_a_list_gets_the_empty_line_that_it_needs() -> None:
    text = "They are:\n- one\n  of two lines\n- two\n\nand\n\n- three"
    wanted = "They are:\n\n- one\n  of two lines\n- two\n\nand\n\n- three"
    assert carried.for_site(text, "docs/a.md") == wanted


def test_files_that_pages_link_to_are_carried(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "a.yaml").write_text("a: 1\n")
    pages = {
        "README.md": "[a](docs/a.md) [gone](nowhere.md) [b](https://b.org/examples/a.yaml)",
        "docs/a.md": "[config](../examples/a.yaml) [back](../README.md) `[x](../examples/b.yaml)`",
    }
    assert carried.to_carry(pages, tmp_path) == {"examples/a.yaml"}
    assert carried.as_page("examples/a.yaml", "a: 1\n").splitlines()[2:5] == [
        "````yaml", "a: 1", "````",
    ]  # fmt: skip


@given(st.text(alphabet=st.characters(exclude_characters="[]()`-\n"), max_size=200))
def test_prose_without_links_stays(text: str) -> None:
    assert carried.for_site(text, "docs/a.md") == text
