"""Every measured number on a page is the number in docs/figures.json.

The convention: the number, then the marker, with nothing between them.

    AUROC 0.93<!--fig:diagnosis/wordmath-hard/roundtrips/auroc-->     the value, rounded as shown
    93.1 %<!--fig:accuracy/wordmath-->                                a share in 0..1, times 100
    1.2<!--fig:cpu/verify_seconds--> s                                the unit comes after

Markers inside code are examples, not quotations, and are left alone.
"""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from studies.shared.figures import promised, quoted_in_docs

ROOT = Path(__file__).resolve().parent.parent

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIELDS = {"value", "unit", "run"}
OPTIONAL = {"low", "high", "n"}
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"<!--\s*fig:(.*?)-->")
NUMBER = re.compile(r"([-−+]?\d+(?:,\d{3})*(?:\.(\d+))?)( ?%)?$")


def disagreements(page: str, figures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one sentence per marker of the page that its figure does not bear out."""
    text = CODE.sub("", page)
    found = []
    for marker in MARKER.finditer(text):
        name = marker[1].strip()
        shown = NUMBER.search(text[: marker.start()].rpartition("\n")[2])
        if name not in figures:
            found.append(f"{name} is not in figures.json.")
        elif shown is None:
            found.append(f"{name} has no number right before its marker.")
        elif not agrees(shown, float(figures[name]["value"])):
            found.append(f"{name} is {figures[name]['value']}, the page says {shown[0]}.")
    return found


def agrees(shown: re.Match[str], value: float) -> bool:
    """Say whether `value` rounds to the number shown; halves may go either way."""
    number = float(shown[1].replace("−", "-").replace(",", ""))
    half = 0.5 * 10.0 ** -len(shown[2] or "")
    return abs(number - (100 * value if shown[3] else value)) <= half * (1 + 1e-6)


def faults(name: str, figure: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with one entry of figures.json."""
    if not FIELDS <= set(figure) <= FIELDS | OPTIONAL:
        return [f"{name}: fields {sorted(set(figure) ^ FIELDS)} are missing or unknown."]
    found = []
    numbers = [figure[key] for key in ("low", "value", "high") if key in figure]
    if not all(is_number(x) for x in numbers):
        return [f"{name}: value, low and high must be finite numbers."]
    if numbers != sorted(numbers):
        found.append(f"{name}: low <= value <= high does not hold.")
    if "n" in figure and (type(figure["n"]) is not int or figure["n"] < 1):
        found.append(f"{name}: n must be a positive integer.")
    if not is_text(figure["unit"]):
        found.append(f"{name}: unit must be a non-empty string.")
    return found


def is_number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def is_text(x: object) -> bool:
    return isinstance(x, str) and x.strip() != ""


def read_document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "docs" / "figures.json").read_text())
    return document


def read_figures() -> dict[str, dict[str, Any]]:
    figures: dict[str, dict[str, Any]] = read_document()["figures"]
    return figures


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_number_quoted_on_a_page_is_the_measured_one(page: Path) -> None:
    assert disagreements(page.read_text(), read_figures()) == []


def test_every_figure_says_how_it_was_measured() -> None:
    assert [
        fault for name, figure in read_figures().items() for fault in faults(name, figure)
    ] == []


def test_every_run_is_complete_and_has_figures() -> None:
    document = read_document()
    assert set(document) == {"version", "runs", "figures"}
    assert document["version"] == 3
    runs = document["runs"]
    assert set(runs) == {figure["run"] for figure in document["figures"].values()}
    for run in runs.values():
        assert set(run) == {"command", "commit", "hardware"}
        assert all(map(is_text, run.values()))


def test_every_figure_is_quoted_on_a_page_or_listed_as_kept() -> None:
    names = set(read_figures())
    assert names - quoted_in_docs() - promised(names) == set()


def test_the_file_has_one_line_per_figure_and_is_small() -> None:
    text = (ROOT / "docs" / "figures.json").read_text()
    document = read_document()
    assert text.count("\n") == len(document["runs"]) + len(document["figures"]) + 5
    assert len(text) <= 500_000


def displayed(page: Path) -> list[str]:
    """Return the lines of a page as a reader sees them: markers are comments."""
    return MARKER.sub("", page.read_text()).splitlines()


@pytest.mark.parametrize(
    ("page", "lines", "characters"), [("README.md", 120, 160), ("docs/results.md", 300, 160)]
)
def test_a_page_is_short_enough_to_be_read(page: str, lines: int, characters: int) -> None:
    shown = displayed(ROOT / page)
    assert len(shown) <= lines
    assert [line for line in shown if len(line) > characters] == []


FIGURES = {"a/auroc": {"value": 0.9342}, "eff": {"value": -1.25}, "forwards": {"value": 12345.0}}


@pytest.mark.parametrize(
    "page",
    [
        "AUROC 0.934<!--fig:a/auroc-->, or **0.93<!--fig:a/auroc-->**",
        "93.4 %<!--fig:a/auroc--> and 93%<!--fig:a/auroc-->",
        "-1.2<!--fig:eff-->, -1.3<!--fig:eff-->, −1.25<!--fig:eff--> points",
        "12,345<!--fig:forwards--> forwards",
        "write `0.5<!--fig:none-->`\n```\n0.5<!--fig:none-->\n```\n",
        "no marker, no claim: 0.5",
    ],
)
def test_a_page_that_rounds_rightly_is_let_through(page: str) -> None:
    assert disagreements(page, FIGURES) == []


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("0.94<!--fig:a/auroc-->", "a/auroc is 0.9342, the page says 0.94."),
        ("93.5 %<!--fig:a/auroc-->", "a/auroc is 0.9342, the page says 93.5 %."),
        ("0.93 %<!--fig:a/auroc-->", "a/auroc is 0.9342, the page says 0.93 %."),
        ("1.25<!--fig:eff-->", "eff is -1.25, the page says 1.25."),
        ("0.9<!--fig:a/aurocs-->", "a/aurocs is not in figures.json."),
        ("0.93 s<!--fig:a/auroc-->", "a/auroc has no number right before its marker."),
        ("0.93\n<!--fig:a/auroc-->", "a/auroc has no number right before its marker."),
    ],
)
def test_a_page_that_disagrees_or_names_the_unknown_is_caught(page: str, complaint: str) -> None:
    assert disagreements(page, FIGURES) == [complaint]


GOOD = {"value": 0.9, "low": 0.8, "high": 0.95, "n": 1000, "unit": "share", "run": "bench"}


@pytest.mark.parametrize("absent", [(), ("low", "high", "n")])
def test_a_complete_figure_has_no_faults(absent: tuple[str, ...]) -> None:
    assert faults("x", {key: value for key, value in GOOD.items() if key not in absent}) == []


@pytest.mark.parametrize(
    "change",
    [
        {"value": None}, {"value": float("nan")}, {"value": "0.9"}, {"low": 0.91}, {"high": 0.89},
        {"n": 0}, {"n": 1.5}, {"unit": ""}, {"low": None}, {"extra": 1},
    ],
)  # fmt: skip
def test_a_figure_with_a_fault_is_refused(change: dict[str, Any]) -> None:
    assert len(faults("x", GOOD | change)) == 1


def test_a_figure_that_lacks_a_field_is_refused() -> None:
    assert len(faults("x", {k: v for k, v in GOOD.items() if k != "run"})) == 1
