"""JSON lines: what is written is read again, whatever a kill leaves behind."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remask.errors import RecordError
from remask.records import jsonl

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=5,
)
ROWS = st.lists(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), VALUES), max_size=4
)
IN_ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@IN_ONE_FOLDER
@given(ROWS, ROWS)
def test_appended_rows_are_read_again(
    tmp_path: Path, first: list[dict[str, Any]], second: list[dict[str, Any]]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.unlink(missing_ok=True)
    jsonl.append(path, first)
    jsonl.append(path, second)
    assert list(jsonl.read(path)) == first + second


def test_letters_stay_letters(tmp_path: Path) -> None:
    jsonl.append(tmp_path / "rows.jsonl", [{"text": "é漢"}])
    assert (tmp_path / "rows.jsonl").read_text(encoding="utf-8") == '{"text": "é漢"}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_json_has_no_word_for_is_refused(tmp_path: Path, value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsonl.append(tmp_path / "rows.jsonl", [{"ok": 1}, {"value": value}])
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"a": 1}\n{"a": \n', "line 2 is not valid JSON"),
        ('{"a": 1}\n\n\n"text"\n', "line 4 is not a JSON object"),
    ],
)
def test_a_broken_line_is_named_by_its_number(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(RecordError, match=sentence):
        list(jsonl.read(path))


def test_empty_lines_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('\n{"a": 1}\n \n{"a": 2}')
    assert list(jsonl.read(path)) == [{"a": 1}, {"a": 2}]


def test_rows_come_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"a": 1}) + "\nbroken\n")
    assert next(jsonl.read(path)) == {"a": 1}


def test_an_interrupted_write_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.json"
    jsonl.write_text(path, "old")

    def crash(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        jsonl.write_text(path, "new")
    assert path.read_text() == "old"
