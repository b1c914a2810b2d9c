"""Models whose weights are in few bits: loaded tensor by tensor, and as good as before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from standin_checkpoints import write_standin
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import remask
from remask.align.policy import make_policy
from remask.align.settings import AlignSettings
from remask.collect.chunks import num_active
from remask.denoisers import devices, experts
from remask.denoisers.devices import num_bytes
from remask.denoisers.experts import Experts, SoftmaxRouter
from remask.denoisers.identity import fingerprint
from remask.denoisers.llada import LLaDA, hub_tensors
from remask.denoisers.load import load
from remask.denoisers.native import NativeDenoiser, dtype_of
from remask.denoisers.quantise import FORMATS, Packed, PackedLinear, PackedMatrix
from remask.denoisers.weights import WeightFiles
from remask.errors import CheckpointError, DenoiserError, SettingsError
from remask.testing import check_denoiser, write_checkpoint
from remask.values import Canvas

LIBRARIES = ("int8", "nf4")
# Dense; shifted, with biases; experts; experts, a shared one and blocks.
STANDINS = (
    "GSAI-ML/LLaDA-8B-Instruct",
    "Dream-org/Dream-v0-Instruct-7B",
    "inclusionAI/LLaDA-MoE-7B-A1B-Instruct",
    "inclusionAI/LLaDA2.0-mini",
)


@pytest.fixture(scope="module", params=STANDINS)
def standin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_standin(request.param, tmp_path_factory.mktemp("models"))


def opened(folder: Path, weights: str = "full", **how: Any) -> NativeDenoiser:
    model = load(folder, device="cpu", dtype="float32", weights=weights, **how)
    assert isinstance(model, NativeDenoiser)
    return model


def logits(model: NativeDenoiser) -> Tensor:
    prompt = model.tokenizer.render("What is 2 + 3?")
    canvas = [model.tokenizer.mask_id] * 32
    rows = Canvas.of([prompt], [canvas], model.tokenizer.pad_id, model.device)
    return model.head(model.hidden(rows)[0, -32:])


def unpack(model: NativeDenoiser) -> None:
    """Put full weights in the place of packed ones: what these stand for."""
    for module in list(model.model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, PackedLinear):
                setattr(module, name, _full(child))
        if isinstance(module, Experts):
            for name in ("gate_up", "down"):
                packed = getattr(module, name)
                full = packed.unpacked(range(packed.shape[0]), torch.float32)
                delattr(module, name)
                setattr(module, name, nn.Parameter(full, requires_grad=False))


def _full(layer: PackedLinear) -> nn.Linear:
    num_rows, num_columns = layer.weight.shape
    made = nn.Linear(num_columns, num_rows, bias=layer.bias is not None)
    packed = layer.weight
    rows = packed.form.unpack(Packed(packed.codes, packed.scales), num_columns, torch.float32)
    made.weight = nn.Parameter(rows, requires_grad=False)
    made.bias = layer.bias
    return made


@pytest.mark.parametrize("weights", LIBRARIES)
def test_a_packed_model_computes_what_its_weights_stand_for(standin: Path, weights: str) -> None:
    """Unpacked, the same network gives the same logits; those of the checkpoint are near."""
    model, full = opened(standin, weights), opened(standin)
    ours = logits(model)
    check_denoiser(model)
    assert dtype_of(model) == f"{weights}/float32"
    assert num_bytes(model.model) < num_bytes(full.model)
    unpack(model)
    assert torch.allclose(ours, logits(model), atol=1e-5)
    error = (ours - logits(full)).norm() / logits(full).norm()
    assert 1e-4 < error < {"int8": 0.04, "nf4": 0.5}[weights]  # widths of 16: coarse blocks


@pytest.mark.parametrize("weights", LIBRARIES)
def test_a_chunk_of_work_is_as_large_as_in_full(standin: Path, weights: str) -> None:
    """A packed weight costs as many operations; what is not a parameter must be counted too."""
    assert num_active(opened(standin, weights).model) == num_active(opened(standin).model)


@pytest.mark.parametrize("weights", LIBRARIES)
def test_what_decides_stays_whole(standin: Path, weights: str) -> None:
    model = opened(standin, weights).model
    packed = {n for n, m in model.named_modules() if isinstance(m, PackedMatrix)}
    names = {n for n, p in model.named_parameters() if p.dim() > 1}
    assert packed
    assert all(name.startswith("blocks.") for name in packed)
    assert not any("router" in name for name in packed)
    routers = {name for name in names if "router" in name}
    assert names - routers == {"embedding.weight", "unembedding.weight"}


@pytest.mark.parametrize("weights", LIBRARIES)
def test_experts_are_unpacked_some_at_a_time(weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five experts of eight are visited; two fit at once. None at all is no mistake."""
    layer = Experts(SoftmaxRouter(64, 8, 2), 8, 64, 16)
    form = FORMATS[weights]
    stack = torch.randn(8, 32, 64, generator=torch.Generator().manual_seed(0))
    packed = PackedMatrix(form, stack.shape)
    packed.rows.copy_(stack.flatten(0, 1))
    x = torch.randn(9, 64, generator=torch.Generator().manual_seed(1))
    ends = torch.tensor([2, 2, 3, 3, 6, 8, 9, 9], dtype=torch.int32)
    full = packed.unpacked(range(8), torch.float32)
    wanted = experts.grouped_linear(x, full, ends)
    seen: list[list[int]] = []
    unpacked = PackedMatrix.unpacked

    def watched(self: PackedMatrix, chosen: Any, dtype: torch.dtype) -> Tensor:
        seen.append(list(chosen))
        return unpacked(self, chosen, dtype)

    monkeypatch.setattr(PackedMatrix, "unpacked", watched)
    monkeypatch.setattr(experts, "UNPACKED", 2 * 32 * 64)
    assert torch.equal(experts.grouped_linear(x, packed, ends), wanted)
    assert seen == [[0, 2], [4, 5], [6]]
    nothing = experts.grouped_linear(x[:0], packed, torch.zeros(8, dtype=torch.int32))
    assert nothing.shape == (0, 32)
    assert layer.num_experts == 8


