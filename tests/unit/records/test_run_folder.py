"""The folder of a run: what is continued, what is refused, and what a kill leaves."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from remask.errors import CheckpointError, RecordError, RemaskError, SettingsError, WriteError
from remask.records import run_folder
from remask.records.run_folder import STATE, RunFolder, source_digest

RUN = {"seed": 0, "updates": 4, "rates": [0.1, 0.2]}


def folder_of(out: Path, num_kept: int = 2) -> RunFolder:
    return RunFolder(
        out=out, command="toy", logs=("log.jsonl", "other.jsonl"), models=("best",),
        num_kept=num_kept, may_grow=frozenset({"updates"}),
    )  # fmt: skip


def train(out: Path, steps: int = 4, *, stop: int = -1, num_kept: int = 2) -> None:
    """Run a toy training whose state is the sum of its steps."""
    folder = folder_of(out, num_kept)
    with folder.hold([]):
        start, step, total = folder.resume(RUN), 0, 0
        if start is not None:
            step, total = folder.read(start)["step"], int((start / STATE).read_text())
        folder.begin(RUN, start)
        while step < steps:
            if step == stop:
                return
            step, total = step + 1, total + step
            folder.append("log.jsonl", {"step": step, "total": total})
            state = str(total)
            if step % 2 == 0:
                folder.save(
                    step, lambda part, text=state: (part / STATE).write_text(text),  # type: ignore[misc]
                    {"run": RUN, "step": step}, best=2,
                )  # fmt: skip
        folder.write(out / "best", lambda part: (part / "weights").write_text(str(total)), {})


def content(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("stop", range(4))
def test_a_stopped_run_ends_as_an_uninterrupted_one(tmp_path: Path, stop: int) -> None:
    train(tmp_path / "whole")
    train(tmp_path / "parts", stop=stop)
    train(tmp_path / "parts")
    assert content(tmp_path / "parts") == content(tmp_path / "whole")
    rows = (tmp_path / "whole" / "log.jsonl").read_text().splitlines()
    assert [json.loads(row) for row in rows] == [
        {"step": 1, "total": 0}, {"step": 2, "total": 1}, {"step": 3, "total": 3},
        {"step": 4, "total": 6},
    ]  # fmt: skip


def test_the_last_checkpoints_and_the_best_stay(tmp_path: Path) -> None:
    train(tmp_path / "out", steps=8, num_kept=1)
    assert [p.name for p in folder_of(tmp_path / "out").checkpoints()] == [
        "checkpoint-000002", "checkpoint-000008",
    ]  # fmt: skip


@pytest.mark.parametrize("leaves", ["part", "old", "note"])
def test_what_a_kill_left_half_written_is_cleared(tmp_path: Path, leaves: str) -> None:
    out = tmp_path / "out"
    train(tmp_path / "whole")
    if leaves == "note":
        out.mkdir()
        (out / "run.json.tmp").write_text("{")
    else:
        train(out, stop=3)
    if leaves == "part":
        shutil.copytree(out / "checkpoint-000002", out / "checkpoint-000004.part")
    elif leaves == "old":
        os.rename(out / "checkpoint-000002", out / "checkpoint-000002.old")
    train(out)
    assert content(out) == content(tmp_path / "whole")


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    base = tmp_path_factory.mktemp("edits")
    train(base / "run", steps=6, stop=5)
    train(base / "whole", steps=6)
    return base, content(base / "whole")


def edit_line(text: bytes, kind: str, at: int) -> bytes:
    lines = text.splitlines(keepends=True)
    at %= max(len(lines), 1)
    other = (at + 1) % max(len(lines), 1)
    if kind == "remove":
        del lines[at : at + 1]
    elif kind == "double":
        lines[at:at] = lines[at : at + 1]
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return b"".join(lines)


@hypothesis_settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_an_edit_is_refused_or_changes_nothing(
    unfinished: tuple[Path, dict[str, bytes]], data: st.DataObject
) -> None:
    base, whole = unfinished
    out = base / "edited"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(base / "run", out)
    path = data.draw(st.sampled_from(sorted(p for p in out.rglob("*") if p.is_file())))
    kind = data.draw(st.sampled_from(["byte", "delete", "remove", "double", "swap", "cut", "copy"]))
    at, text = data.draw(st.integers(0, 10_000)), path.read_bytes()
    if kind == "delete":
        path.unlink()
    elif kind == "byte":
        place = at % len(text)
        path.write_bytes(text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :])
    elif kind == "cut":
        path.write_bytes(text[: at % len(text)])
    elif kind == "copy":  # of another step
        others = [p for p in out.rglob(path.name) if p != path]
        path.write_bytes(others[at % len(others)].read_bytes() if others else text)
    else:
        path.write_bytes(edit_line(text, kind, at))
    with suppress(RemaskError):
        train(out, steps=6)
        kept = {name: content(out).get(name) for name in whole if "checkpoint-" not in name}
        assert kept == {name: value for name, value in whole.items() if "checkpoint-" not in name}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"seed": 1}, "seed was 0, got 1"),
        ({"updates": 2}, "updates was 4, got 2"),
        ({"rates": [0.1]}, r"rates was \[0.1, 0.2\], got \[0.1\]"),
        ({"new": "a", "seed": None}, "seed was 0, got None; new was None, got 'a'"),
    ],
)
def test_every_changed_setting_is_named(
    tmp_path: Path, changes: dict[str, Any], wanted: str
) -> None:
    train(tmp_path / "out")
    folder = folder_of(tmp_path / "out")
    with pytest.raises(SettingsError, match=f"Cannot resume .*: {wanted}. Choose"):
        folder.resume({**RUN, **changes})
    assert folder.resume({**RUN, "updates": 9}) == tmp_path / "out" / "checkpoint-000004"


def test_a_checkpoint_under_another_name_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "out")
    shutil.copytree(tmp_path / "out/checkpoint-000004", tmp_path / "out/checkpoint-000006")
    with pytest.raises(CheckpointError, match=r"000006 is damaged .*resume from checkpoint-000004"):
        train(tmp_path / "out")


@pytest.mark.parametrize("edit", [('"name": "best"', '"name": "rest"'), (": ", ":  ")])
def test_every_byte_of_a_seal_counts(tmp_path: Path, edit: tuple[str, str]) -> None:
    train(tmp_path)
    seal = tmp_path / "best" / "seal.json"
    seal.write_text(seal.read_text().replace(*edit, 1))
    with pytest.raises(CheckpointError, match=r"seal.json was changed"):
        folder_of(tmp_path).read(tmp_path / "best")


def test_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "settings.json").write_text("{}")
    with pytest.raises(RecordError, match=r"holds settings\.json, which is not of this run"):
        train(tmp_path / "out")
    (tmp_path / "out" / "run.json").write_text('{"command": "bake"}')
    assert not folder.has_run
    with pytest.raises(RecordError, match="not of this run"):
        train(tmp_path / "out")


def test_a_link_to_a_folder_shares_its_lock(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with folder_of(tmp_path / "out").hold([]), ThreadPoolExecutor(1) as other:
        refused = other.submit(train, tmp_path / "link")
        with pytest.raises(RecordError, match="in use by process"):
            refused.result()


def test_a_failed_write_leaves_the_folder_before_it(tmp_path: Path) -> None:
    train(tmp_path / "out")
    before = content(tmp_path / "out")
    folder = folder_of(tmp_path / "out")

    def fail(part: Path) -> None:
        (part / "weights").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(WriteError, match=r"No space left on device\. .*checkpoint-000004 is int"):
        folder.write(tmp_path / "out" / "best", fail, {})
    assert content(tmp_path / "out") == before


def test_the_digest_of_a_model_covers_every_byte_of_its_files(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(bytes(100))
    (model / "README.md").write_text("notes")
    before = source_digest(model)
    (model / "README.md").write_text("other notes")
    assert source_digest(model) == before
    (model / "model.safetensors").write_bytes(bytes(99) + b"1")
    assert source_digest(model) != before
    assert source_digest(model / "config.json") == run_folder._file_digest(model / "config.json")
