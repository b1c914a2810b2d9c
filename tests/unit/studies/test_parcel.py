"""Parts that travel: what comes together is what was packed, or a sentence says why not."""

import json
import random
from pathlib import Path

import pytest

from remask.errors import InputError, RecordError
from studies.language import __main__ as real_study
from studies.language.parcel import NOTE, digest, pack, unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Weights in bfloat16, an odd number of bytes, a text in a folder, and an empty file."""
    source = tmp_path / "model"
    (source / "deep").mkdir(parents=True)
    lower = random.Random(0).randbytes(60_000)
    weights = bytes(value for low in lower for value in (low, 63))
    (source / "model.safetensors").write_bytes(weights + b"\1")
    (source / "deep" / "config.json").write_text("{}" * 500)
    (source / "empty").write_bytes(b"")
    (source / "training.pt").write_bytes(b"x" * 99)
    return source


def files_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_folder_comes_back_as_it_was(folder: Path, tmp_path: Path) -> None:
    note = pack(folder, tmp_path / "parts", part=5_000, group=3)
    parts = sorted((tmp_path / "parts").rglob("*.part-*"))
    assert len(parts) == note["parts"] > 3
    assert all(path.stat().st_size <= 5_000 for path in parts)
    assert all(len(list(group.glob("*.part-*"))) <= 3 for group in (tmp_path / "parts").iterdir())
    assert note["bytes"] < 70_000, "the upper bytes of weights repeat themselves"
    unpack([tmp_path / "parts"], tmp_path / "back")
    assert files_of(tmp_path / "back") == files_of(folder)
    told = {entry["path"]: entry["sha256"] for entry in note["files"]}
    assert told["model.safetensors"] == digest(folder / "model.safetensors")


def test_a_file_travels_too_and_groups_may_come_one_by_one(folder: Path, tmp_path: Path) -> None:
    pack(folder / "model.safetensors", tmp_path / "parts", part=5_000, group=2)
    groups = sorted((tmp_path / "parts").iterdir())
    with pytest.raises(InputError, match=r"part-002.* are missing; bring them too"):
        unpack(groups[:1], tmp_path / "back")
    [path] = unpack(groups, tmp_path / "back")
    assert path.read_bytes() == (folder / "model.safetensors").read_bytes()


def test_some_files_can_be_left(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "parts", skip=["*.pt", "deep/*"])
    unpack([tmp_path / "parts"], tmp_path / "back")
    assert sorted(files_of(tmp_path / "back")) == ["empty", "model.safetensors"]


def test_a_damaged_part_is_refused_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    pack(folder / "model.safetensors", tmp_path / "parts")
    [part] = (tmp_path / "parts").rglob("*.part-*")
    data = bytearray(part.read_bytes())
    part.write_bytes(data[:-1])
    with pytest.raises(RecordError, match="not as large"):
        unpack([tmp_path / "parts"], tmp_path / "back")
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    with pytest.raises(RecordError, match=r"damaged|another sha256"):
        unpack([tmp_path / "parts"], tmp_path / "back")
    assert not (tmp_path / "back" / "model.safetensors").exists()


def test_a_note_that_points_outside_is_refused(folder: Path, tmp_path: Path) -> None:
    pack(folder / "empty", tmp_path / "parts")
    note = {"name": "a", "parts": 0, "bytes": 0, "files": [
        {"path": "../b", "bytes": 0, "blocks": 0, "apart": False, "sha256": ""}]}  # fmt: skip
    (tmp_path / "parts" / "0" / f"empty{NOTE}").write_text(json.dumps(note))
    with pytest.raises(RecordError, match="outside"):
        unpack([tmp_path / "parts"], tmp_path / "back")


def test_what_cannot_be_packed_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        pack(tmp_path / "nothing", tmp_path / "parts")
    with pytest.raises(InputError, match="is there already"):
        pack(folder, folder)
    with pytest.raises(InputError, match="no files to pack"):
        pack(folder, tmp_path / "parts", skip=["*"])
    with pytest.raises(InputError, match="holds no parcel"):
        unpack([folder], tmp_path / "back")


def test_the_commands_pack_and_unpack(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts, back = str(tmp_path / "parts"), str(tmp_path / "back")
    assert (
        real_study.main(["pack", str(folder), parts, "--part-mib", "0.01", "--skip", "*.pt"]) == 0
    )
    assert real_study.main(["unpack", parts, back]) == 0
    assert "3 files, as they were packed" in capsys.readouterr().out
