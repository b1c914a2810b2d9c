"""Checkpoint folders: what loads, and the sentence that says why something does not."""

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from remask.denoisers import devices
from remask.denoisers import load as loading
from remask.denoisers.devices import choose_device, choose_devices, choose_dtype
from remask.denoisers.load import load
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.weights import TensorHeader, WeightFiles, read_header
from remask.errors import CheckpointError, SettingsError
from remask.testing import write_checkpoint
from remask.values import Canvas

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "model", dtype=torch.float32)


def edit_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def edit_tensors(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def logits(folder: Path) -> Tensor:
    denoiser = load(folder, device="cpu")
    canvas = Canvas.of([[10, 11, 12]], [[1, 14, 1]], 0, denoiser.device)
    return denoiser.head(denoiser.hidden(canvas)[0])


def test_a_folder_is_loaded_with_its_tokenizer_and_preset(folder: Path) -> None:
    denoiser = load(folder, device="cpu")
    assert denoiser.name == str(folder)
    assert (denoiser.vocab_size, denoiser.max_length, denoiser.forwards_per_call) == (262, 512, 1)
    assert (denoiser.preset.length, denoiser.preset.steps, denoiser.preset.block) == (32, 32, 32)
    assert denoiser.tokenizer.eos_ids == (0, 5)
    assert denoiser.tokenizer.mask_id == 1
    assert denoiser.device == CPU


def test_a_path_may_be_given_as_text(folder: Path) -> None:
    assert load(str(folder), device="cpu").vocab_size == 262


def test_loaded_weights_are_frozen_and_in_the_dtype_asked_for(folder: Path) -> None:
    denoiser = load(folder, device="cpu", dtype="float16")
    assert isinstance(denoiser, NativeDenoiser)
    weights = list(denoiser.model.parameters())
    assert {weight.dtype for weight in weights} == {torch.float16}
    assert not any(weight.requires_grad for weight in weights)
    assert not denoiser.model.training


@pytest.mark.parametrize("tied", [False, True])
def test_shards_and_a_single_file_give_the_same_logits(tmp_path: Path, tied: bool) -> None:
    single = write_checkpoint(tmp_path / "single", tied=tied)
    sharded = write_checkpoint(tmp_path / "sharded", tied=tied, shards=3)
    assert not (single / "model.safetensors.index.json").exists()
    assert not (sharded / "model.safetensors").exists()
    assert len(list(sharded.glob("*.safetensors"))) >= 3
    assert torch.equal(logits(single), logits(sharded))


def test_files_in_bfloat16_are_the_rounded_weights(tmp_path: Path, folder: Path) -> None:
    half = write_checkpoint(tmp_path / "half", dtype=torch.bfloat16)
    rounded = {k: v.bfloat16() for k, v in load_file(folder / "model.safetensors").items()}
    stored = load_file(half / "model.safetensors")
    assert all(torch.equal(stored[name], rounded[name]) for name in rounded)


def test_a_checkpoint_without_preset_gets_the_default_one(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    assert load(folder, device="cpu").preset.length == 128


def test_rotary_frequencies_of_older_libraries_are_left_alone(folder: Path) -> None:
    before = logits(folder)
    name = "model.transformer.blocks.0.rotary_emb.inv_freq"
    edit_tensors(folder / "model.safetensors", lambda t: t.update({name: torch.ones(3)}))
    assert torch.equal(logits(folder), before)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("change", [-1, -500, 1])
def test_weights_of_another_length_are_corrupt(tmp_path: Path, shards: int, change: int) -> None:
    folder = write_checkpoint(tmp_path, shards=shards)
    path = sorted(folder.glob("*.safetensors"))[-1]
    whole = path.read_bytes()
    path.write_bytes(whole[:change] if change < 0 else whole + b"\0")
    with pytest.raises(CheckpointError, match=f"{path.name} is corrupt"):
        load(folder, device="cpu")


def test_a_bad_checkpoint_is_refused_before_a_tensor_is_read_or_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of three shards is short, the first lacks a tensor, config.json asks for more."""

    def read(self: WeightFiles) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(WeightFiles, "tensors", read)
    monkeypatch.setattr(NativeDenoiser, "__init__", read)
    for number, told in enumerate(("is corrupt", "lacks the tensor", "must have shape")):
        folder = write_checkpoint(tmp_path / str(number), shards=3)
        paths = sorted(folder.glob("*.safetensors"))
        if told == "is corrupt":
            paths[-1].write_bytes(paths[-1].read_bytes()[:-1])
        elif told == "lacks the tensor":
            edit_tensors(paths[0], lambda t: t.pop(min(t)))
        else:
            edit_json(folder / "config.json", lambda c: c.update(mlp_hidden_size=128))
        with pytest.raises(CheckpointError, match=told):
            load(folder, device="cpu")


def test_headers_give_the_shapes_of_all_shards(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, shards=3)
    stored = {
        name: tuple(tensor.shape)
        for path in folder.glob("*.safetensors")
        for name, tensor in load_file(path).items()
    }
    headers = WeightFiles(folder).headers()
    assert {name: header.shape for name, header in headers.items()} == stored


HEADERS = st.one_of(
    st.binary(max_size=60),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["shape", "data_offsets", "w"]), inner, max_size=3)
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)


@given(header=HEADERS, body=st.binary(max_size=20), extra=st.integers(-3, 3))
def test_any_bytes_are_a_header_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, header: bytes, body: bytes, extra: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes(max(0, len(header) + extra).to_bytes(8, "little") + header + body)
    entries: dict[str, TensorHeader] = {}
    with suppress(CheckpointError):
        entries = read_header(path)
    assert all(isinstance(n, int) for entry in entries.values() for n in entry.shape)


PACKED = "--weights int8 (0.0 GB) or --weights nf4 (0.0 GB)."
BF16 = f"they fit with --dtype bfloat16 (0.0 GB), {PACKED}"
INT8 = f"they fit with {PACKED}"
OTHER = "choose another device or a smaller model (remask models lists sizes)."


@pytest.mark.parametrize(
    ("free", "dtype", "told"),
    [
        (149_631, "float32", BF16),
        (74_815, "float32", OTHER),
        (74_815, "float16", INT8),
        (30_000, "float16", OTHER),
    ],
)
def test_too_little_memory_is_one_sentence_before_anything_is_placed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, free: int, dtype: str, told: str
) -> None:
    """Embedding and head 2 x 262 x 32, a layer 4 x 32 x 32 + 3 x 64 x 32 + 2 x 32, norm 32.

    Two layers: 37,408 numbers, 149,632 bytes in float32, 74,816 in half precision.
    """
    monkeypatch.setattr(devices, "free_memory", lambda device: free)
    monkeypatch.setattr(loading, "fill", lambda *_: pytest.fail("weights were placed"))
    with pytest.raises(SettingsError) as caught:
        load(folder, device="cpu", dtype=dtype)
    needed = f"{folder} needs 0.0 GB for its weights in {dtype} and cpu has 0.0 GB free; "
    assert str(caught.value) == needed + told


@pytest.mark.parametrize("free", [149_632, None])
def test_a_model_that_just_fits_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, free: int | None
) -> None:
    monkeypatch.setattr(devices, "free_memory", lambda device: free)
    assert load(folder, device="cpu", dtype="float32").vocab_size == 262


def test_free_memory_is_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """On CUDA what torch holds in reserve is free as well: 5 + 7 - 3 = 9."""
    free = devices.free_memory(CPU)
    assert free is None or 10**6 < free < 10**14
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5, 100))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 7)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 3)
    assert devices.free_memory(torch.device("cuda:1")) == 9


def test_free_memory_of_metal_is_what_is_left_of_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 12)
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 5)
    assert devices.free_memory(torch.device("mps")) == 7
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 13)
    assert devices.free_memory(torch.device("mps")) == 0


@pytest.mark.parametrize("name", ["mask_token_id", "eos_token_id"])
@pytest.mark.parametrize("value", ["1", [1.5], [], [None], {}, 1.5, -1, 9999, True])
def test_a_special_id_that_is_no_id_is_named(folder: Path, name: str, value: object) -> None:
    edit_json(folder / "config.json", lambda c: c.update({name: value}))
    told = re.escape(f"{name} as {value!r}")
    with pytest.raises(CheckpointError, match=told):
        load(folder, device="cpu")


def test_a_checkpoint_without_a_padding_token_pads_with_eos(folder: Path) -> None:
    edit_json(folder / "config.json", lambda c: c.update(pad_token_id=None, eos_token_id=5))
    assert load(folder, device="cpu").tokenizer.pad_id == 5


def test_a_preset_that_cannot_work_is_named(folder: Path) -> None:
    edit_json(folder / "generation_config.json", lambda c: c.update(steps=0))
    with pytest.raises(SettingsError, match="steps must be at least 1, got 0"):
        load(folder, device="cpu")


@pytest.mark.parametrize("model", ["", "nowhere", "./no/folder", "/no/folder", "~/model", "a/b/c"])
def test_what_is_neither_folder_nor_hub_id_is_refused_without_a_download(
    model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=f"model {model!r} is neither"):
        load(model)


def test_a_hub_id_is_downloaded_and_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def download(model: str, allow_patterns: list[str]) -> str:
        asked.append(model)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert load("someone/model", device="cpu").name == "someone/model"
    assert asked == ["someone/model"]


def test_a_failed_download_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(model: str, allow_patterns: list[str]) -> str:
        raise OSError("401 Unauthorized\nlong advice\nover many lines")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(CheckpointError) as caught:
        load("someone/model")
    assert str(caught.value) == "someone/model could not be fetched from the hub: 401 Unauthorized."


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("GSAI-ML/LLaDA-8B-Instuct", "Did you mean GSAI-ML/LLaDA-8B-Instruct"),
        ("GSAI/LLaDA-8B-Instruct", "Did you mean GSAI-ML/LLaDA-8B-Instruct"),
        ("inclusionai/llada2.0-mini", "Did you mean inclusionAI/LLaDA2.0-mini"),
        ("dream-org/Dream-v0-instruct7B", "Did you mean Dream-org/Dream-v0-Instruct-7B"),
        ("LLaDA-8B-Instruct", "Did you mean GSAI-ML/LLaDA-8B-Instruct"),
        ("SDAR-8B-Chats", "Did you mean JetLM/SDAR-8B-Chat"),
        ("GSAI-ML/LLaDA-8B-Instruct", ""),
        ("someone/another-model", ""),
        ("nowhere", ""),
    ],
)
def test_a_misspelt_id_names_the_published_ones(
    monkeypatch: pytest.MonkeyPatch, model: str, meant: str
) -> None:
    def download(model: str, allow_patterns: list[str]) -> str:
        raise OSError("Got: ConnectError: no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(CheckpointError) as caught:
        load(model)
    sentence = str(caught.value)
    assert meant in sentence
    assert ("Did you mean" in sentence) == bool(meant)
    assert "Got: " not in sentence


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_pipe_in_the_folder_is_refused_and_not_read(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(CheckpointError, match=f"{name} must be a regular file"):
        load(folder, device="cpu")
    with pytest.raises(CheckpointError, match=f"{name} must be a regular file"):
        loading.find_config(str(folder))


def test_tiny_is_the_embedded_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(loading.__file__).parent / "embedded" == loading.EMBEDDED
    monkeypatch.setattr(loading, "EMBEDDED", folder)
    assert load("tiny", device="cpu").name == "tiny"
    monkeypatch.setattr(loading, "EMBEDDED", folder / "nothing")
    with pytest.raises(CheckpointError, match="has no embedded model"):
        load("tiny", device="cpu")


def test_auto_is_float32_on_the_cpu_and_bfloat16_on_cuda() -> None:
    assert choose_dtype("auto", CPU) == torch.float32
    assert choose_dtype("auto", torch.device("cuda")) == torch.bfloat16


@pytest.mark.parametrize(("version", "wanted"), [((14, 0), "bfloat16"), ((13, 3), "float16")])
def test_auto_on_metal_is_what_its_system_knows(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int], wanted: str
) -> None:
    newer = torch.backends.mps
    monkeypatch.setattr(newer, "is_macos_or_newer", lambda *least: version >= least)
    assert choose_dtype("auto", torch.device("mps")) == getattr(torch, wanted)
    assert choose_dtype("float32", torch.device("mps")) == torch.float32


@pytest.mark.parametrize("dtype", ["int8", "double", "", "FLOAT32"])
def test_an_unknown_dtype_is_named_with_the_known_ones(folder: Path, dtype: str) -> None:
    with pytest.raises(SettingsError, match=f"Unknown dtype '{dtype}'"):
        load(folder, device="cpu", dtype=dtype)


@pytest.mark.parametrize("device", ["gpu", "", "cpu:x", "tpu0", "xpu", "meta"])
def test_an_unknown_device_is_named_with_the_known_ones(folder: Path, device: str) -> None:
    with pytest.raises(SettingsError, match=f"Unknown device '{device}'. "):
        load(folder, device=device)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps", "mps:0"])
def test_a_device_is_refused_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    pretend_devices(monkeypatch, cuda=0, mps=0)
    assert choose_device("auto") == CPU
    with pytest.raises(SettingsError, match=f"device '{device}' is not available here"):
        choose_device(device)


@pytest.mark.parametrize(
    ("built", "what"),
    [(None, f"the installed torch ({torch.__version__}) is a CPU build"), ("13.0", "")],
)
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "all"])
def test_a_cpu_build_of_torch_is_named(
    monkeypatch: pytest.MonkeyPatch, built: str | None, what: str, device: str
) -> None:
    pretend_devices(monkeypatch, cuda=0, mps=0)
    monkeypatch.setattr(torch.version, "cuda", built)
    with pytest.raises(SettingsError) as caught:
        choose_devices(device)
    assert what in str(caught.value)
    assert ("CPU build" in str(caught.value)) == bool(what)


@pytest.mark.parametrize(
    ("cuda", "mps", "wanted"), [(2, 1, "cuda"), (2, 0, "cuda"), (0, 1, "mps"), (0, 0, "cpu")]
)
def test_auto_takes_cuda_before_metal_and_metal_before_the_cpu(
    monkeypatch: pytest.MonkeyPatch, cuda: int, mps: int, wanted: str
) -> None:
    pretend_devices(monkeypatch, cuda=cuda, mps=mps)
    assert choose_device("auto") == torch.device(wanted)


def test_there_is_one_metal_device_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_devices(monkeypatch, cuda=0, mps=1)
    assert choose_device("mps:0") == torch.device("mps:0")
    with pytest.raises(SettingsError, match="device 'mps:1' is not available here"):
        choose_device("mps:1")


def pretend_devices(monkeypatch: pytest.MonkeyPatch, *, cuda: int, mps: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps > 0)
