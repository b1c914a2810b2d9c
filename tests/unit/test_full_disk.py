"""A full disk: the file is named with what it needs, and what was there before stays."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.collect import runner
from remask.denoisers.save import _write_tensors
from remask.errors import WriteError
from remask.records import jsonl
from remask.records.manifest import Manifest
from remask.records.parquet import ADDED, RowTable, file_format

Fill = Callable[[], None]


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Fill:
    """Let every flush to the disk fail, as it does where nothing is left."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: monkeypatch.setattr(os, "fsync", full)


def test_a_file_that_does_not_fit_is_named_and_the_old_one_stays(
    tmp_path: Path, fill: Fill
) -> None:
    path = tmp_path / "weights.json"
    jsonl.write_text(path, "old")
    fill()
    with pytest.raises(WriteError) as caught:
        jsonl.write_text(path, "new" * 1000)
    said = str(caught.value)
    assert said.startswith(f"{path} could not be written: No space left on device (3,000 bytes are")
    assert said.endswith(" bytes are free); what was there before is unchanged.")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("weights.json", "old")]


def test_rows_are_appended_all_or_none(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "rows.jsonl"
    jsonl.append(path, [{"a": 1}])
    fill()
    with pytest.raises(WriteError, match=r"rows\.jsonl could not be written: No space left"):
        jsonl.append(path, [{"a": 2}, {"a": 3}])
    assert path.read_text() == '{"a": 1}\n'


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_scored_file_is_whole_or_not_there(tmp_path: Path, fill: Fill, suffix: str) -> None:
    out, table = tmp_path / f"out.{suffix}", RowTable([{"a": 1}])

    def write(path: Path, lines: list[dict[str, Any]]) -> None:
        table.write(path, [dict.fromkeys(ADDED)], file_format(out))

    with runner.open_results(out, Manifest(settings={"problems": 0})) as results:
        fill()
        with pytest.raises(WriteError, match=rf"out\.{suffix} could not be written"):
            results.finish(write)
    assert not list(tmp_path.iterdir())


def test_an_error_that_names_no_disk_says_nothing_of_room(tmp_path: Path) -> None:
    with pytest.raises(WriteError) as caught:
        jsonl.write_text(tmp_path / "none" / "a.json", "text")
    assert str(caught.value) == (
        f"{tmp_path / 'none' / 'a.json'} could not be written: No such file or directory; what was "
        "there before is unchanged."
    )


LIMITED = """
import resource, sys
from pathlib import Path
from remask.errors import WriteError
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
what, path = sys.argv[1], Path(sys.argv[2])
try:
    if what == "text":
        from remask.records.jsonl import write_text
        write_text(path, "a" * 10_000)
    elif what == "rows":
        from remask.records.jsonl import append
        append(path, [{"a": "b" * 10_000}])
    else:
        import torch
        from remask.denoisers.save import _write_tensors
        _write_tensors(path, {"a": torch.zeros(10_000)})
except WriteError as error:
    print(error)
"""


@pytest.mark.parametrize("what", ["text", "rows", "tensors"])
def test_a_real_limit_leaves_nothing_half_written(tmp_path: Path, what: str) -> None:
    """A process that may write 4,096 bytes: the system refuses the rest, as a full disk does."""
    path = tmp_path / "out"
    if what == "rows":
        path.write_text("{}\n")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, what, str(path)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{path} could not be written: " in done.stdout
    assert [p.read_text() for p in tmp_path.iterdir()] == (["{}\n"] if what == "rows" else [])


def test_tensors_are_written_whole(tmp_path: Path) -> None:
    _write_tensors(tmp_path / "a.safetensors", {"a": torch.zeros(3)})
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
