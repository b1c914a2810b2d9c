"""Published presets: their settings, how they are found, and which one a model is loaded with."""

import json
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remask.denoisers import catalog
from remask.denoisers.base import Preset
from remask.denoisers.catalog import (
    Checkpoint,
    PublishedPreset,
    UnsupportedSetting,
    default_preset,
    family_preset,
    find_preset,
    preset,
    resampling,
)
from remask.denoisers.load import FAMILIES, load
from remask.errors import SettingsError
from remask.sampling.settings import SamplerSettings
from remask.testing import write_checkpoint

INSTRUCT = "GSAI-ML/LLaDA-8B-Instruct"
DREAM = "Dream-org/Dream-v0-Instruct-7B"
DREAM_CODER = "Dream-org/Dream-Coder-v0-Instruct-7B"
LLADA = Preset(resample_temperature=0.9)
DREAM_CHAT = Preset(
    length=512, steps=512, block=512, temperature=0.2, order="entropy", top_p=0.95, top_k=50,
    resample_temperature=0.8,
)  # fmt: skip
FAST = Preset(length=2048, steps=2048, block=32, sub_block=8)
ALL = [(c, p) for c in catalog.CHECKPOINTS for p in c.presets]


@pytest.mark.parametrize(("owner", "published"), ALL, ids=[f"{c.id}:{p.task}" for c, p in ALL])
def test_every_preset_fits_the_sampler_and_the_context(
    owner: Checkpoint, published: PublishedPreset
) -> None:
    assert find_preset(owner.id, published.task) is published
    settings = SamplerSettings.of(published.preset)
    assert settings.length < owner.context
    assert settings.for_pool(10).for_sample(1).temperature > 0
    assert published.preset.resample_temperature == resampling(owner.architecture)["temperature"]
    assert "/" in published.source
    assert published.accuracy is None or 0 < published.accuracy < 100


@pytest.mark.parametrize("checkpoint", catalog.CHECKPOINTS, ids=lambda c: c.id)
def test_names_are_unique_and_defaults_can_be_drawn_ten_times(checkpoint: Checkpoint) -> None:
    tasks = [published.task for published in checkpoint.presets]
    assert len(tasks) == len(set(tasks))
    default = default_preset(checkpoint.id) or family_preset(checkpoint.architecture)
    assert SamplerSettings.of(default).for_pool(10).for_sample(1).temperature > 0
    assert default.length <= 1024


@pytest.mark.parametrize(
    ("model", "task", "accuracy", "expected"),
    [
        (INSTRUCT, "GSM8K", 78.9, replace(LLADA, length=256, steps=256, block=8)),
        (INSTRUCT, "MATH", 42.7, replace(LLADA, length=512, steps=512, block=64)),
        (INSTRUCT, "HumanEval, block 32", None, replace(LLADA, length=512, steps=512, block=32)),
        (INSTRUCT, "GPQA, block 64", None, replace(LLADA, length=128, steps=128, block=64)),
        (
            INSTRUCT, "IFEval", None,
            replace(LLADA, length=512, steps=512, block=512, ends_last=True),
        ),
        (
            "GSAI-ML/LLaDA-1.5", "GSM8K", 83.6,
            replace(LLADA, length=256, steps=256, block=16, ends_last=True),
        ),
        (
            "GSAI-ML/LLaDA-8B-Base", "BBH, length 256", 45.0,
            replace(LLADA, length=256, steps=256, block=256),
        ),
        ("GSAI-ML/iLLaDA-8B-Instruct", "MMLU-Redux", None, Preset(length=4, steps=4, block=4)),
        (DREAM, "chat", None, DREAM_CHAT),
        # The benchmark script passes top_k None.
        (DREAM, "GSM8K", 81.0, replace(
            DREAM_CHAT, length=256, steps=256, block=256, temperature=0.1, top_p=0.9, top_k=None
        )),
        # The steps are not published: one per token is the upper limit.
        ("inclusionAI/LLaDA-MoE-7B-A1B-Instruct", "gsm8k", None, Preset(
            length=1024, steps=1024, block=64, reveal_threshold=0.76
        )),
        # LLaDA2, SDAR and TraDo count steps per block: 32 x 64 blocks, 4 x 1,024, 4 x 500.
        ("inclusionAI/LLaDA2.0-mini", "CMATH", 95.72, Preset(
            length=2048, steps=2048, block=32, reveal_threshold=0.95
        )),
        ("JetLM/SDAR-8B-Chat", "GSM8K", 91.3, Preset(
            length=4096, steps=4096, block=4, resample_temperature=1.0
        )),
        ("Gen-Verse/TraDo-4B-Instruct", "GSM8K", 90.3, Preset(
            length=2000, steps=2000, block=4, temperature=1.0, top_p=1.0, reveal_threshold=0.9,
            resample_temperature=1.0,
        )),
        # No probability exceeds a threshold of 1, so every step reveals one token.
        ("Efficient-Large-Model/Fast_dLLM_v2_7B", "MATH", 61.6, FAST),
        (
            "Efficient-Large-Model/Fast_dLLM_v2_7B", "chat", None,
            replace(FAST, reveal_threshold=0.9),
        ),
    ],
)  # fmt: skip
def test_settings_are_the_authors(
    model: str, task: str, accuracy: float | None, expected: Preset
) -> None:
    found = find_preset(model, task)
    assert (found.preset, found.accuracy) == (expected, accuracy)


