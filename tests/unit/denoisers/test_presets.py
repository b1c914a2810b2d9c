"""Published presets in our words: every one can be sampled with, and nothing is lost on the way."""

import json
import re
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
from remask.denoisers.load import load
from remask.denoisers.presets import Official, Unmet, merged, official, preset, start, translate
from remask.denoisers.published import Checkpoint, Published, Setting
from remask.errors import SettingsError
from remask.sampling.settings import SamplerSettings
from remask.testing import write_checkpoint

INSTRUCT = "GSAI-ML/LLaDA-8B-Instruct"
DREAM = "Dream-org/Dream-v0-Instruct-7B"
LLADA = Preset(resample_temperature=0.9)  # d1's rollouts
ALL = [(c, p) for c in catalog.CHECKPOINTS for p in c.presets]


def checkpoint(model: str) -> Checkpoint:
    found = catalog.find(model)
    assert found is not None
    return found


def translated(settings: dict[str, Any], model: str = INSTRUCT) -> Official:
    return translate(
        checkpoint(model), Published(task="x", settings=settings, accuracy=None, source="a/b")
    )


@pytest.mark.parametrize(("owner", "published"), ALL, ids=[f"{c.id}:{p.task}" for c, p in ALL])
def test_every_preset_of_the_catalogue_makes_a_sampler(
    owner: Checkpoint, published: Published
) -> None:
    found = official(owner.id, published.task)
    assert found.published is published
    settings = SamplerSettings.of(found.preset)  # raises where lengths, blocks, steps do not fit
    theirs = published.settings
    names = ("gen_length", "max_new_tokens", "max_token")
    assert settings.length == next(theirs[name] for name in names if name in theirs)
    assert settings.temperature == theirs.get("temperature", 0.0)


@pytest.mark.parametrize(("owner", "published"), ALL, ids=[f"{c.id}:{p.task}" for c, p in ALL])
def test_no_parameter_is_dropped_in_silence(owner: Checkpoint, published: Published) -> None:
    """Another value of any one is another preset, or other things unmet."""
    before = translate(owner, published)
    odd: dict[type, Setting] = {int: 24_576, float: 0.123, str: "other", bool: True}
    for name, value in published.settings.items():
        other = (not value) if isinstance(value, bool) else odd[type(value)]
        changed = translate(
            owner,
            Published(
                task="x", settings={**published.settings, name: other}, accuracy=None, source="a/b"
            ),
        )
        assert (changed.preset, changed.unmet) != (before.preset, before.unmet), name


def test_lladas_blocks_and_rules_keep_their_meaning() -> None:
    """LLaDA-1.5 writes GSM8K in 16 blocks of 16, a token a step, end tokens last."""
    assert official("GSAI-ML/LLaDA-1.5", "GSM8K").preset == Preset(
        length=256, steps=256, block=16, ends_last=True, resample_temperature=0.9
    )
    assert official(INSTRUCT, "MATH").preset == replace(LLADA, length=512, steps=512, block=64)


@pytest.mark.parametrize(
    ("model", "task", "length", "block", "accuracy"),
    [
        ("GSAI-ML/LLaDA-8B-Base", "BBH, length 256", 256, 256, 45.0),
        ("GSAI-ML/LLaDA-8B-Base", "MBPP, length 512", 512, 512, 39.2),
        (INSTRUCT, "HumanEval, block 32", 512, 32, None),
        (INSTRUCT, "GPQA, block 64", 128, 64, None),
        (INSTRUCT, "IFEval", 512, 512, None),
        (INSTRUCT, "MATH, length 256", 256, 256, None),
        ("GSAI-ML/iLLaDA-8B-Instruct", "MMLU-Redux", 4, 4, None),
    ],
)
def test_presets_of_the_authors_scripts(
    model: str, task: str, length: int, block: int, accuracy: float | None
) -> None:
    found = official(model, task)
    assert (found.preset.length, found.preset.steps) == (length, length)
    assert found.preset.block == block
    assert found.published.accuracy == accuracy


def test_a_strategy_that_is_not_implemented_is_refused() -> None:
    """SDAR's `sequential` is an order; its `entropy_bounded` is unknown."""
    settings = {"gen_length": 8, "remasking_strategy": "sequential"}
    assert SamplerSettings.of(translated(settings).preset).order == "sequential"
    unknown = translated({**settings, "remasking_strategy": "entropy_bounded"})
    with pytest.raises(SettingsError, match="entropy_bounded"):
        SamplerSettings.of(unknown.preset)


