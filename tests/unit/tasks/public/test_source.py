"""Rows from files and from the hub: what is read, and what is said where it cannot be."""

import contextlib
import csv
import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.errors import InputError, MissingExtra, RecordError
from remask.tasks.public.choices import GPQA_HUB
from remask.tasks.public.source import (
    BenchmarkRow,
    BenchmarkSource,
    Hub,
    digest,
    download,
    read_file,
    read_files,
)

ROWS = [{"question": "How many?", "answer": "#### 3"}, {"question": "Wie viele?", "answer": "é"}]
HUB = Hub(
    repository="some/thing",
    revision="0123abc",
    licence="MIT",
    splits={"train": "train", "test": "eval"},
    sizes={"train": 2, "test": 2},
    configs=("one",),
)


def write_jsonl(path: Path) -> None:
    path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n", encoding="utf-8")


def write_json(path: Path) -> None:
    path.write_text(json.dumps(ROWS), encoding="utf-8")


def write_csv(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, ["question", "answer"])
        table.writeheader()
        table.writerows(ROWS)


def write_parquet(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)


WRITERS = {".jsonl": write_jsonl, ".json": write_json, ".csv": write_csv, ".parquet": write_parquet}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("suffix", WRITERS)
def test_every_kind_of_file_gives_the_same_rows_and_hash(
    suffix: str, zipped: bool, tmp_path: Path
) -> None:
    path = tmp_path / f"test{suffix}"
    WRITERS[suffix](path)
    if zipped:
        path = path.rename(path.with_name(path.name + ".gz"))
        path.write_bytes(gzip.compress(path.read_bytes()))
    found = read_files([path])
    assert [row.fields for row in found.rows] == ROWS
    assert found.origin == path.name
    assert found.sha256 == digest([BenchmarkRow(fields=row, where="") for row in ROWS])


def test_another_row_is_another_hash() -> None:
    rows = [BenchmarkRow(fields=row, where="") for row in ROWS]
    assert digest(rows) != digest(rows[:1])
    assert digest(rows) != digest(rows[::-1])


