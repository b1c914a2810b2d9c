"""The section on real words: every number has its marker, and without its figures there is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quotation import wrapped
from realstudy.lesson import lesson
from test_figures import ROOT, disagreements

from remask.analysis.figure import Figure, parse


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    entries = json.loads((ROOT / "docs" / "figures.json").read_text())["figures"]
    return {name: parse(name, row) for name, row in entries.items()}


def test_every_number_is_quoted_and_lines_are_short(figures: dict[str, Figure]) -> None:
    text = lesson(figures)
    entries = json.loads((ROOT / "docs" / "figures.json").read_text())["figures"]
    assert text.startswith("## What real words teach\n\n")
    assert text.count("<!--fig:real/") >= 20
    assert disagreements(text, entries) == []
    assert text in (ROOT / "docs" / "results.md").read_text()


def test_where_a_figure_is_missing_nothing_is_said(figures: dict[str, Figure]) -> None:
    assert lesson({}) == ""
    some = {name: f for name, f in figures.items() if name != "real/gsm8k/accuracy"}
    assert lesson(some) == ""


def test_lines_are_as_long_as_a_reader_sees_them() -> None:
    text = "It is 0.5<!--fig:a/b--> and 4 %<!--fig:c/d--> of all."
    assert wrapped(text, 9) == "It is 0.5<!--fig:a/b-->\nand 4 %<!--fig:c/d-->\nof all."
    assert wrapped(text, 1000) == text


@given(st.lists(st.sampled_from(["a", "word", "1.5<!--fig:x-->", "longer"]), min_size=1))
def test_wrapping_changes_nothing_but_where_lines_end(words: list[str]) -> None:
    lines = wrapped(" ".join(words), 12).split("\n")
    assert " ".join(lines).split() == words
    assert all(len(line.replace("<!--fig:x-->", "")) <= 12 for line in lines)
