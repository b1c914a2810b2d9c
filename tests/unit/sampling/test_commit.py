"""Early commit: when the gap opens, what it writes and saves, and what stays as it was."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.wrap import Counted
from remask.errors import SettingsError
from remask.sampling.commit import commit_threshold, opens, token_gap
from remask.sampling.sampler import sample
from remask.sampling.settings import EditSettings, Rule, SamplerSettings, sampler_settings
from remask.values import Sample

ByPlace = Callable[[Sequence[Mapping[str, float]]], Denoiser]
PROMPTS = ["ab", "a longer prompt", "x", "one of middling size"]
SURE = {"a": 0.9, "x": 0.1}  # a gap of log 9 = 2.2
UNSURE = {"a": 0.6, "x": 0.3, "y": 0.1}  # log 2 = 0.7


def settings(length: int, **changes: Any) -> SamplerSettings:
    return SamplerSettings(**{"length": length, "steps": length, "block": length, **changes})


def write(model: Denoiser, how: SamplerSettings, prompts: Sequence[str] = "p") -> list[Sample]:
    encoded = [model.tokenizer.encode(prompt) for prompt in prompts]
    return sample(model, encoded, how, items=list(prompts), number=1)


def test_thresholds_fall_in_three_phases_as_published() -> None:
    """Sixths: .17 is early, .33, .5 and .67 are beyond .33 and below .67 (.666...), then late."""
    assert [commit_threshold(5.0, step, 6) for step in range(6)] == [7.5, 5, 5, 5, 2.5, 2.5]
    assert commit_threshold(5.0, 0, 1) == 2.5


def test_a_gap_is_the_lead_of_the_likeliest_token() -> None:
    logits = torch.tensor([[1.0, 4.0, 3.5], [2.0, 2.0, -torch.inf], [0.0, -torch.inf, -torch.inf]])
    assert token_gap(logits).tolist() == [0.5, 0.0, math.inf]


def test_the_least_gap_of_what_is_masked_decides() -> None:
    """2 reaches 2; the row with nothing masked has nothing to commit."""
    gaps = torch.tensor([[9.0, 0.0, 2.0, 0.0], [9.0, 0.0, 1.9, 9.0], [0.0, 0.0, 0.0, 0.0]])
    assert opens(gaps, gaps > 0, 2.0).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("gap", "steps", "forwards"),
    [
        (1.4, (0, 0, 0, 0, 0, 0), 1),  # 2.2 is above 2.1 at once
        (2.0, (0, 1, 1, 1, 1, 1), 2),  # below 3, above 2
        (4.0, (0, 1, 2, 3, 4, 4), 5),  # below 6 and 4, above 2
        (5.0, (0, 1, 2, 3, 4, 5), 6),  # below 2.5 to the end
        (None, (0, 1, 2, 3, 4, 5), 6),
    ],
)
def test_a_block_is_committed_when_the_gap_opens(
    by_place: ByPlace, gap: float | None, steps: tuple[int, ...], forwards: int
) -> None:
    model = Counted(by_place([SURE] * 6))
    (answer,) = write(model, settings(6, commit_gap=gap))
    assert answer.steps == steps
    assert answer.forwards == model.forwards == forwards
    assert answer.text == "aaaaaa"
    assert answer.probs == pytest.approx([0.9] * 6)


def test_one_unsure_place_keeps_a_block_open(by_place: ByPlace) -> None:
    """However sure the others are, as the ends of a tail: of 1.2, late is .6, which .7 reaches."""
    model = by_place([SURE] * 5 + [UNSURE])
    (answer,) = write(model, settings(6, commit_gap=1.2))
    assert (answer.steps, answer.forwards) == ((0, 1, 2, 3, 4, 4), 5)


def test_places_that_are_revealed_do_not_count(by_place: ByPlace) -> None:
    """The first place, the likeliest, has a gap of .04, the others have log 3 = 1.1.

    Of 1, early is 1.5, and then it is 1: the second step commits what the first has left.
    """
    tied = {"a": 0.51, "x": 0.49}
    broad = {"a": 0.3, **dict.fromkeys("stuvwxy", 0.1)}
    (answer,) = write(by_place([tied, broad, broad, broad]), settings(4, commit_gap=1.0))
    assert (answer.steps, answer.forwards) == ((0, 1, 1, 1), 2)


def test_later_blocks_are_still_written(by_place: ByPlace) -> None:
    """The first block of two opens at once, the second, with .7, not before its last step."""
    model = by_place([SURE, SURE, UNSURE, UNSURE])
    (answer,) = write(model, settings(4, block=2, commit_gap=1.5))
    # Half of a block's steps is the middle phase: 1.5; its last is late, and all that is left.
    assert (answer.steps, answer.forwards) == ((0, 0, 2, 3), 3)


ORDERS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.8},
    {"order": "entropy", "top_p": 0.9, "temperature": 0.5},
    {"order": "topk_margin", "order_temperature": 0.3},
    {"reveal_threshold": 0.3},
    {"ends_last": True, "suppress_eos": True},
]


@pytest.mark.parametrize("changes", ORDERS)
@pytest.mark.parametrize("family", ["llada", "block_causal"])
def test_a_gap_that_never_opens_changes_nothing(
    family: str, changes: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(family)
    how = settings(12, **{"steps": 6, "block": 4, **changes})
    assert write(model, replace(how, commit_gap=1e6), PROMPTS) == write(model, how, PROMPTS)


@pytest.mark.parametrize("changes", ORDERS[:4])
@pytest.mark.parametrize("family", ["llada", "block_causal"])
def test_a_gap_that_is_always_open_writes_a_block_in_a_step(
    family: str, changes: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """With the likeliest tokens at every temperature: as a greedy answer in a step a block."""
    model = request.getfixturevalue(family)
    how = settings(12, block=4, **changes)
    at_once = write(model, replace(how, commit_gap=1e-9), PROMPTS)
    greedy = write(model, replace(how, steps=3, temperature=0.0), PROMPTS)
    for ours, theirs in zip(at_once, greedy, strict=True):
        assert (ours.canvas, ours.forwards) == (theirs.canvas, theirs.forwards)
        assert ours.probs == pytest.approx(theirs.probs)


@pytest.mark.parametrize("gap", [0.03, 0.3, 1.0])
@pytest.mark.parametrize("family", ["llada", "block_causal"])
def test_a_row_commits_in_any_company(
    family: str, gap: float, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(family)
    how = settings(12, block=4, temperature=0.5, commit_gap=gap)
    together = write(model, how, PROMPTS)
    alone = [answer for prompt in PROMPTS for answer in write(model, how, [prompt])]
    assert [(a.canvas, a.steps, a.forwards) for a in together] == [
        (a.canvas, a.steps, a.forwards) for a in alone
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"commit_gap": 0.0}, r"commit_gap must be above 0, got 0\.0"),
        ({"commit_gap": math.inf}, "commit_gap must be .*, got inf"),
        ({"commit_gap": 5.0, "order": "random"}, "order 'random' does not look at them"),
        ({"commit_gap": 5.0, "order": "origin"}, "order 'origin' does not look at them"),
        ({"commit_gap": 5.0, "sub_block": 2}, "leave sub_block or commit_gap out"),
        (
            {"commit_gap": 5.0, "edit_threshold": 0.9, "reveal_threshold": 0.9},
            "leave commit_gap or edit_threshold out",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings(4, **changes)


def test_editing_alone_refuses_it() -> None:
    with pytest.raises(SettingsError, match="leave commit_gap or edit_threshold out"):
        EditSettings(commit_gap=5.0)
    assert Rule(commit_gap=5.0).commit_gap == 5.0


def test_a_preset_may_ask_for_it(llada: Denoiser) -> None:
    preset = Preset.read({"length": 8, "steps": 8, "block": 8, "commit_gap": 5})
    assert SamplerSettings.of(preset).commit_gap == 5
    assert SamplerSettings.of(Preset()).commit_gap is None
    with pytest.raises(SettingsError, match="commit_gap must be above 0, got 0"):
        Preset.read({"commit_gap": 0})
    assert sampler_settings(llada, commit_gap=2.5).commit_gap == 2.5
