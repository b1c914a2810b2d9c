"""Which checkpoints there are, how a run goes back to one, and what a damaged one says."""

import json
import math
import shutil
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
from remask.align.trainer import align
from remask.cli.align import line_of
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


def validated(monkeypatch: pytest.MonkeyPatch, s: AlignSettings, right: str) -> None:
    """Let validations of one problem say what a text spells, 1 being right."""
    told = iter(right)
    task = type(Prompts(s).task)
    monkeypatch.setattr(task, "grade", lambda self, problem, text: next(told) == "1")


def best_of(out: Path) -> tuple[int, bytes]:
    update = json.loads((out / "best" / "align.json").read_text())["update"]
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


def test_a_warm_up_that_nobody_asked_for_stays_that_of_the_run(
    settings: Settings, train: Train
) -> None:
    """A tenth of 10 updates is 1, of 20 it is 2; the run began with 1."""
    s = settings(
        method="regression", updates=10, inner_updates=5, eval_every=0, checkpoint_every=5,
        collapse_window=0,
    )  # fmt: skip
    assert (s.num_warmup, replace(s, updates=20).num_warmup) == (1, 2)
    train(s)
    rows = train(replace(s, updates=20), resume=True)
    rates = {row["step"]: row["learning_rate"] for row in rows if "loss" in row}
    assert rates[11] == pytest.approx(1e-3 * (1 - 9 / 19))
    with pytest.raises(SettingsError, match="warmup is 3 and was 1"):
        train(replace(s, updates=20, warmup=3), resume=True)


def test_a_refused_run_leaves_no_folder(settings: Settings, train: Train) -> None:
    s = settings(copies=9)
    with pytest.raises(SettingsError, match="copies 9"):
        train(s)
    assert not s.out.exists()


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


def moments(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the moments of the first weight."""
    optimizer = torch.load(path, weights_only=True)["optimizer"]
    change(optimizer["state"][0])
    changed(path, optimizer=optimizer)


def weights(path: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    held = torch.load(path, weights_only=True)["weights"]
    changed(path, weights={name: change(tensor) for name, tensor in held.items()})


def groups(path: Path, **parts: Any) -> None:
    optimizer = torch.load(path, weights_only=True)["optimizer"]
    changed(path, optimizer={**optimizer, "param_groups": [parts]})


def place(path: Path, **parts: Any) -> None:
    changed(path, place={**torch.load(path, weights_only=True)["place"], **parts})


def guard(path: Path, **parts: Any) -> None:
    changed(path, monitor={**torch.load(path, weights_only=True)["monitor"], **parts})


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
    "a pickle of code": (
        lambda path: torch.save(Path("x"), path), r"\(Weights only load failed\)",
    ),
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
    "a guard's text": (lambda path: guard(path, skipped="two"), "skipped of its guard is 'two'"),
    "a guard's NaN": (lambda path: guard(path, best_reward=math.nan), "best_reward of its guard"),
    "a guard's list": (lambda path: guard(path, recent=[1.0]), "recent of its guard is"),
    "a guard's window": (lambda path: guard(path, recent={"reward": 1}), "recent of its guard is"),
    "a guard's average": (lambda path: guard(path, first={"length": None}), "first of its guard"),
    "a guard's first": (lambda path: guard(path, first_likelihoods=["a"]), "first_likelihoods of"),
    "groups without a rate": (lambda path: groups(path, params=[0]), "it has no 'lr'"),
    "groups without weights": (lambda path: groups(path), "it has no 'params'"),
    "no moment": (
        lambda path: moments(path, lambda held: held.pop("exp_avg")), "exp_avg of weight 0 is abs",
    ),
    "moments of nobody": (
        lambda path: changed(
            path, optimizer={**torch.load(path, weights_only=True)["optimizer"], "state": {99: {}}}
        ),
        "its optimizer has moments of 99",
    ),
    "moments that are none": (
        lambda path: moments(path, lambda held: held.update(exp_avg=held["exp_avg"] * math.inf)),
        "exp_avg of weight 0 has values that are no finite numbers",
    ),
    "a step of no number": (
        lambda path: moments(path, lambda held: held.update(step=torch.tensor(math.nan))),
        "step of weight 0 is a number",
    ),
    "small integers": (
        lambda path: weights(path, lambda held: held.to(torch.int8)), "is int8 there and float32",
    ),
    "weights that are none": (
        lambda path: weights(path, lambda held: held * math.nan), "that are no finite numbers",
    ),
    "a place behind the end": (lambda path: place(path, update=5), "is update 5 of 4, the best"),
    "a best to come": (lambda path: place(path, best_update=9), "the best being that of 9"),
}  # fmt: skip


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
    assert {"config.json", "tokenizer.json", "special_tokens_map.json", "align.json"} <= there
    assert not {"figures.json", "notes.txt"} & there