def test_only_humaneval_of_llada_suppresses_the_end_of_text() -> None:
    checkpoint = catalog.find(INSTRUCT)
    assert checkpoint is not None
    assert [p.task for p in checkpoint.presets if p.preset.suppress_eos] == ["HumanEval"]


@pytest.mark.parametrize("kind", ["mdlm", "bd3lm"])
def test_a2d_models_are_given_three_examples_of_bbh(kind: str) -> None:
    found = find_preset(f"dllm-hub/Qwen3-0.6B-diffusion-{kind}-v0.1", "BBH")
    assert found.prompt == "3 examples, chat"


@pytest.mark.parametrize(
    ("name", "unsupported"),
    [
        ("GSAI-ML/iLLaDA-8B-Base:GSM8K", {"var": True}),
        (f"{DREAM_CODER}:code", {"eos_penalty": 3.0}),
    ],
)
def test_unsupported_settings_are_listed_in_a_warning(
    name: str, unsupported: dict[str, Any]
) -> None:
    found = find_preset("", name)
    assert found.unsupported == unsupported
    with pytest.warns(UnsupportedSetting) as caught:
        assert preset("", name) == found.preset
    assert all(f"{key}={value}" in str(caught[0].message) for key, value in unsupported.items())


def test_a_supported_preset_comes_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert preset(INSTRUCT, "GSM8K").block == 8


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("GSM8K", "GSM8K"),  # although another begins with it
        ("gsm8k", "GSM8K"),
        (" Humaneval ", "HumanEval"),
        ("gsm8k, p", "GSM8K, pure diffusion"),
        ("hella", "HellaSwag"),
        ("gsai-ml/llada-1.5:ife", "IFEval"),
    ],
)
def test_names_are_found_in_any_case_and_by_their_beginning(text: str, task: str) -> None:
    assert find_preset(INSTRUCT, text).task == task


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("MM", ["one of 'MMLU', 'MMLU-Pro', got 'MM'"]),
        ("", ["one of 'GSM8K', 'MATH', 'GSM8K, pure diffusion'", "got ''"]),
        ("chess", ["one of 'GSM8K', 'MATH', ", "got 'chess'"]),
        ("GMS8K", ["'GMS8K'", "Did you mean 'GSM8K'?"]),
        ("tiny:GSM8K", ["tiny has no published presets"]),
        ("inclusionAI/LLaDA-MoE-7B-A1B-Base:GSM8K", ["LLaDA-MoE-7B-A1B-Base has no published"]),
    ],
)
def test_an_unknown_name_raises_with_the_known_ones(text: str, parts: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        find_preset(INSTRUCT, text)
    assert all(part in str(caught.value) for part in parts)


@given(st.text(max_size=12))
def test_any_text_is_a_preset_or_an_error(text: str) -> None:
    with suppress(SettingsError):
        assert find_preset(INSTRUCT, text).task.lower().startswith(text.strip().lower())


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (INSTRUCT, replace(LLADA, length=256, steps=256, block=8)),
        (DREAM, DREAM_CHAT),  # not GSM8K
        (  # 2,048 tokens and steps are cut to 1,024 each
            "inclusionAI/LLaDA2.0-mini",
            Preset(length=1024, steps=1024, block=32, reveal_threshold=0.95),
        ),
        (
            DREAM_CODER,
            replace(DREAM_CHAT, length=768, steps=768, block=768, temperature=0.1),
        ),
        ("GSAI-ML/iLLaDA-8B-Base", None),  # the first has unsupported settings
        ("inclusionAI/LLaDA-MoE-7B-A1B-Base", None),
        ("someone/else", None),
    ],
)
def test_the_default_of_a_hub_id_is_supported(model: str, expected: Preset | None) -> None:
    assert default_preset(model) == expected


