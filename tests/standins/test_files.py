"""The stand-ins themselves: are they what the authors' files are, but for sizes, ids and weights?

Facts here are those of the authors' files, with the sources that `STANDINS` names.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors
from standin_checkpoints import STANDINS, write_standin

import remask
from remask.denoisers.catalog import CHECKPOINTS, Checkpoint
from remask.errors import SettingsError

IDS = tuple(checkpoint.id for checkpoint in CHECKPOINTS)


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def snapshot(hub: Path, model: str) -> Path:
    root = hub / f"models--{model.replace('/', '--')}"
    return root / "snapshots" / (root / "refs" / "main").read_text()


def test_every_published_id_has_a_stand_in() -> None:
    assert [model for model in IDS if model not in STANDINS] == []


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=lambda c: c.id)
def test_the_catalogue_and_the_authors_agree_on_the_architecture(
    hub: Path, checkpoint: Checkpoint
) -> None:
    config = read(snapshot(hub, checkpoint.id), "config.json")
    assert config["architectures"] == [checkpoint.architecture]
    assert STANDINS[checkpoint.id].vocabulary.size == checkpoint.vocab_size


@pytest.mark.parametrize("model", IDS)
def test_the_hub_finds_it_under_its_published_id(hub: Path, model: str) -> None:
    from huggingface_hub import snapshot_download, try_to_load_from_cache

    assert Path(snapshot_download(model)) == snapshot(hub, model)
    found = try_to_load_from_cache(model, "config.json")
    assert isinstance(found, str)
    assert Path(found).is_symlink()
    assert Path(found).resolve().parent.name == "blobs"


def test_llada2_names_its_padding_and_neither_its_end_nor_its_mask(hub: Path) -> None:
    for model in IDS:
        if "LLaDA2." in model:
            folder = snapshot(hub, model)
            config = read(folder, "config.json")
            assert "pad_token_id" in config
            assert not {"eos_token_id", "mask_token_id", "bos_token_id"} & config.keys()
            assert not (folder / "generation_config.json").exists()


def test_what_else_the_authors_leave_out(hub: Path) -> None:
    def config(model: str) -> Any:
        return read(snapshot(hub, model), "config.json")

    assert "mask_token_id" not in config("GSAI-ML/iLLaDA-8B-Instruct")
    assert "mask_token_id" not in config("inclusionAI/LLaDA-MoE-7B-A1B-Instruct")
    assert "pad_token_id" not in config("dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1")
    dream = snapshot(hub, "Dream-org/Dream-v0-Instruct-7B")
    assert not (dream / "tokenizer.json").exists()
    assert read(dream, "generation_config.json")["mask_token_id"] is None


def test_the_tied_head_is_repeated_in_a2d_and_absent_in_illada(hub: Path) -> None:
    def names(model: str) -> set[str]:
        folder = snapshot(hub, model)
        found: set[str] = set()
        for file in folder.glob("*.safetensors"):
            with safetensors.safe_open(file, framework="pt") as tensors:
                found |= set(tensors.keys())
        return found

    assert "lm_head.weight" in names("dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1")
    assert "lm_head.weight" not in names("GSAI-ML/iLLaDA-8B-Instruct")


@pytest.mark.parametrize("model", IDS)
def test_the_index_names_every_shard(hub: Path, model: str) -> None:
    folder = snapshot(hub, model)
    shards = {path.name for path in folder.glob("*.safetensors")}
    assert len(shards) == STANDINS[model].shards
    if len(shards) > 1:
        assert set(read(folder, "model.safetensors.index.json")["weight_map"].values()) == shards


def test_weights_are_a_function_of_the_seed() -> None:
    standin = STANDINS["GSAI-ML/LLaDA-8B-Instruct"]
    assert standin.files(seed=1) == standin.files(seed=1)
    assert standin.files(seed=1) != standin.files(seed=2)


def test_an_unknown_id_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no stand-in is known for 'nobody/nothing'"):
        write_standin("nobody/nothing", tmp_path)


KINDS = {STANDINS[model].vocabulary.kind: model for model in reversed(IDS)}  # the first of each


@pytest.mark.parametrize("model", KINDS.values(), ids=KINDS.keys())
def test_one_of_each_tokenizer_kind_has_the_true_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    standin = STANDINS[model]
    write_standin(model, tmp_path, true_ids=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    denoiser = remask.load(model)
    backend = denoiser.tokenizer.backend
    for token, true in standin.vocabulary.added.items():
        assert backend.token_to_id(token) == true
    assert denoiser.tokenizer.mask_id == standin.vocabulary.added[standin.mask]
    assert denoiser.vocab_size == standin.vocabulary.size
    block = denoiser.block_size or 32
    settings = remask.SamplerSettings(length=32, steps=32 // block * 2, block=block)
    assert len(remask.sample(denoiser, "How many?", settings=settings).canvas) >= 32
