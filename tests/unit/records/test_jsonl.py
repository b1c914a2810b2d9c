"""JSON lines: what is written is read again, whatever a kill leaves behind."""

import json
import os
import subprocess
import sys
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


@IN_ONE_FOLDER
@given(ROWS.filter(len), st.data())
def test_whatever_a_kill_cuts_off_whole_rows_remain(
    tmp_path: Path, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    path = tmp_path / "rows.jsonl"
    path.unlink(missing_ok=True)
    jsonl.append(path, rows)
    whole = path.read_bytes()
    kept = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:kept])
    count = jsonl.recover(path)
    assert count == whole[:kept].count(b"\n")
    assert list(jsonl.read(path)) == rows[:count]


def test_recovering_a_missing_file_finds_nothing(tmp_path: Path) -> None:
    assert jsonl.recover(tmp_path / "none.jsonl") == 0
    assert not (tmp_path / "none.jsonl").exists()


def test_a_whole_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n')
    assert jsonl.recover(path) == 2
    assert path.read_bytes() == b'{"a": 1}\n{"a": 2}\n'


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
        ('{"a": 1}\n\n\n"text"\n', "line 4 is no JSON object"),
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


def test_a_group_that_is_not_whole_is_cut_off(tmp_path: Path) -> None:
    """Five rows in groups of two and half a line: two groups, four rows, stay."""
    path = tmp_path / "r.jsonl"
    jsonl.append(path, [{"n": n} for n in range(5)])
    with path.open("a") as file:
        file.write('{"n": ')
    assert jsonl.recover(path, group=2) == 2
    assert [row["n"] for row in jsonl.read(path)] == [0, 1, 2, 3]


def test_a_file_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "records.jsonl"
    script = (
        "import sys, pathlib\nfrom remask.records import jsonl\n"
        "with jsonl.alone(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    with (
        pytest.raises(RecordError, match="is being written by another process"),
        jsonl.alone(out),
    ):
        pass
    other.kill()
    other.communicate()
    with jsonl.alone(out):
        jsonl.append(out, [{"id": 1}])
    assert list(jsonl.read(out)) == [{"id": 1}]


def test_a_hold_leaves_no_empty_file(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    with pytest.raises(ValueError, match="broken"), jsonl.alone(out):
        raise ValueError("broken")
    assert not out.exists()


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
