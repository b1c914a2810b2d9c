"""Presets: how a model likes to be sampled."""

import math

import pytest

from remask.denoisers.base import Preset
from remask.errors import SettingsError
from remask.sampling.settings import SamplerSettings


def test_a_preset_is_read_and_keys_of_other_tools_are_left_alone() -> None:
    preset = Preset.read({"length": 64, "threshold": 0.9, "eos_token_id": 3})
    assert preset == Preset(length=64, threshold=0.9)


def test_departures_of_a_task_apply_to_that_task_alone() -> None:
    preset = Preset(length=64, tasks={"pycode": {"length": 96, "temperature": 0.5}})
    changed = preset.for_task("pycode")
    assert (changed.length, changed.temperature, changed.steps) == (96, 0.5, preset.steps)
    assert preset.for_task("wordmath") == preset


def test_a_number_is_the_threshold_of_the_round_trips_and_of_no_other_scorer() -> None:
    assert Preset().thresholds() == {"roundtrips": 0.75}, "the paper's"
    preset = Preset.read({"threshold": 0.9, "tasks": {"choice": {"threshold": 0.6}}})
    assert preset.thresholds() == {"roundtrips": 0.9}
    assert preset.thresholds("choice") == {"roundtrips": 0.6}


def test_a_threshold_is_for_one_kind_of_answer() -> None:
    """At the top level of the file for numbers, below `tasks` for one kind each."""
    config = {"threshold": {"editor": 0.4}, "tasks": {"choice": {"threshold": {"probe": 0.2}}}}
    preset = Preset.read({**config, "steps": 8})
    assert preset.thresholds("number") == {"roundtrips": 0.75, "editor": 0.4}
    assert preset.thresholds("choice") == {"probe": 0.2}
    assert preset.thresholds("code") == {"roundtrips": 0.75}, "the paper's"
    assert Preset.read({"threshold": {"roundtrips": 0.5}}) == Preset(threshold=0.5)


INVALID = [
    *(
        (name, value)
        for name in ("length", "steps", "block")
        for value in (0, 1.5, "32", None, True)
    ),
    *(("resample_temperature", value) for value in (0, -1, math.nan, math.inf, True, "0.7", None)),
    ("temperature", "hot"),
    ("temperature", None),
    ("threshold", None),
    ("threshold", "high"),
    ("threshold", [0.5]),
    ("threshold", {"roundtrips": None}),
    ("threshold", True),
    ("threshold", 1e999),
    ("threshold", {"probe": float("nan")}),
    ("threshold", {"roundtrips": {"editor": 0.5}}),
]


@pytest.mark.parametrize(("name", "value"), [*INVALID, ("tasks", [1]), ("tasks", {"code": 3})])
def test_an_invalid_setting_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=rf"^generation_config.json: {name}\b.* must be"):
        Preset.read({"steps": 8, name: value})


@pytest.mark.parametrize(("name", "value"), [*INVALID, ("schedule", "even"), ("lenght", 8)])
def test_an_invalid_setting_of_a_task_is_named(name: str, value: object) -> None:
    with pytest.raises(
        SettingsError, match=rf"^generation_config.json: tasks.code.{name}\b.* must be"
    ):
        Preset.read({"steps": 8, "tasks": {"code": {name: value}}})


def test_another_preset_with_the_thresholds_of_the_files() -> None:
    own = Preset(
        length=64,
        threshold={"roundtrips": 0.9, "editor": 0.4},
        tasks={"choice": {"threshold": 0.6, "length": 8}, "code": {}},
    )
    found = Preset(length=256, steps=256, block=8).with_thresholds(own)
    assert found.threshold == {"roundtrips": 0.9, "editor": 0.4}
    choice = found.for_task("choice")
    assert choice.threshold == {"roundtrips": 0.6, "editor": 0.4}
    assert (choice.length, choice.block) == (256, 8)


@pytest.mark.parametrize(
    ("size", "length", "steps"),
    [(32, 128, 128), (4, 128, 128), (5, 130, 130), (3, 129, 129), (200, 200, 128)],
)
def test_blocks_of_a_model_s_own_make_a_canvas_of_whole_ones(
    size: int, length: int, steps: int
) -> None:
    """128 tokens are 4 blocks of 32, but 26 of 5, which are 130 tokens, and one of 200."""
    preset = Preset().in_blocks(size)
    assert (preset.block, preset.length, preset.steps) == (size, length, steps)
    SamplerSettings.of(preset)


def test_blocks_share_steps_evenly() -> None:
    """64 steps over 100 tokens in 34 blocks of 3 are 2 for each."""
    preset = Preset(length=100, steps=64).in_blocks(3)
    assert (preset.length, preset.steps) == (102, 68)
