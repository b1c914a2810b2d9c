"""docs/figures.json on disk: runs and figures, one line each; what a script may store."""

import json
from pathlib import Path

import pytest

from remask.errors import RecordError
from studies.shared.figures import merge, promised, quoted, read, select

RUN = {"run": "study", "command": "do", "commit": "abc", "hardware": "two cores"}
ROW = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 9, "unit": "share", **RUN}


def test_figures_are_read_back_with_the_fields_of_their_run(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    merge(path, {"b": ROW, "a": {**ROW, "low": None, "high": None, "n": None}})
    assert read(path) == {"a": {**ROW, "low": None, "high": None, "n": None}, "b": ROW}
    document = json.loads(path.read_text())
    assert document["figures"]["a"] == {"value": 0.5, "unit": "share", "run": "study"}
    assert document["runs"] == {"study": {key: RUN[key] for key in list(RUN)[1:]}}


def test_a_run_at_another_commit_has_a_key_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    merge(path, {"a": ROW, "b": ROW})
    merge(path, {"b": {**ROW, "commit": "def"}})
    assert {name: (row["run"], row["commit"]) for name, row in read(path).items()} == {
        "a": ("study", "abc"), "b": ("study#2", "def"),
    }  # fmt: skip
    merge(path, {"a": {**ROW, "commit": "def"}})
    assert list(json.loads(path.read_text())["runs"]) == ["study"], "one run is left"


def test_owned_figures_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    merge(path, {"a/old": ROW, "b/old": ROW})
    merge(path, {"a/new": ROW}, owned=("a/",))
    assert set(read(path)) == {"a/new", "b/old"}


def test_only_figures_that_somebody_looks_for_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    merge(path, {"old/figure": ROW})
    names = ("old/figure", "on/a/page", "house/lines", "nobody/looks")
    page = "0.5<!--fig:on/a/page-->, but `0.5<!--fig:nobody/looks-->` is code"
    assert set(select(dict.fromkeys(names, ROW), path, page)) == set(names[:3])


@pytest.mark.parametrize(
    ("name", "is_promised"),
    [
        ("grading/arc/gold", True), ("grading/arc/other", False), ("grading/gold", False),
        ("real/diagnosis/svamp/roundtrips_minus_vote/auroc", True),
    ],
)  # fmt: skip
def test_a_promised_name_can_have_choices_and_wildcards(name: str, is_promised: bool) -> None:
    assert (promised([name]) == {name}) is is_promised


def test_markers_inside_code_are_examples() -> None:
    assert quoted("1<!--fig:a--> `2<!--fig:b-->`", "```\n3<!--fig:c-->\n```\n") == {"a"}


def test_other_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text('{"version": 2, "commands": {}, "figures": {}}')
    with pytest.raises(RecordError, match="version must be 3, got 2"):
        read(path)