class FullBytes(TorchDispatchMode):
    """Counts the bytes of floats that are alive, and remembers the most."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor) and leaf.is_floating_point() and not leaf.is_meta:
                storage = leaf.untyped_storage()
                self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.alive = {key: pair for key, pair in self.alive.items() if not pair[0].expired()}
        self.most = max(self.most, sum(size for _, size in self.alive.values()))
        return out


@pytest.mark.parametrize("weights", ["full", *LIBRARIES])
def test_the_whole_model_is_never_there_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str
) -> None:
    """8 layers of 4 x 64 x 64 + 3 x 64 x 256 numbers, 2.1 MB in float32, none larger than 66 kB."""
    folder = write_checkpoint(tmp_path, layers=8, width=64, inner=256, dtype=torch.float32)
    plain = WeightFiles.tensors

    def copied(self: WeightFiles, *names: Any) -> Iterator[tuple[str, Tensor]]:
        """A tensor of a file lies in the file until it is looked at: here it is read at once."""
        for name, tensor in plain(self, *names):
            yield name, tensor.clone()

    monkeypatch.setattr(WeightFiles, "tensors", copied)
    opened(folder, weights)  # imports what it needs
    with FullBytes() as counted:
        model = opened(folder, weights)
    every = sum(tensor.nbytes for tensor in load_file(folder / "model.safetensors").values())
    if weights == "full":
        assert counted.most >= every
        return
    tensors = (*model.model.parameters(), *model.model.buffers())
    floats = [tensor for tensor in tensors if tensor.is_floating_point()]
    stays, largest = sum(t.nbytes for t in floats), 64 * 256 * 4
    assert stays < every / 5
    assert counted.most < stays + 6 * largest < every / 2


@pytest.mark.parametrize("weights", LIBRARIES)
def test_packed_models_lie_on_several_devices(tmp_path: Path, weights: str) -> None:
    folder = write_checkpoint(tmp_path)
    alone = logits(opened(folder, weights))
    replicas = load(folder, device="cpu,cpu", dtype="float32", weights=weights)
    layers = opened_over_layers(folder, weights)
    assert torch.equal(logits(layers), alone)
    assert dtype_of(replicas) == dtype_of(layers) == f"{weights}/float32"


def opened_over_layers(folder: Path, weights: str) -> NativeDenoiser:
    model = load(folder, device="cpu,cpu", dtype="float32", weights=weights, split="layers")
    assert isinstance(model, NativeDenoiser)
    return model


@pytest.mark.parametrize("weights", LIBRARIES)
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, weights: str) -> None:
    folder = write_checkpoint(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith("1.up_proj.weight"))
    tensors[name][3, 4] = torch.nan
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"tensor {name} holds NaN or infinity; download"):
        opened(folder, weights)


def test_memory_is_that_of_packed_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in test_load: 149,632 bytes. Embedding, head and norms are 16,928 numbers, 67,712 bytes.

    In int8 the other 20,480 take as many bytes, and 4 for each of 2 x (96 + 32 + 128 + 32) rows:
    90,496. In float16 the first half as many: 56,640.
    """
    folder = write_checkpoint(tmp_path)
    monkeypatch.setattr(devices, "free_memory", lambda device: 56_640)
    with pytest.raises(SettingsError, match=r"in float16 and .* fit with --weights int8 \("):
        load(folder, device="cpu", dtype="float16")
    monkeypatch.setattr(devices, "free_memory", lambda device: 56_639)
    with pytest.raises(SettingsError, match=r"in float16 and .* fit with --weights nf4 \("):
        load(folder, device="cpu", dtype="float16")
    monkeypatch.setattr(devices, "free_memory", lambda device: 90_496)
    with pytest.raises(SettingsError, match=r"in float32 and .* fit with --dtype bfloat16 \("):
        opened(folder)
    assert num_bytes(opened(folder, "int8").model) == 90_496
    monkeypatch.setattr(devices, "free_memory", lambda device: 90_495)
    with pytest.raises(SettingsError, match=r"in int8/float32 and .* choose another device"):
        opened(folder, "int8")


