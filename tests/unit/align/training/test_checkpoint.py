"""Which checkpoints there are, how a run goes back to one, and what a damaged one says."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remask.align import checkpoint
from remask.align.rollout import Prompts
from remask.align.settings import AlignSettings
from remask.align.trainer import align
from remask.cli.align import line_of
from remask.errors import RemaskError, SettingsError

Settings = Callable[..., AlignSettings]
Train = Callable[..., list[dict[str, Any]]]
Same = Callable[[Path, Path], None]


def names(out: Path) -> list[int]:
    return sorted(int(p.name.removeprefix("checkpoint-")) for p in out.glob("checkpoint-*"))


def test_the_last_three_and_the_best_are_there_to_go_back_to(
    settings: Settings, train: Train, same_state: Same, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Validations of one problem at 0, 3, 6, ... 12 updates; that at 3 alone is right.

    Checkpoints come at even updates, and at 3, where there would be none if it were not the best.
    """
    told: list[int] = []
    s = settings(updates=12, inner_updates=1, eval_every=3, eval_problems=1)

    def grade(self: Any, problem: Any, text: str) -> bool:
        told.append(len(told))
        return told[-1] % 5 == 1

    monkeypatch.setattr(type(Prompts(s).task), "grade", grade)
    train(s)
    assert names(s.out) == [3, 8, 10, 12]
    whole = replace(s, out=tmp_path / "whole")
    train(whole)

    told[:] = [0, 0]  # the next validation is the third, at 6
    rows = train(s, resume_from="best")
    assert rows[0] == {"resumed": 3}
    assert rows[1]["step"] == 4
    assert names(s.out) == [3, 8, 10, 12]
    same_state(s.out, whole.out)

    told[:] = [0, 0, 0, 0]
    assert train(s, resume_from="10")[0] == {"resumed": 10}
    same_state(s.out, whole.out)
    with pytest.raises(SettingsError, match=r"resume_from must be .*\(3, 8, 10, 12\).* got '4'"):
        train(s, resume_from="4")
    assert names(s.out) == [3, 8, 10, 12]


def validated(monkeypatch: pytest.MonkeyPatch, s: AlignSettings, right: str) -> None:
    """Let validations of one problem say what a text spells, 1 being right."""
    told = iter(right)
    task = type(Prompts(s).task)
    monkeypatch.setattr(task, "grade", lambda self, problem, text: next(told) == "1")


def best_of(out: Path) -> tuple[int | None, bytes]:
    update = checkpoint.update_of_model(checkpoint.folder_of(out), "best")
    return update, (out / "best" / "model.safetensors").read_bytes()