def test_both_a2d_models_are_asked_bbh_with_three_examples() -> None:
    for kind in ("mdlm", "bd3lm"):
        found = official(f"dllm-hub/Qwen3-0.6B-diffusion-{kind}-v0.1", "BBH")
        assert found.published.prompt == "3 examples, chat"


def test_dreams_orders_and_filters_keep_their_meaning() -> None:
    assert official(DREAM, "chat").preset == Preset(
        length=512, steps=512, block=512, temperature=0.2, order="entropy", top_p=0.95, top_k=50,
        resample_temperature=0.8,
    )  # fmt: skip
    assert official(DREAM, "GSM8K").preset.top_k is None  # the benchmark script passes None
    found = translated({"max_new_tokens": 8, "alg": "topk_margin", "alg_temp": 0.5, "top_k": 3})
    assert found.preset == Preset(
        length=8, steps=8, block=8, order="topk_margin", order_temperature=0.5, top_k=3,
        resample_temperature=0.9,
    )  # fmt: skip


def test_lladamoe_without_steps_may_take_one_per_token() -> None:
    assert official("inclusionAI/LLaDA-MoE-7B-A1B-Instruct", "gsm8k").preset == Preset(
        length=1024, steps=1024, block=64, reveal_threshold=0.76
    )


def test_steps_of_llada2_are_counted_per_block() -> None:
    """32 steps for each of 2,048 / 32 = 64 blocks: 2,048."""
    assert official("inclusionAI/LLaDA2.0-mini", "CMATH").preset == Preset(
        length=2048, steps=2048, block=32, reveal_threshold=0.95
    )


def test_sdar_counts_steps_per_block_and_calls_its_order_by_its_threshold() -> None:
    """4 steps for each of 4,096 / 4 blocks; for TraDo, 4 for each of 2,000 / 4."""
    assert official("JetLM/SDAR-8B-Chat", "GSM8K").preset == Preset(
        length=4096, steps=4096, block=4, resample_temperature=1.0
    )
    assert official("Gen-Verse/TraDo-4B-Instruct", "GSM8K").preset == Preset(
        length=2000, steps=2000, block=4, temperature=1.0, top_p=1.0, reveal_threshold=0.9,
        resample_temperature=1.0,
    )  # fmt: skip


def test_fast_dllm_writes_sub_blocks_and_its_threshold_of_one_is_none() -> None:
    """Of 1 no probability is more, so every step reveals one token."""
    chat, math = (official("Efficient-Large-Model/Fast_dLLM_v2_7B", t) for t in ("chat", "MATH"))
    usual = Preset(length=2048, steps=2048, block=32, sub_block=8)
    assert math.preset == usual
    assert chat.preset == replace(usual, reveal_threshold=0.9)


def test_a_canvas_that_grows_is_unmet_and_has_steps_per_block() -> None:
    """iLLaDA: 32 steps for each of 1,024 / 32 = 32 blocks: 1,024."""
    found = official("GSAI-ML/iLLaDA-8B-Base", "GSM8K")
    assert (found.preset.steps, found.preset.block) == (1024, 32)
    assert found.unmet == {"var": True}


UNMET: dict[str, dict[str, Setting]] = {
    "Dream-org/Dream-Coder-v0-Instruct-7B:code": {"eos_penalty": 3.0},
}


@pytest.mark.parametrize("name", UNMET)
def test_what_we_cannot_do_is_told_and_never_dropped(name: str) -> None:
    assert official("", name).unmet == UNMET[name]
    listed = re.escape(", ".join(f"{key}={value}" for key, value in UNMET[name].items()))
    with pytest.warns(Unmet, match=f"also sets {listed}, which remask cannot do yet"):
        preset("", name)


def test_a_preset_that_is_met_comes_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert preset(INSTRUCT, "GSM8K").block == 8
    assert official(INSTRUCT, "GSM8K").note == ""