@pytest.mark.parametrize("architecture", [*FAMILIES, "SomethingElse"])
def test_every_architecture_has_a_temperature_with_its_source(architecture: str) -> None:
    found = resampling(architecture)
    assert 0.6 <= found["temperature"] <= 1.0
    assert found["source"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub whose every id is the same small checkpoint, without a preset of its own."""
    folder = write_checkpoint(tmp_path / "model", dtype=torch.float32)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 0}))
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(folder))
    return folder


def test_load_takes_the_default_of_a_hub_id(hub: Path) -> None:
    expected = replace(LLADA, length=256, steps=256, block=8)
    assert load(INSTRUCT, device="cpu").preset == expected
    assert load("someone/else", device="cpu").preset == LLADA
    assert load(hub, device="cpu").preset == LLADA


def test_load_takes_the_settings_of_the_files_before_the_default(hub: Path) -> None:
    own = {"alg": "origin", "steps": 64}
    (hub / "generation_config.json").write_text(json.dumps(own))
    found = load(INSTRUCT, device="cpu").preset
    assert (found.length, found.steps, found.block, found.order) == (64, 64, 64, "origin")


@pytest.mark.parametrize(
    ("own", "expected"), [({"length": 8}, 0.9), ({"resample_temperature": 0.4}, 0.4)]
)
def test_files_may_set_the_temperature_of_further_samples(
    hub: Path, own: dict[str, Any], expected: float
) -> None:
    (hub / "generation_config.json").write_text(json.dumps(own))
    assert load(hub, device="cpu").preset.resample_temperature == expected


def test_load_takes_the_requested_preset_with_the_thresholds_of_the_files(hub: Path) -> None:
    assert load(INSTRUCT, device="cpu", preset="math").preset == preset(INSTRUCT, "MATH")
    (hub / "generation_config.json").write_text(json.dumps({"length": 16, "threshold": 0.5}))
    found = load(hub, device="cpu", preset="GSAI-ML/LLaDA-1.5:GSM8K").preset
    assert found == replace(LLADA, length=256, steps=256, block=16, ends_last=True, threshold=0.5)


def test_load_refuses_an_unknown_preset_before_it_downloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("it downloaded")
    )
    with pytest.raises(SettingsError, match="'chess'"):
        load(INSTRUCT, device="cpu", preset="chess")


@pytest.mark.usefixtures("hub")
def test_load_warns_of_unsupported_settings() -> None:
    with pytest.warns(UnsupportedSetting, match=r"eos_penalty=3\.0"):
        load(DREAM_CODER, device="cpu", preset="code")
