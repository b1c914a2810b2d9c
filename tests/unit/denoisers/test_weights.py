"""What a checkpoint may have beyond the plain case, and still load as the same model."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from llada2_config import CONFIG as LLADA2
from safetensors.torch import load_file, save_file
from test_llada2 import checkpoint
from torch import Tensor

import remask
from remask.denoisers.a2d import FAMILY as A2D
from remask.denoisers.catalog import family_preset
from remask.denoisers.load import find_family, find_preset, outline, read_config
from remask.denoisers.preset import has_chosen_settings, has_diffusion_settings
from remask.denoisers.tokenizer import read_json
from remask.denoisers.weights import WeightFiles
from remask.errors import CheckpointError
from remask.testing import tiny_tokenizer, write_checkpoint
from remask.values import Canvas

WEIGHTS = "model.safetensors"
HEAD, EMBEDDING = "model.transformer.ff_out.weight", "model.transformer.wte.weight"


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_tensors(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    stored = load_file(folder / WEIGHTS)
    change(stored)
    save_file(stored, folder / WEIGHTS)


def logits(folder: Path | str) -> Tensor:
    denoiser = remask.load(folder, device="cpu", dtype="float32")
    canvas = Canvas.of([[10, 11, 12]], [[1, 14, 1]], 0, denoiser.device)
    return denoiser.head(denoiser.hidden(canvas)[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "model", dtype=torch.float32)


def test_the_hubs_cache_links_to_blobs_and_loads(folder: Path) -> None:
    """models--a--b/snapshots/REVISION/NAME -> ../../blobs/HASH."""
    expected = logits(folder)
    repository = folder.parent / "models--a--b"
    snapshot, blobs = repository / "snapshots" / "0123abc", repository / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted(folder.iterdir())):
        path.rename(blobs / str(number))
        (snapshot / path.name).symlink_to(Path("..") / ".." / "blobs" / str(number))
    assert torch.equal(logits(snapshot), expected)
    linked = folder.parent / "link"
    linked.symlink_to(snapshot)  # the folder itself may be a link
    assert torch.equal(logits(linked), expected)


def test_a_link_within_the_folder_is_followed(folder: Path) -> None:
    expected = logits(folder)
    (folder / WEIGHTS).rename(folder / "stored")
    (folder / WEIGHTS).symlink_to("stored")
    assert torch.equal(logits(folder), expected)


def test_a_byte_order_mark_changes_nothing(folder: Path) -> None:
    expected = logits(folder)
    for name in ("config.json", "generation_config.json"):
        path = folder / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert torch.equal(logits(folder), expected)


def test_a_tied_head_may_be_stored_if_it_is_the_embedding(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", tied=True, dtype=torch.float32)
    expected = logits(folder)
    edit_tensors(folder, lambda t: t.update({HEAD: t[EMBEDDING].clone()}))
    assert torch.equal(logits(folder), expected)
    edit_tensors(folder, lambda t: t[HEAD].view(-1)[3:4].add_(1))
    with pytest.raises(
        CheckpointError, match=f"ties the head .* but {HEAD} and {EMBEDDING} differ"
    ):
        logits(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_scaling": None},
        {"rope_scaling": {"rope_type": "default"}},
        {"rope_scaling": {"type": "default"}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
        {"rope_theta": None, "rope_parameters": {"rope_theta": 500000.0}},
        {"rope_theta": 500000, "rope_parameters": {"rope_theta": 500000.0}},
        {"architectures": "LLaDAModelLM"},
        {"eos_token_id": [0, 5]},
        {"eos_token_id": None},
        {"mask_token_id": None},
        {"quantization_config": None},
    ],
)
def test_other_spellings_of_the_same_model_load_as_it(
    folder: Path, changes: dict[str, Any]
) -> None:
    expected = logits(folder)
    edit(folder / "config.json", **changes)
    assert torch.equal(logits(folder), expected)
    assert remask.load(folder, device="cpu").tokenizer.eos_ids == (0, 5)


def test_theta_is_read_from_newer_configurations_of_every_family(folder: Path) -> None:
    before = logits(folder)
    rotary = {"rope_theta": 100.0, "rope_type": "default"}
    edit(folder / "config.json", rope_parameters=rotary, rope_theta=None)
    moved = logits(folder)
    assert not torch.equal(moved, before)
    edit(folder / "config.json", rope_parameters=None, rope_theta=100.0)
    assert torch.equal(logits(folder), moved)


@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [
        ("llada2_moe", "LLaDA2MoeModelLM"),
        ("sdar", "SDARForCausalLM"),
        ("a2d-qwen3", "A2DQwen3LMHeadModel"),
        ("lladamoe", "LLaDAMoEModelLM"),
    ],
)
def test_model_type_tells_where_no_architecture_is_declared(
    model_type: str, architecture: str
) -> None:
    found = find_family({"model_type": model_type}, Path("somewhere"))
    assert found.architecture == architecture


@pytest.fixture
def llada2(tmp_path: Path) -> Path:
    """A LLaDA2 with the keys of its authors: padding, and neither an end nor a mask token."""
    silent = {k: v for k, v in LLADA2.items() if k not in ("eos_token_id", "mask_token_id")}
    config = {
        **silent, "architectures": ["LLaDA2MoeModelLM"], "vocab_size": 262, "pad_token_id": 0,
        "use_bias": None,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    backend = tiny_tokenizer().backend.to_str().replace("<|mdm_mask|>", "<|mask|>")
    (tmp_path / "tokenizer.json").write_text(backend)
    save_file(checkpoint({**config, "use_bias": False}), tmp_path / WEIGHTS)
    return tmp_path


def test_llada2_loads_with_the_keys_that_its_authors_write(llada2: Path) -> None:
    tokenizer = remask.load(llada2, device="cpu").tokenizer
    assert (tokenizer.mask_id, tokenizer.eos_ids, tokenizer.pad_id) == (1, (0,), 0)


def test_a_bias_that_config_json_is_silent_on_is_settled_by_the_tensors(llada2: Path) -> None:
    """Zeros are no bias; ones are, and change the logits."""
    without = logits(llada2)
    config = read_json(llada2 / "config.json")
    stored = checkpoint({**config, "use_bias": False})
    biases = {k: v for k, v in checkpoint({**config, "use_bias": True}).items() if k not in stored}
    assert len(biases) == config["num_hidden_layers"]
    save_file({**stored, **{k: torch.zeros_like(v) for k, v in biases.items()}}, llada2 / WEIGHTS)
    assert torch.equal(logits(llada2), without)
    save_file({**stored, **{k: torch.ones_like(v) for k, v in biases.items()}}, llada2 / WEIGHTS)
    assert not torch.equal(logits(llada2), without)
    edit(llada2 / "config.json", use_bias=False)
    with pytest.raises(CheckpointError, match=r"attention\.dense\.bias and \d more"):
        logits(llada2)


def test_a_configuration_is_completed_by_what_the_tensors_tell(llada2: Path) -> None:
    assert read_config(llada2)["use_bias"] is False
    assert read_json(llada2 / "config.json")["use_bias"] is None
    edit(llada2 / "config.json", use_bias=True)  # it is asked first
    assert read_config(llada2)["use_bias"] is True


def test_a_configuration_is_completed_by_what_the_name_tells(tmp_path: Path) -> None:
    for name, expected in (("x-bd3lm-v1", {"block_size": 32}), ("x-mdlm-v1", {})):
        (tmp_path / name).mkdir()
        config = {"architectures": [A2D.architecture]}
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        assert read_config(tmp_path / name) == {**config, **expected}


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("Qwen3-0.6B-diffusion-bd3lm-v0.1", {}),
        ("models--dllm-hub--Qwen3-0.6B-diffusion-bd3lm-v0.1/snapshots/01ab", {}),
        ("plain", {"block_size": 32}),
    ],
)
def test_an_a2d_that_writes_blocks_is_known_by_its_name_or_its_config(
    tmp_path: Path, name: str, config: dict[str, Any]
) -> None:
    sizes = {
        "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 20,
        "intermediate_size": 8, "max_position_embeddings": 64, "rope_theta": 100.0,
    }  # fmt: skip
    known = {"architectures": [A2D.architecture], **sizes}
    assert outline(known, tmp_path / "mdlm").block_size is None
    assert outline({**known, **config}, tmp_path / name).block_size == 32


QWEN3 = {
    "bos_token_id": 151643, "do_sample": True, "eos_token_id": [151645, 151643],
    "pad_token_id": 151643, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
    "transformers_version": "4.51.0",
}  # fmt: skip
DREAM = {
    "_from_model_config": True, "alg": "origin", "alg_temp": None, "eps": 0.001, "steps": 512,
    "temperature": 0.0, "top_k": None, "top_p": None, "eos_token_id": 151643,
}  # fmt: skip
MDLM = "dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1"
INSTRUCT = "Dream-org/Dream-v0-Instruct-7B"


@pytest.mark.parametrize(
    ("said", "says", "is_chosen"),
    [
        (QWEN3, False, False),
        (DREAM, True, False),
        ({**DREAM, "_from_model_config": False}, True, True),
        ({"max_new_tokens": 64, "temperature": 0.7}, False, False),
        ({"length": 64}, True, True),
        ({"alg": "entropy"}, True, True),
        ({"alg": None, "steps": None}, False, False),
        ({}, False, False),
    ],
)
def test_a_file_speaks_of_diffusion_by_keys_that_nothing_else_has(
    said: dict[str, Any], says: bool, is_chosen: bool
) -> None:
    assert (has_diffusion_settings(said), has_chosen_settings(said)) == (says, is_chosen)


def test_an_ancestors_temperature_and_filters_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [A2D.architecture]}))
    (tmp_path / "generation_config.json").write_text(json.dumps(QWEN3))
    usual = family_preset(A2D.architecture)
    published = replace(usual, length=256, steps=256, block=256)
    assert find_preset(MDLM, tmp_path) == published
    assert find_preset("my/copy", tmp_path) == usual
    (tmp_path / "generation_config.json").write_text(json.dumps({**QWEN3, "steps": 64}))
    ours = replace(usual, length=64, steps=64, block=64, temperature=0.6, top_k=20, top_p=0.95)
    assert find_preset(MDLM, tmp_path) == ours


def test_defaults_that_a_library_filled_in_do_not_displace_a_published_preset(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["DreamModel"]}))
    (tmp_path / "generation_config.json").write_text(json.dumps(DREAM))
    assert find_preset(INSTRUCT, tmp_path).order == "entropy"
    assert find_preset("my/copy", tmp_path).order == "origin"  # where nothing else is known
    edit(tmp_path / "generation_config.json", _from_model_config=False)
    assert find_preset(INSTRUCT, tmp_path).order == "origin"


def test_a_tensor_in_two_shards_is_named(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", shards=2, dtype=torch.float32)
    first, second = sorted(folder.glob("*.safetensors"))[:2]
    stored = load_file(first)
    name = min(stored)
    save_file({**load_file(second), name: stored[name]}, second)
    told = f"tensor {name} is in {first.name} and in {second.name}"
    with pytest.raises(CheckpointError, match=told):
        WeightFiles(folder).headers()
