"""What trackers are shown of a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remask.align import trackers
from remask.align.settings import AlignSettings
from remask.align.trackers import find_trackers, measures
from remask.errors import SettingsError

Settings = Callable[..., AlignSettings]
Train = Callable[..., list[dict[str, Any]]]


def test_tensorboard_has_what_the_log_says_and_a_resumed_run_goes_on(
    settings: Settings, train: Train, tmp_path: Path
) -> None:
    from tensorboard.backend.event_processing import event_accumulator

    s = settings(updates=2, track="tensorboard")
    rows = train(s)
    rows += train(settings(updates=4, track="tensorboard"), resume=True)
    events = event_accumulator.EventAccumulator(str(s.out / "tensorboard" / "remask")).Reload()
    for name in ("loss", "reward", "eval/accuracy"):
        logged = [(row["step"], row[name]) for row in rows if name in row]
        shown = [(event.step, event.value) for event in events.Scalars(name)]
        assert [step for step, _ in shown] == [step for step, _ in logged]
        assert [value for _, value in shown] == pytest.approx([value for _, value in logged])


def test_which_trackers_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    assert find_trackers(["auto"]) == []
    with pytest.raises(SettingsError, match="track wandb requires the package wandb"):
        find_trackers(["wandb"])
    monkeypatch.setattr(trackers, "find_spec", lambda name: name)
    assert find_trackers(["auto"]) == ["tensorboard"]
    assert find_trackers(["none"]) == []
    assert find_trackers(["wandb", "tensorboard", "wandb"]) == ["wandb", "tensorboard"]


@pytest.mark.parametrize(
    ("track", "sentence"),
    [
        ("wandbb", "Unknown tracker 'wandbb'. Did you mean 'wandb'?"),
        ("none,wandb", "track must not combine .*, got none,wandb"),
    ],
)
def test_a_mistake_is_one_sentence(track: str, sentence: str, settings: Settings) -> None:
    with pytest.raises(SettingsError, match=sentence):
        settings(track=track)


def test_trackers_are_shown_numbers_alone() -> None:
    row = {"step": 3, "max_steps": 9, "eta_s": 1.0, "loss": None, "reward": 0.5, "num_tokens": 7}
    assert measures(row) == {"reward": 0.5, "num_tokens": 7}
