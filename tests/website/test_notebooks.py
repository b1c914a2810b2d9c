"""Notebooks become pages, and are compared by what they print."""

import base64
import json
from pathlib import Path
from typing import Any

import notebook_page  # type: ignore[import-not-found]
import notebooks  # type: ignore[import-not-found]
import pytest

TUTORIALS = sorted((Path(__file__).resolve().parents[2] / "docs" / "tutorials").glob("*.ipynb"))
PICTURE = base64.b64encode(b"a picture").decode()


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": list(outputs)}


def stream(text: str | list[str]) -> dict[str, Any]:
    return {"output_type": "stream", "text": text}


def test_a_page_has_text_code_outputs_and_pictures() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Some text."]},
        code("print(1)", stream(["\x1b[31m1\x1b[0m\n", "```\n"])),
        code("draw()", {"data": {"image/png": PICTURE, "text/plain": "<Figure>"}}),
        code("quiet()"),
    ]
    page, pictures = notebook_page.page_of({"cells": cells}, "first.ipynb")
    assert pictures == {"first-1.png": b"a picture"}
    assert "# Title\nSome text.\n" in page
    assert "```python\nprint(1)\n```\n" in page
    assert "````text\n1\n```\n````\n" in page  # the fence is longer than the one that was printed
    assert "(first-1.png)" in page
    assert "<Figure>" not in page
    assert "(first.ipynb)" in page


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("right: 0.93 +- 0.03", "right: 0.94 +- 0.03", True),
        ("right: 0.93", "right: 0.90", False),
        ("right: 0.93", "wrong: 0.93", False),
        ("64 passes", "64 passes", True),
        ("64 passes", "48 passes", False),
        ("1 2", "1", False),
    ],
)
def test_words_are_compared_exactly_and_numbers_up_to_rounding(
    ours: str, theirs: str, same: bool
) -> None:
    assert notebooks.alike(ours, theirs) is same


def test_a_cell_that_prints_something_else_is_named() -> None:
    before = {"cells": [code("a", stream("1\n")), code("b", stream("two\n"))]}
    after = {"cells": [code("a", stream("1\n")), code("b", stream("three\n"))]}
    assert notebooks.differences(before, before) == []
    assert notebooks.differences(before, after) == [
        "cell 1 prints 'three\\n', the notebook shows 'two\\n'."
    ]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_a_tutorial_was_run_from_top_to_bottom(path: Path) -> None:
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(output["output_type"] != "error" for cell in cells for output in cell["outputs"])
    assert sum(bool(cell["outputs"]) for cell in cells) > len(cells) / 2
    assert path.stat().st_size < 200_000


def test_the_tutorials_are_there() -> None:
    assert [path.stem for path in TUTORIALS] == ["solve", "study", "verify"]