@pytest.mark.parametrize("scale", [0.0, 1.5])
def test_guidance_is_met_where_it_asks_for_nothing(scale: float) -> None:
    found = translated({"gen_length": 8, "cfg_scale": scale})
    assert found.unmet == ({"cfg_scale": 1.5} if scale else {})


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
    assert official(INSTRUCT, text).published.task == task


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("MM", "preset 'MM' of {id} could be several; use one of 'MMLU', 'MMLU-Pro'."),
        ("", "preset '' of {id} is unknown; use one of 'GSM8K', 'MATH', 'GSM8K, pure diffusion', "),
        ("chess", "preset 'chess' of {id} is unknown; use one of 'GSM8K', 'MATH', "),
        ("GMS8K", "Unknown preset of {id} 'GMS8K'. Did you mean 'GSM8K'?"),
        ("tiny:GSM8K", "no presets are known for tiny; name a checkpoint that has some, as in "),
        (
            "inclusionAI/LLaDA-MoE-7B-A1B-Base:GSM8K",
            "no presets are known for inclusionAI/LLaDA-MoE-7B-A1B-Base; name a checkpoint",
        ),
    ],
)
def test_an_unknown_name_is_one_sentence_with_the_known_ones(text: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        official(INSTRUCT, text)
    assert str(caught.value).startswith(told.format(id=INSTRUCT))
    assert str(caught.value).endswith((".", "?"))


@given(st.text(max_size=12))
def test_any_text_is_a_preset_or_one_sentence(text: str) -> None:
    found = None
    with suppress(SettingsError):
        found = official(INSTRUCT, text)
    assert found is None or found.published.task.lower().startswith(text.strip().lower())


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (INSTRUCT, replace(LLADA, length=256, steps=256, block=8)),
        (DREAM, official(DREAM, "chat").preset),  # and not GSM8K
        # 2,048 tokens and steps are cut to 1,024 each.
        (
            "inclusionAI/LLaDA2.0-mini",
            Preset(length=1024, steps=1024, block=32, reveal_threshold=0.95),
        ),
        (
            "Dream-org/Dream-Coder-v0-Instruct-7B",
            Preset(
                length=768, steps=768, block=768, temperature=0.1, order="entropy", top_p=0.95,
                top_k=50, resample_temperature=0.8,
            ),
        ),
        ("GSAI-ML/iLLaDA-8B-Base", None),  # the first is unmet
        ("inclusionAI/LLaDA-MoE-7B-A1B-Base", None),
        ("someone/else", None),
    ],
)  # fmt: skip
def test_a_hub_id_starts_with_a_published_preset_that_is_met(
    model: str, expected: Preset | None
) -> None:
    assert start(model) == expected


def test_thresholds_of_the_score_stay_those_of_the_files() -> None:
    own = Preset(
        length=64, threshold=0.9, tasks={"choice": {"threshold": 0.6, "length": 8}, "code": {}}
    )
    published = Preset(length=256, steps=256, block=8)
    found = merged(own, published)
    assert found.threshold == 0.9
    by_scorer = {"roundtrips": 0.9, "editor": 0.4}
    assert merged(replace(own, threshold=by_scorer), published).for_task("choice").threshold == {
        "roundtrips": 0.6, "editor": 0.4,
    }  # fmt: skip
    assert found.for_task("choice") == Preset(
        length=256, steps=256, block=8, threshold=0.6, tasks={"choice": {"threshold": 0.6}}
    )


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub whose every id is the same small checkpoint, without a preset of its own."""
    folder = write_checkpoint(tmp_path / "model", dtype=torch.float32)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 0}))
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(folder))
    return folder


def test_load_starts_with_the_published_preset_of_a_hub_id(hub: Path) -> None:
    expected = replace(LLADA, length=256, steps=256, block=8)
    assert load(INSTRUCT, device="cpu").preset == expected
    assert load("someone/else", device="cpu").preset == LLADA
    assert load(hub, device="cpu").preset == LLADA


def test_a_checkpoint_that_says_how_it_is_sampled_is_believed(hub: Path) -> None:
    own = {"alg": "origin", "steps": 64}
    (hub / "generation_config.json").write_text(json.dumps(own))
    found = load(INSTRUCT, device="cpu").preset
    assert (found.length, found.steps, found.block, found.order) == (64, 64, 64, "origin")


def test_load_takes_the_preset_that_is_asked_for(hub: Path) -> None:
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
    with pytest.raises(SettingsError, match="preset 'chess' of GSAI-ML"):
        load(INSTRUCT, device="cpu", preset="chess")


def test_load_warns_of_what_is_unmet(hub: Path) -> None:
    assert hub.exists()
    with pytest.warns(Unmet, match=r"eos_penalty=3\.0"):
        load("Dream-org/Dream-Coder-v0-Instruct-7B", device="cpu", preset="code")


def test_llada_writes_code_without_the_token_that_ends_a_text(hub: Path) -> None:
    """HumanEval sets logits_eos_inf, and no other of LLaDA's presets does."""
    assert hub.exists()
    asked = [p.task for p in checkpoint(INSTRUCT).presets if p.settings.get("logits_eos_inf")]
    assert asked == ["HumanEval"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", Unmet)
        found = load(INSTRUCT, device="cpu", preset="HumanEval").preset
    assert found == replace(LLADA, length=512, steps=512, block=512, suppress_eos=True)
    assert SamplerSettings.of(found).suppress_eos
    assert not SamplerSettings.of(preset(INSTRUCT, "GSM8K")).suppress_eos
