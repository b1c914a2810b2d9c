"""Pools of samples: what each of them is drawn at, alone, in a batch and a block at a time."""

import math
from dataclasses import asdict, replace

import pytest

from remask.denoisers.base import Preset
from remask.denoisers.native import NativeDenoiser
from remask.errors import SettingsError
from remask.sampling.drafts import advance, begin, finished
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.values import Sample

PROMPTS = [[5, 6, 7], [8, 9]]
PLAIN = SamplerSettings(length=8, steps=8, block=4)
POOL = replace(PLAIN, resample_temperature=0.6)


def drawn(model: NativeDenoiser, settings: SamplerSettings, number: int) -> list[Sample]:
    return sample(model, PROMPTS, settings, items=["a", "b"], number=number, seed=3)


def test_sample_0_is_greedy_and_the_others_are_warmer() -> None:
    assert POOL.for_sample(0) == PLAIN
    assert POOL.for_sample(1) == POOL.for_sample(9) == replace(PLAIN, temperature=0.6)


def test_without_a_second_temperature_every_sample_is_drawn_alike() -> None:
    warm = replace(PLAIN, temperature=0.3)
    assert [warm.for_sample(n) for n in (0, 1)] == [warm, warm]
    assert [PLAIN.for_sample(n) for n in (0, 1)] == [PLAIN, PLAIN]


def test_a_temperature_above_0_leaves_no_room_for_a_second_one() -> None:
    """So settings that draw the same samples are equal, in a manifest too."""
    warm = replace(POOL, temperature=0.3)
    assert asdict(warm) == asdict(replace(PLAIN, temperature=0.3))
    assert POOL.at(0.3) == warm
    assert POOL.at(0.0) == PLAIN


def test_a_preset_brings_its_second_temperature() -> None:
    greedy = SamplerSettings.of(Preset(resample_temperature=0.9))
    assert (greedy.temperature, greedy.resample_temperature) == (0.0, 0.9)
    assert SamplerSettings.of(Preset(temperature=0.2)).resample_temperature is None


@pytest.mark.parametrize("value", [0.0, -0.1, math.nan, math.inf])
def test_a_second_temperature_that_draws_no_other_sample_is_refused(value: float) -> None:
    with pytest.raises(SettingsError, match=f"resample_temperature must be .*above 0, got {value}"):
        replace(PLAIN, resample_temperature=value)


def test_a_pool_of_copies_is_refused_by_the_name_of_the_setting() -> None:
    assert PLAIN.for_pool(1) == POOL.for_pool(1) == PLAIN
    assert POOL.for_pool(2) == POOL
    for size, what in ((2, "budget"), (10, "samples")):
        with pytest.raises(SettingsError, match=f"and {what} is {size}; .* or {what} 1"):
            PLAIN.for_pool(size, what)


def test_what_is_drawn_is_what_either_temperature_draws(llada: NativeDenoiser) -> None:
    warm = replace(PLAIN, temperature=0.6)
    first, second = drawn(llada, POOL, 0), drawn(llada, POOL, 1)
    assert first == drawn(llada, PLAIN, 0)
    assert second == drawn(llada, warm, 1)
    assert all(a.canvas != b.canvas for a, b in zip(first, second, strict=True))


def test_drafts_of_a_pool_are_its_samples_in_any_company(llada: NativeDenoiser) -> None:
    """The greedy one and the warm ones have manners of their own: a batch has one temperature."""
    drafts = [begin(llada, PROMPTS[0], POOL, item="a", number=n, seed=3) for n in (0, 1, 2)]
    assert [draft.block_settings.temperature for draft in drafts] == [0.0, 0.6, 0.6]
    assert drafts[1].block_settings == drafts[2].block_settings != drafts[0].block_settings
    assert replace(drafts[0], number=1).block_settings == drafts[1].block_settings
    for group in (drafts[:1], drafts[1:]):
        rows = group
        while not all(row.ended for row in rows):
            rows = [new for row in rows for new in ([row] if row.ended else advance(llada, [row]))]
        for row in rows:
            known = sample(llada, PROMPTS[:1], POOL, items=["a"], number=row.number, seed=3)
            assert finished(llada, row).canvas == known[0].canvas
    together = advance(llada, drafts[1:])
    assert [row.canvas for row in together] == [advance(llada, [d])[0].canvas for d in drafts[1:]]
