"""Which checkpoints there are, how a run goes back to one, and what a damaged one says."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from remask.align import checkpoint
from remask.align.rollout import Prompts
from remask.align.settings import AlignSettings
from remask.errors import CheckpointError, SettingsError

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
    with pytest.raises(SettingsError, match=r"resume_from '4' is no checkpoint .*\(3, 8, 10, 12\)"):
        train(s, resume_from="4")
    assert names(s.out) == [3, 8, 10, 12]


def test_there_is_no_best_to_go_back_to_where_the_start_was_the_best(
    settings: Settings, train: Train
) -> None:
    s = settings(updates=2)
    with pytest.raises(SettingsError, match=r"resume_from 'best' is no checkpoint .*\(none\)"):
        train(s, resume_from="best")
    train(s)
    with pytest.raises(SettingsError, match=r"resume_from 'best' is no checkpoint .*\(2\)"):
        train(s, resume_from="best")


def test_a_run_may_be_made_longer_and_is_then_the_long_one(
    settings: Settings, train: Train, same_state: Same, tmp_path: Path
) -> None:
    whole = settings(out=tmp_path / "whole", updates=6)
    train(whole)
    s = settings(updates=4)
    train(s)
    with pytest.raises(SettingsError, match="updates is 2 and was 4"):
        train(replace(s, updates=2), resume=True)
    rows = train(replace(s, updates=6), resume=True)
    assert [row["step"] for row in rows if "loss" in row] == [5, 6]
    same_state(s.out, whole.out)


def changed(path: Path, **parts: Any) -> None:
    """Save a state again with some of its parts changed."""
    state = torch.load(path, weights_only=True)
    torch.save({**state, **parts}, path)


def other_moments(path: Path) -> None:
    optimizer = torch.load(path, weights_only=True)["optimizer"]
    optimizer["state"][0]["exp_avg"] = torch.zeros(3)
    changed(path, optimizer=optimizer)


def other_shapes(path: Path) -> None:
    weights = torch.load(path, weights_only=True)["weights"]
    changed(path, weights={name: torch.zeros(7) for name in weights})


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (Path.unlink, "No such file"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
    "empty": (lambda path: path.write_bytes(b""), "it ends too early"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "cannot be read"),
    "half": (lambda path: path.write_bytes(path.read_bytes()[:5000]), "cannot be read"),
    "JSON": (lambda path: path.write_text('{"place": 1'), "cannot be read"),
    "safetensors": (
        lambda path: path.write_bytes(b"\x10" + bytes(7) + b'{"a":{"dtype":1}'),
        "cannot be read",
    ),
    "a pickle of code": (lambda path: torch.save(Path("x"), path), "cannot be read"),
    "a list": (lambda path: torch.save([1, 2], path), "cannot be read"),
    "no weights": (lambda path: torch.save({"place": {}}, path), "it has no "),
    "other shapes": (other_shapes, "of another model: .* is 7 there and .* here"),
    "other names": (lambda path: changed(path, weights={"a": torch.zeros(1)}), "is 1 there and ab"),
    "no tensors": (lambda path: changed(path, weights={"a": 1}), "has no attribute 'shape'"),
    "other moments": (other_moments, "exp_avg of weight 0 is 3"),
    "no optimizer": (lambda path: changed(path, optimizer={"state": {}}), "no 'param_groups'"),
    "a place before the start": (lambda path: changed(path, place={"update": -1}), "its place is"),
    "an unknown place": (lambda path: changed(path, place={"step": 1}), "unexpected keyword"),
    "a guard's": (lambda path: changed(path, monitor={"mood": 1}), "its guard has mood"),
}


def test_every_damage_is_one_sentence_and_the_checkpoint_before_is_named(
    settings: Settings, train: Train
) -> None:
    s = settings(updates=4)
    train(s)
    state = s.out / "checkpoint-000004" / "state.pt"
    whole = state.read_bytes()
    for name, (damage, reason) in DAMAGES.items():
        damage(state)
        with pytest.raises(CheckpointError, match=reason) as raised:
            train(s, resume=True)
        sentence = str(raised.value)
        assert "\n" not in sentence, name
        assert sentence.endswith("and resume: checkpoint-000002 is there too."), sentence
        if state.is_dir():
            state.rmdir()
        state.write_bytes(whole)
    assert train(s, resume=True)[0] == {"resumed": 4}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("saved")
    fields: dict[str, Any] = {
        name: {"a": 1} for name in ("settings", "place", "monitor", "optimizer")
    }
    folder = checkpoint.save_state(out, 1, {**fields, "weights": {"w": torch.ones(3)}}, 0)
    return (folder / "state.pt").read_bytes()


@hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(start=st.integers(0, 2000), cut=st.integers(0, 40), put=st.binary(max_size=40))
def test_whatever_the_bytes_are_they_load_or_are_refused(
    saved: bytes, start: int, cut: int, put: bytes, tmp_path: Path
) -> None:
    (tmp_path / "state.pt").write_bytes(saved[:start] + put + saved[start + cut :])
    with suppress(CheckpointError):
        assert checkpoint.load_state(tmp_path, torch.device("cpu"))["place"]


def test_lines_of_the_log_that_are_no_text_are_left_out(settings: Settings, train: Train) -> None:
    s = settings(updates=2)
    train(s)
    log = s.out / "log.jsonl"
    lines = log.read_bytes()
    log.write_bytes(lines + b'\xff\xfe{"step"')
    train(s, resume=True)
    assert log.read_bytes() == lines