def test_the_best_model_goes_back_with_the_run(
    settings: Settings, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Validations at 0, 2, 4 and 6 updates: that at 4 is the best, of what is left that at 0."""
    s = settings(eval_problems=1)
    validated(monkeypatch, s, "0000")
    train(s)
    start = best_of(s.out)
    assert start[0] == 0
    s = replace(s, out=s.out.with_name("other"))
    validated(monkeypatch, s, "0010")
    train(s)
    assert best_of(s.out)[0] == 4

    def stop(row: dict[str, Any]) -> None:
        if row.get("step") == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        align(s, stop, resume_from="2")
    assert best_of(s.out) == start
    assert not (s.out / "final").exists(), "it was that of update 6"


def test_a_best_model_is_made_again_from_its_checkpoint_or_said_to_be_gone(
    settings: Settings, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = settings(eval_problems=1)
    validated(monkeypatch, s, "0100")
    train(s)
    wanted = best_of(s.out)
    shutil.rmtree(s.out / "best")
    validated(monkeypatch, s, "0")
    assert train(s, resume_from="4")[0] == {"resumed": 4}
    assert best_of(s.out) == wanted

    shutil.rmtree(s.out / "best")
    shutil.rmtree(s.out / "checkpoint-000002")
    validated(monkeypatch, s, "0")
    rows = train(s, resume_from="4")
    assert rows[:2] == [{"resumed": 4}, {"lost_best": 2}]
    assert line_of(rows[1]).startswith("the best model was that of update 2, whose checkpoint is")
    assert best_of(s.out)[0] == 6, "the only validation since"


def test_a_refused_run_leaves_no_folder(settings: Settings, train: Train) -> None:
    s = settings(copies=9)
    with pytest.raises(SettingsError, match="copies must be at most"):
        train(s)
    assert not s.out.exists()


def test_there_is_no_best_to_go_back_to_where_the_start_was_the_best(
    settings: Settings, train: Train
) -> None:
    s = settings(updates=2)
    with pytest.raises(SettingsError, match=r"resume_from must .*\(none\)"):
        train(s, resume_from="best")
    train(s)
    with pytest.raises(SettingsError, match=r"resume_from must .*\(2\)"):
        train(s, resume_from="best")


def test_a_run_may_be_made_longer_and_is_then_the_long_one(
    settings: Settings, train: Train, same_state: Same, tmp_path: Path
) -> None:
    whole = settings(out=tmp_path / "whole", updates=6)
    train(whole)
    s = settings(updates=4)
    train(s)
    with pytest.raises(SettingsError, match="updates was 4, got 2"):
        train(replace(s, updates=2), resume=True)
    rows = train(replace(s, updates=6), resume=True)
    assert [row["step"] for row in rows if "loss" in row] == [5, 6]
    same_state(s.out, whole.out)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def change_line(change: Callable[[list[str]], list[str]]) -> Callable[[Path], object]:
    return lambda path: path.write_text("".join(change(path.read_text().splitlines(True))))


def change_field(path: Path) -> None:
    path.write_text(path.read_text().replace('"cursor": 4', '"cursor": 2'))


STATE, SEAL = "checkpoint-000004/state.pt", "checkpoint-000004/seal.json"
EDITS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a byte of the state": (STATE, flip, "state.pt was changed"),
    "half a state": (STATE, lambda p: p.write_bytes(p.read_bytes()[:999]), "state.pt was changed"),
    "no state": (STATE, Path.unlink, "No such file"),
    "the state of another update": (
        STATE, lambda p: shutil.copyfile(p.parents[1] / "checkpoint-000002/state.pt", p), "changed",
    ),
    "a field of the seal": (SEAL, change_field, "seal.json was changed"),
    "a byte of the seal": (SEAL, flip, "is damaged"),
    "no seal": (SEAL, Path.unlink, "No such file"),
    "a doubled seal": (SEAL, change_line(lambda lines: lines * 2), "Extra data"),
    "another checkpoint": (
        "checkpoint-000004",
        lambda p: (shutil.rmtree(p), shutil.copytree(p.with_name("checkpoint-000002"), p)),
        "seal.json was changed",
    ),
    "a byte of the log": ("log.jsonl", flip, "log.jsonl was changed"),
    "a missing line": ("log.jsonl", change_line(lambda lines: lines[1:]), "log.jsonl was changed"),
    "a doubled line": (
        "log.jsonl", change_line(lambda lines: [*lines[:2], *lines[1:]]), "log.jsonl was changed",
    ),
    "swapped lines": (
        "log.jsonl", change_line(lambda lines: [lines[1], lines[0], *lines[2:]]), "was changed",
    ),
    "no log": ("log.jsonl", Path.unlink, "log.jsonl was changed"),
    "no completions": ("completions.jsonl", Path.unlink, "completions.jsonl was changed"),
    "another run": ("run.json", lambda p: p.write_text("{}"), "which is not of this run"),
}  # fmt: skip


def test_an_edited_run_is_refused_in_one_sentence(settings: Settings, train: Train) -> None:
    s = settings(updates=4, show_every=1)
    train(s)
    kept = s.out.with_name("kept")
    shutil.copytree(s.out, kept)
    for name, (path, edit, reason) in EDITS.items():
        edit(s.out / path)
        with pytest.raises(RemaskError, match=reason) as raised:
            train(s)
        assert "\n" not in str(raised.value), name
        if "damaged" in str(raised.value):
            assert str(raised.value).endswith("Remove it to resume from checkpoint-000002."), name
        shutil.rmtree(s.out)
        shutil.copytree(kept, s.out)
    assert train(s)[0] == {"resumed": 4}


def test_an_edit_of_what_is_written_again_changes_nothing(
    settings: Settings, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best model is that of update 2, made again from its checkpoint."""
    s = settings(updates=4, eval_problems=1)
    validated(monkeypatch, s, "010")
    train(s)
    files = [path for path in s.out.rglob("*") if path.is_file() and "checkpoint" not in str(path)]
    before = {path: path.read_bytes() for path in files}
    assert best_of(s.out)[0] == 2
    for name in ("best/model.safetensors", "best/seal.json", "final/config.json", "settings.yaml"):
        flip(s.out / name)
    with (s.out / "log.jsonl").open("ab") as log:
        log.write(b'\xff\xfe{"step"')
    shutil.copytree(s.out / "checkpoint-000004", s.out / "checkpoint-000006.part")
    train(s)
    assert {path: path.read_bytes() for path in files} == before
    assert names(s.out) == [2, 4]
    shutil.rmtree(s.out / "checkpoint-000004")
    validated(monkeypatch, s, "0")
    train(s)
    timeless = {path: content for path, content in before.items() if path.suffix != ".jsonl"}
    assert {path: path.read_bytes() for path in timeless} == timeless


def test_what_a_killed_start_left_is_not_taken_for_a_result(
    settings: Settings, train: Train
) -> None:
    """Without validations `best` is the final model, not that of an earlier, unfinished start."""
    s = settings(updates=2, eval_every=0)
    train(s)
    wanted = (s.out / "best" / "model.safetensors").read_bytes()
    flip(s.out / "best" / "model.safetensors")
    shutil.rmtree(s.out / "checkpoint-000002")
    train(s)
    assert (s.out / "best" / "model.safetensors").read_bytes() == wanted


def test_a_trained_model_carries_what_is_true_of_it(
    settings: Settings, train: Train, model: Path, tmp_path: Path
) -> None:
    """Figures of the model that it was made of are not."""
    source = tmp_path / "source"
    shutil.copytree(model, source)
    for name in ("figures.json", "notes.txt", "special_tokens_map.json"):
        (source / name).write_text("{}")
    s = settings(model=str(source), updates=2)
    train(s)
    there = {path.name for path in (s.out / "best").iterdir()}
    assert {"config.json", "tokenizer.json", "special_tokens_map.json", "seal.json"} <= there
    assert not {"figures.json", "notes.txt"} & there
