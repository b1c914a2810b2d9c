"""The temperature of further samples: above 0 for whatever can be loaded."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.denoisers import catalog, presets
from remask.denoisers.base import Preset
from remask.denoisers.load import FAMILIES, load
from remask.denoisers.resampling import BY_ARCHITECTURE, USUAL, resampling
from remask.errors import SettingsError
from remask.sampling.settings import SamplerSettings
from remask.testing import write_checkpoint


@pytest.mark.parametrize("checkpoint", catalog.CHECKPOINTS, ids=lambda c: c.id)
def test_every_published_id_can_be_asked_ten_times(checkpoint: catalog.Checkpoint) -> None:
    architecture = checkpoint.architecture
    named = [presets.translate(checkpoint, published).preset for published in checkpoint.presets]
    for preset in (presets.start(checkpoint.id) or presets.usual(architecture), *named):
        assert preset.resample_temperature == resampling(architecture).temperature
        pool = SamplerSettings.of(preset).for_pool(10)
        assert pool.for_sample(1).temperature > 0


@pytest.mark.parametrize("architecture", [*FAMILIES, "SomethingElse"])
def test_every_architecture_has_a_temperature_and_its_source(architecture: str) -> None:
    found = resampling(architecture)
    assert 0.6 <= found.temperature <= 1.0
    assert found.source
    assert set(BY_ARCHITECTURE) <= set(FAMILIES)


def test_a_preset_of_nobodys_has_one() -> None:
    assert Preset().resample_temperature == USUAL.temperature == 0.7


def test_a_folder_gets_that_of_its_architecture_unless_it_says_one(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", dtype=torch.float32)
    config = folder / "generation_config.json"
    for own, expected in (
        ({}, 0.9),
        ({"length": 8, "steps": 8, "block": 8}, 0.9),
        ({"resample_temperature": 0.4}, 0.4),
    ):
        config.write_text(json.dumps(own))
        assert load(folder, device="cpu").preset.resample_temperature == expected


@pytest.mark.parametrize("value", [0, 0.0, -1, math.nan, math.inf, True, "0.7", None])
def test_a_file_that_asks_for_copies_is_refused(value: Any) -> None:
    for told in (
        {"resample_temperature": value},
        {"tasks": {"x": {"resample_temperature": value}}},
    ):
        with pytest.raises(SettingsError, match="resample_temperature in generation_config"):
            Preset.read(told)
