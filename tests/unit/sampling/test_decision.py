"""Which sampler settings apply: the one decision, case by case, and everybody who asks for it."""

from typing import Any, NamedTuple

import pytest

from remask import api
from remask.cli.query import Query
from remask.denoisers.base import Preset
from remask.errors import SettingsError
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.tasks import TASKS

LLADA = Preset(length=256, steps=256, block=32)


class Model(NamedTuple):
    preset: Preset = LLADA
    block_size: int | None = None


def lengths(settings: SamplerSettings) -> tuple[int, int, int]:
    return settings.length, settings.steps, settings.block


@pytest.mark.parametrize(
    ("preset", "asked", "expected"),
    [
        (LLADA, {}, (256, 256, 32)),
        # A task's canvas, a token a step, in the preset's blocks where they divide it.
        (LLADA, {"canvas": 64}, (64, 64, 32)),
        (LLADA, {"canvas": 80}, (80, 80, 80)),
        (Preset(length=256, steps=64, block=32), {"canvas": 64}, (64, 64, 32)),
        (Preset(length=256, steps=256, block=256), {"canvas": 64}, (64, 64, 64)),
        # A preset that was asked for by name decides on the canvas too.
        (Preset(length=256, steps=64, block=32, named=True), {"canvas": 64}, (256, 64, 32)),
        # What is given goes before both.
        (LLADA, {"length": 128}, (128, 128, 32)),
        (Preset(length=256, steps=256, block=256), {"length": 128}, (128, 128, 128)),
        (Preset(length=256, steps=64, block=32), {"length": 128}, (128, 64, 32)),
        (LLADA, {"canvas": 64, "length": 96}, (96, 96, 32)),
        (LLADA, {"canvas": 80, "steps": 20, "block": 40}, (80, 20, 40)),
    ],
)
def test_length_steps_and_block(
    preset: Preset, asked: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    assert lengths(sampler_settings(Model(preset), **asked)) == expected


def test_a_model_with_blocks_of_its_own_gets_whole_ones() -> None:
    model = Model(Preset(length=128, steps=128, block=4), block_size=4)
    assert lengths(sampler_settings(model, canvas=30)) == (32, 32, 4)
    with pytest.raises(SettingsError, match=r"length must be a multiple of block \(4\), got 30"):
        sampler_settings(model, canvas=64, length=30)


def test_a_length_that_the_blocks_do_not_divide_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"length must be a multiple of block \(32\), got 100"):
        sampler_settings(Model(), canvas=80, length=100)


def test_the_rest_is_as_the_preset_has_it_for_the_task_unless_given() -> None:
    model = Model(Preset(tasks={"countdown": {"temperature": 0.4, "order": "entropy"}}))
    usual = sampler_settings(model, kind="countdown")
    assert (usual.temperature, usual.order) == (0.4, "entropy")
    assert sampler_settings(model).temperature == 0
    given = sampler_settings(model, kind="countdown", order="random", temperature=0.0)
    assert (given.temperature, given.order, given.resample_temperature) == (0, "random", None)
    with pytest.raises(SettingsError, match="reveal_threshold must be above 0, got 0"):
        sampler_settings(model, reveal_threshold=0.0)


@pytest.mark.parametrize("named", [False, True])
def test_python_and_the_command_line_take_the_canvas_of_a_task(named: bool) -> None:
    """The longest of its levels where only the kind is known, that of the level where it is."""
    model: Any = Model(Preset(length=256, steps=256, block=32, named=named))
    task = TASKS["wordmath"]
    assert (task.canvas_length("easy"), task.canvas_length("hard")) == (64, 96)
    by_kind = sampler_settings(model, kind="wordmath", canvas=api.reader("wordmath").canvas)
    typed = Query("p", "wordmath").sampler(model, {})
    assert lengths(by_kind) == lengths(typed) == ((256, 256, 32) if named else (96, 96, 32))
    drawn = Query("p", "wordmath", task, task.problem(0, level="easy"))
    found = drawn.sampler(model, {})
    assert found.length == (256 if named else 64)


@pytest.mark.parametrize("kind", ["number", "choice", "code", "text"])
def test_a_kind_of_answer_is_no_task(kind: str) -> None:
    assert api.reader(kind).canvas is None
