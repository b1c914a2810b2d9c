"""Text and JSON that others wrote: read alike, or refused with the file and the reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.errors import InputError, RecordError
from remask.records import jsonl, text_file

MARK = b"\xef\xbb\xbf"
OBJECTS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none())


@given(OBJECTS)
def test_a_mark_before_it_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, found: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.json"
    path.write_bytes(MARK + json.dumps(found).encode())
    assert text_file.read_object(path, "write it again") == found


def test_a_mark_before_records_and_text_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(MARK + b'{"a": 1}\n{"a": 2}\n')
    assert list(jsonl.read(tmp_path / "a.jsonl")) == [{"a": 1}, {"a": 2}]
    (tmp_path / "a.txt").write_bytes(MARK + "é".encode())
    assert text_file.read_text(tmp_path / "a.txt") == "é"
    (tmp_path / "b.jsonl").write_bytes(b'{"a": 1}\n' + MARK + b'{"a": 2}\n')
    assert list(jsonl.read(tmp_path / "b.jsonl")) == [{"a": 1}, {"a": 2}]  # two files joined


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    (tmp_path / "a.jsonl").write_bytes(mark + '{"a": 1}\n'.encode(encoding))
    with pytest.raises(RecordError, match=r"a\.jsonl is UTF-16, not UTF-8; re-encode it\."):
        list(jsonl.read(tmp_path / "a.jsonl"))
    with pytest.raises(InputError, match="is UTF-16"):
        text_file.read_text(tmp_path / "a.jsonl", InputError)


@given(st.binary(max_size=40))
def test_any_bytes_are_an_object_or_one_sentence(content: bytes) -> None:
    said = "a.json is an object."
    try:
        assert isinstance(text_file.parse_object(content, "a.json", "write it again"), dict)
    except RecordError as error:
        said = str(error)
    assert said.startswith("a.json is ")
    assert said.endswith(".")
