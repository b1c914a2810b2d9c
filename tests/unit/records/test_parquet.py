"""Tables: every column comes out as it went in."""

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from remask.errors import InputError, RecordError
from remask.records.parquet import ADDED, RowTable, file_format, read_table

NOTHING = dict.fromkeys(ADDED)
SCORED = dict(zip(ADDED, (0.5, 0.1, {"confidence": 0.5}, [0.0, None], 64, None), strict=True))


@pytest.mark.parametrize(
    ("name", "kind"), [("a.jsonl", "jsonl"), ("a.NDJSON", "jsonl"), ("a.b.parquet", "parquet")]
)
def test_the_suffix_names_the_format(name: str, kind: str) -> None:
    assert file_format(Path(name)) == kind


@pytest.mark.parametrize("name", ["a.csv", "a", "a.jsonl.gz", ".parquet"])
def test_an_unknown_suffix_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"use \.jsonl .* or \.parquet"):
        file_format(Path(name))


def test_columns_are_those_of_all_rows_in_order_of_appearance() -> None:
    assert RowTable([{"b": 1}, {"a": 2, "b": 3}, {"c": 4}]).columns == ("b", "a", "c")


def test_columns_that_only_later_rows_have_reach_parquet(tmp_path: Path) -> None:
    table = RowTable([{"b": 1}, {"a": "x", "b": 3}])
    table.write(tmp_path / "out.parquet", [NOTHING, NOTHING])
    assert pq.read_table(tmp_path / "out.parquet").select(["b", "a"]).to_pylist() == [
        {"b": 1, "a": None},
        {"b": 3, "a": "x"},
    ]


def test_added_columns_have_their_types_even_where_every_row_failed(tmp_path: Path) -> None:
    RowTable([{"a": 1}]).write(tmp_path / "out.parquet", [NOTHING])
    schema = pq.read_schema(tmp_path / "out.parquet")
    assert schema.field("remask_score").type == pa.float64()
    assert schema.field("remask_drift").type == pa.list_(pa.float64())
    assert schema.field("remask_error").type == pa.string()


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_what_is_written_can_be_read(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out.{suffix}"
    RowTable([{"a": 1}, {"a": 2}]).write(out, [SCORED, SCORED])
    assert read_table(out).rows == [{"a": 1, **SCORED}, {"a": 2, **SCORED}]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_half_a_surrogate_pair_survives_as_an_escape(tmp_path: Path) -> None:
    rows = [{"a": "\ud800 é"}, {"a": "é"}]
    RowTable(rows).write(tmp_path / "out.jsonl", [NOTHING, NOTHING])
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["a"] for line in lines] == ["\ud800 é", "é"]
    assert '"é"' in lines[1]


@pytest.mark.parametrize(
    "rows",
    [[{"a": 1}, {"a": "x"}], [{"a": {"b": 1}}, {"a": [1]}], [{"a": "\ud800"}], [{"a": 2**70}]],
)
def test_columns_that_parquet_cannot_hold_are_named_beforehand(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(RecordError, match="column 'a' does not fit Parquet"):
        RowTable(rows).check(Path("out.parquet"))
    RowTable(rows).check(Path("out.jsonl"))


@pytest.mark.parametrize("value", [datetime.date(2026, 1, 1), b"bytes", float("nan")])
def test_rows_that_json_cannot_hold_are_named_beforehand(value: object) -> None:
    with pytest.raises(RecordError, match="row 2 cannot be written as JSON: column 'a'"):
        RowTable([{"a": 1}, {"a": value}]).check(Path("out.jsonl"))


def test_a_folder_on_the_way_is_no_column(tmp_path: Path) -> None:
    (tmp_path / "a=1").mkdir()
    pq.write_table(pa.table({"b": [1]}), tmp_path / "a=1" / "in.parquet")
    assert read_table(tmp_path / "a=1" / "in.parquet").columns == ("b",)


def test_a_parquet_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"b": list(range(1000))}), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RecordError, match="is not a readable Parquet file"):
        read_table(path)


NANOSECONDS = 1_700_000_000_123_456_789  # Python's times end at microseconds
COLUMNS: dict[str, Any] = {
    "timestamp_ns": pa.array([NANOSECONDS, None], pa.timestamp("ns")),
    "timestamp_zone": pa.array([NANOSECONDS, None], pa.timestamp("ns", "Europe/Berlin")),
    "timestamp_far": pa.array([2**50, None], pa.timestamp("ms")),
    "duration": pa.array([NANOSECONDS, None], pa.duration("ns")),
    "time": pa.array([123_456_789, None], pa.time64("ns")),
    "date32": pa.array([-5_000_000, None], pa.date32()),
    "date64": pa.array([86_400_000, None], pa.date64()),
    "decimal": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2)),
    "wide_decimal": pa.array([decimal.Decimal("1.50"), None], pa.decimal256(50, 2)),
    "binary": pa.array([b"\xff", None], pa.binary()),
    "fixed": pa.array([b"ab", None], pa.binary(2)),
    "large": pa.array(["a", None], pa.large_string()),
    "list": pa.array([[1, None], None], pa.list_(pa.int32())),
    "struct": pa.array([{"a": NANOSECONDS}, None], pa.struct([("a", pa.timestamp("ns"))])),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["x", None]).dictionary_encode(),
    "nothing": pa.nulls(2),
    "half": pa.array([1.5, None], pa.float16()),
    "nan": pa.array([float("nan"), None], pa.float64()),
    "unsigned": pa.array([2**64 - 1, None], pa.uint64()),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_any_type_comes_out_of_parquet_as_it_went_in(tmp_path: Path, name: str) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"prompt": ["a", "b"], name: COLUMNS[name]}), source)
    table = read_table(source)
    table.check(out)
    assert table.select(("prompt",)) == [{"prompt": "a"}, {"prompt": "b"}]
    table.write(out, [NOTHING, NOTHING])
    before, after = pq.read_table(source), pq.read_table(out)
    assert after.select(["prompt", name]).schema == before.schema
    assert after.column(name).to_string() == before.column(name).to_string()


@pytest.mark.parametrize("name", ["timestamp_ns", "date32", "struct", "decimal", "binary", "nan"])
def test_what_json_has_no_word_for_is_refused_by_the_column(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"prompt": ["a", "b"], name: COLUMNS[name]}), tmp_path / "in.parquet")
    with pytest.raises(RecordError, match=f"column '{name}'"):
        read_table(tmp_path / "in.parquet").check(tmp_path / "out.jsonl")


def test_an_object_without_fields_is_refused_before_any_work() -> None:
    """Arrow takes it, and Parquet does not: that would be told when every row is scored."""
    with pytest.raises(RecordError, match="column 'a' of type struct<> does not fit Parquet"):
        RowTable([{"a": {}}]).check(Path("out.parquet"))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    arrays = [pa.array([1]), pa.array([2])]
    pq.write_table(pa.Table.from_arrays(arrays, names=["a", "a"]), tmp_path / "in.parquet")
    with pytest.raises(RecordError, match=r"in\.parquet has two columns 'a'; rename one"):
        read_table(tmp_path / "in.parquet")