def test_a_folder_holds_a_file_or_shards_for_each_split(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train-00000-of-00002.jsonl")
    write_jsonl(tmp_path / "train-00001-of-00002.jsonl")
    write_json(tmp_path / "test.json")
    write_jsonl(tmp_path / "test_other.jsonl")
    (tmp_path / "test.txt").write_text("not a file of rows")
    source = BenchmarkSource(hub=HUB, path=tmp_path)
    assert len(source.rows("train").rows) == 4
    assert len(source.rows("test").rows) == 2
    with pytest.raises(InputError, match=r"no file for the split 'validation'; put validation\."):
        source.rows("validation")


def test_a_file_is_the_split_it_is_named_after_and_else_test(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl")
    write_jsonl(tmp_path / "mine.jsonl")
    assert (
        BenchmarkSource(hub=HUB, path=tmp_path / "train.jsonl").rows("train").origin
        == "train.jsonl"
    )
    assert (
        BenchmarkSource(hub=HUB, path=tmp_path / "mine.jsonl").rows("test").origin == "mine.jsonl"
    )
    with pytest.raises(InputError, match=r"train\.jsonl holds the split 'train' alone"):
        BenchmarkSource(hub=HUB, path=tmp_path / "train.jsonl").rows("test")


def test_rows_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    write_jsonl(path)
    source = BenchmarkSource(hub=HUB, path=path)
    first = source.rows("test")
    path.unlink()
    assert source.rows("test") is first


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            b'{"x": 1}\n{"x": \n',
            r"a\.jsonl line 2 is not valid JSON \(Expecting value\)",
        ),
        ("a.jsonl", b"[1]\n", r"a\.jsonl is a JSON array; write one object per line"),
        ("a.jsonl", b"q,a\n", r"a\.jsonl looks like CSV"),
        ("a.jsonl", b"3\n", r"a\.jsonl line 1 is not a JSON object"),
        ("a.jsonl", b"\xff", r"a\.jsonl is not valid UTF-8"),
        ("a.jsonl", b"\n", r"a\.jsonl holds no row"),
        ("a.json", b'{"x": 1}', r"a\.json is not a JSON list of rows"),
        ("a.json", b"[3]", r"a\.json row 1 is not a JSON object"),
        ("a.jsonl.gz", b"plain", r"a\.jsonl\.gz cannot be read"),
        # mtime=0: the content is part of the test's name, which every worker must agree on
        ("a.jsonl.gz", gzip.compress(b"{}" * 99, mtime=0)[:-9], r"a\.jsonl\.gz cannot be read"),
        ("a.txt", b"", r"a\.txt has no suffix we read; use \.jsonl"),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_files([tmp_path / name])


def test_a_broken_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no")
    with pytest.raises(RecordError, match=r"a\.parquet is not a readable Parquet file"):
        list(read_file(tmp_path / "a.parquet"))


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.jsonl does not exist"):
        BenchmarkSource(hub=HUB, path=tmp_path / "gone.jsonl").rows("test")


def test_a_row_names_the_field_it_lacks_and_those_it_has() -> None:
    row = BenchmarkRow(
        fields={"a": 1, "b": None, "c": "  ", "d": "x", "e": "xy"}, where="f.jsonl line 7"
    )
    assert row.value("b", "a") == 1
    assert row.text("d") == "x"
    with pytest.raises(InputError, match="line 7 lacks the field 'b'; its fields are a, b, c, d"):
        row.value("b")
    for name in "ac":
        with pytest.raises(InputError, match=f"line 7: the field '{name}' is not a text"):
            row.text(name)
    with pytest.raises(InputError, match="'e' is not a list of texts"):
        row.texts("e")


@given(st.binary(max_size=200), st.sampled_from(["a.jsonl", "a.json", "a.csv", "a.jsonl.gz"]))
def test_no_content_makes_reading_crash(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert read_files([path]).rows


Load = Callable[..., Any]


def pretend(monkeypatch: pytest.MonkeyPatch, load: Load) -> None:
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load))


def test_the_hub_is_asked_for_the_pinned_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(*words: str, **named: str) -> list[dict[str, str]]:
        asked.append((words, named))
        return ROWS

    pretend(monkeypatch, load)
    found = download(HUB, "test")
    assert asked == [(("some/thing", "one"), {"split": "eval", "revision": "0123abc"})]
    assert found.origin == "some/thing@0123abc"
    assert found.rows[1].where == "some/thing@0123abc row 2"
    assert found.sha256 == digest([BenchmarkRow(fields=row, where="") for row in ROWS])


def test_a_hub_that_gives_another_number_of_rows_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, lambda *words, **named: ROWS[:1])
    with pytest.raises(
        InputError, match="has 1 rows in the split 'test' where that revision has 2"
    ):
        download(HUB, "test")


def test_without_a_network_the_remedy_is_a_local_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*words: str, **named: str) -> None:
        raise ConnectionError("Couldn't reach the Hub\nand many more lines")

    pretend(monkeypatch, load)
    with pytest.raises(InputError) as found:
        download(HUB, "test")
    assert str(found.value) == (
        "some/thing@0123abc cannot be read from the hub (Couldn't reach the Hub); "
        "give a local file as path."
    )


def test_without_datasets_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'remask\[data\]', or give a local file"):
        download(HUB, "test")


@pytest.mark.parametrize("installed", [True, False])
def test_gpqa_explains_how_to_get_access(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*words: str, **named: str) -> None:
        raise PermissionError("401 Client Error")

    monkeypatch.setitem(
        sys.modules, "datasets", SimpleNamespace(load_dataset=load) if installed else None
    )
    with pytest.raises((InputError, MissingExtra), match="gated: accept its terms") as found:
        download(GPQA_HUB, "test")
    assert "gpqa_main.csv" in str(found.value)
