"""Sub-blocks: what they hold back, what they cost, and what cannot be asked of them.

That Fast-dLLM v2 is written as its authors write it is checked in tests/reference.
"""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from remask.denoisers.base import Preset
from remask.errors import SettingsError
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.testing import ScriptedDenoiser

PROMPT = [65, 66, 67]


def denoiser(probs: list[float]) -> ScriptedDenoiser:
    """Return one that predicts token 70 + i at the i-th place behind the prompt, so surely."""
    table = torch.zeros(len(PROMPT) + len(probs), 262)
    for i, prob in enumerate(probs):
        # The mask token is never predicted: 260 others share what is left.
        table[len(PROMPT) + i, 70 + i] = math.log(prob / (1 - prob) * 260)
    return ScriptedDenoiser.from_table(table)


def write(probs: list[float], **changes: Any) -> tuple[list[int], int]:
    """Return the step that wrote each token, and the forward passes."""
    length = len(probs)
    how = SamplerSettings(**{"length": length, "steps": length, "block": length, **changes})
    (answer,) = sample(denoiser(probs), [PROMPT], how, items=["a"])
    assert list(answer.canvas) == [70 + i for i in range(length)]
    assert answer.probs == pytest.approx(probs, abs=1e-5)
    return list(answer.steps), answer.forwards


def test_a_sub_block_waits_for_the_one_before_it() -> None:
    """The last two are sure at once, but come third; steps leave room for two in each portion."""
    probs = [0.5, 0.6, 0.99, 0.99]
    assert write(probs, reveal_threshold=0.9) == ([2, 1, 0, 0], 3)
    assert write(probs, reveal_threshold=0.9, sub_block=2) == ([1, 0, 2, 2], 3)
    assert write(probs, reveal_threshold=0.9, sub_block=1) == ([0, 1, 2, 3], 4)
    assert write(probs, reveal_threshold=0.9, sub_block=4) == ([2, 1, 0, 0], 3)


def test_without_a_threshold_the_steps_of_a_block_are_shared_evenly() -> None:
    """8 tokens in 4 steps, 2 portions of 4: two steps of two tokens for each."""
    probs = [0.5, 0.6, 0.7, 0.8, 0.95, 0.9, 0.85, 0.75]
    assert write(probs, steps=4, sub_block=4) == ([1, 1, 0, 0, 2, 2, 3, 3], 4)


def test_sub_blocks_belong_to_their_block() -> None:
    """Blocks of 4, portions of 2: steps count on through the blocks."""
    probs = [0.5, 0.6, 0.99, 0.99, 0.8, 0.7, 0.95, 0.96]
    assert write(probs, block=4, reveal_threshold=0.9, sub_block=2) == (
        [1, 0, 2, 2, 4, 5, 6, 6],
        6,
    )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"sub_block": 3}, "block 8 is no multiple of sub_block 3; adjust one"),
        ({"sub_block": 0}, "block 8 is no multiple of sub_block 0"),
        ({"sub_block": -2}, "block 8 is no multiple of sub_block -2"),
        ({"sub_block": 16}, "block 8 is no multiple of sub_block 16"),
        ({"sub_block": 2, "steps": 4}, "gives a block 2, no multiple of its 4 sub-blocks"),
        ({"sub_block": 4, "edit_threshold": 0.5, "reveal_threshold": 0.9}, "edits a block as a w"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(SettingsError, match=what):
        SamplerSettings(**{"length": 16, "steps": 16, "block": 8, **changes})


@pytest.mark.parametrize("value", [0, -8, 1.5, True, "8"])
def test_a_file_must_give_a_count(value: Any) -> None:
    with pytest.raises(SettingsError, match="sub_block must be"):
        Preset.read({"sub_block": value})


def test_a_preset_may_ask_for_it() -> None:
    preset = Preset.read({"length": 64, "steps": 64, "block": 32, "sub_block": 8})
    assert SamplerSettings.of(preset).sub_block == 8
    assert SamplerSettings.of(Preset()).sub_block is None


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [("even", [0, 0, 0, 0, 1, 2]), ("shares", [0, 0, 0, 0, 1, 1])],
)
def test_a_share_is_revealed_although_a_threshold_was_ahead_of_it(
    schedule: str, steps: list[int]
) -> None:
    """6 tokens in 3 steps, two for each. Four are sure at once, so that a schedule that counts what
    is still masked asks the second step for none: it reveals the best alone.
    """
    probs = [0.95, 0.96, 0.97, 0.98, 0.6, 0.5]
    model = replace(denoiser(probs), preset=Preset(schedule=schedule))
    how = SamplerSettings(length=6, steps=3, block=6, reveal_threshold=0.9)
    (answer,) = sample(model, [PROMPT], how, items=["a"])
    assert list(answer.steps) == steps
