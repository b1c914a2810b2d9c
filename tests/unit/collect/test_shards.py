"""Shards: what goes in comes out byte for byte, and never beside another question."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.collect.engine import Shards
from remask.errors import RecordError
from remask.records.parquet import read_table

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    LEAVES | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(rows=st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=4))
def test_joining_changes_no_byte(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    shards = Shards.of(tmp_path_factory.mktemp("s") / "out.jsonl", {})
    shards.write((0, 4), rows)
    assert json.dumps(shards.read((0, 4))) == json.dumps(rows)


def test_a_shard_is_a_parquet_file_named_by_its_rows(tmp_path: Path) -> None:
    shards = Shards.of(tmp_path / "out.jsonl", {"seed": 0})
    assert not list(tmp_path.iterdir()), "nothing is made before there is something to keep"
    assert not shards.has((16, 24))
    shards.write((16, 24), [{"b": 1, "a": None}])
    assert shards.has((16, 24))
    folder = tmp_path / "out.jsonl.shards"
    assert sorted(path.name for path in folder.iterdir()) == [
        "00000016-00000024.parquet",
        "asked.json",
    ]
    assert read_table(folder / "00000016-00000024.parquet").rows == [
        {"record": '{"b": 1, "a": null}'}
    ]
    shards.clear()
    shards.clear()
    assert not list(tmp_path.iterdir())


def test_shards_of_another_question_are_refused_by_name(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    Shards.of(out, {"seed": 0, "task": "choice"}).write((0, 1), [{}])
    assert Shards.of(out, {"seed": 0, "task": "choice"}).has((0, 1))
    with pytest.raises(RecordError, match=r"shards was begun with another seed; repeat the ear"):
        Shards.of(out, {"seed": 1, "task": "choice"})


def test_a_question_without_shards_stands_in_nobodys_way(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    old = Shards.of(out, {"seed": 0})
    old.write((0, 1), [{}])
    old.path((0, 1)).unlink()
    Shards.of(out, {"seed": 1}).write((0, 1), [{}])
    assert Shards.of(out, {"seed": 1}).has((0, 1))


def test_a_broken_shard_is_named(tmp_path: Path) -> None:
    shards = Shards.of(tmp_path / "out.jsonl", {})
    shards.write((0, 1), [{}])
    shards.path((0, 1)).write_bytes(b"PAR1")
    with pytest.raises(RecordError, match=r"00000000-00000001\.parquet is not a readable Parquet"):
        shards.read((0, 1))
