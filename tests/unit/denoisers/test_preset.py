"""Presets: how a model likes to be sampled."""

import re

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


@pytest.mark.parametrize("name", ["length", "steps", "block"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "32", None, True])
def test_a_count_that_is_no_count_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=f"{name} in generation_config.json is {value!r}"):
        Preset.read({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
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
        ("tasks", [1]),
    ],
)
def test_what_is_neither_a_number_nor_departures_by_task_is_named(name: str, value: object) -> None:
    told = re.escape(f"{name} in generation_config.json is {value!r}; give ")
    with pytest.raises(SettingsError, match=told):
        Preset.read({"steps": 8, name: value})


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