def test_the_fingerprint_tells_packed_weights_apart(tmp_path: Path) -> None:
    first, second = (write_checkpoint(tmp_path / str(seed), seed=seed) for seed in (0, 1))
    marks = {fingerprint(opened(first, weights).model) for weights in ("full", *LIBRARIES)}
    assert len(marks) == 3
    assert fingerprint(opened(first, "nf4").model) in marks
    assert fingerprint(opened(second, "nf4").model) not in marks


def test_a_model_from_outside_is_not_packed() -> None:
    with pytest.raises(SettingsError, match="weights 'nf4' requires a model of this package"):
        load("mine:make", weights="nf4")


def test_packed_weights_are_neither_trained_nor_saved(tmp_path: Path) -> None:
    model = opened(write_checkpoint(tmp_path), "int8")
    with pytest.raises(SettingsError, match="weights must be 'full' for training, got 'int8'"):
        make_policy(model, AlignSettings(model="x", task="wordmath", out=tmp_path / "out"))
    assert isinstance(model.model, LLaDA)
    with pytest.raises(DenoiserError, match="weights in int8 cannot be written"):
        hub_tensors(model.model)


def test_answers_of_a_packed_model_are_scored(tmp_path: Path) -> None:
    model = opened(write_checkpoint(tmp_path), "nf4")
    score = remask.score(model, "What is 2 + 3?", "It is 5.", scorer="probe")
    assert score.value is not None
