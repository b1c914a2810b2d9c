"""One model over several devices: the same bits, tensors where they belong, and what is refused.

The devices are pretended: an operation on tensors of two of them is an error, as on two GPUs.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from llada2_config import CONFIG as LLADA2
from pretended import Pretended
from safetensors.torch import save_file
from torch import Tensor

import remask
from remask import api
from remask.consistency.roundtrips import round_trips
from remask.consistency.settings import ConsistencySettings
from remask.denoisers import devices, split
from remask.denoisers import load as loading
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.load import FAMILIES, WeightFiles, load
from remask.denoisers.native import NativeDenoiser, Network, home, stacked
from remask.denoisers.wrap import Replicas
from remask.errors import SettingsError
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.testing import check_denoiser, tiny_tokenizer, write_checkpoint
from remask.values import Canvas

SETTINGS = SamplerSettings(length=12, steps=6, block=12, temperature=1.0)
TRIPS = ConsistencySettings(trips=2, rebuild_steps=2)
TWO = [torch.device("cpu:0"), torch.device("cpu:1")]
# What most families descend from.
QWEN: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "intermediate_size": 48, "vocab_size": 262, "max_position_embeddings": 128,
    "rope_theta": 100.0, "tie_word_embeddings": True,
}  # fmt: skip
BLOCKS = {**QWEN, "block_size": 6}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
OTHERS: dict[str, dict[str, Any]] = {
    "LLaDAModelLM": {
        "d_model": 32, "n_layers": 4, "n_heads": 4, "mlp_hidden_size": 48, "vocab_size": 262,
        "max_sequence_length": 64,
    },
    "DreamModel": {**QWEN, "tie_word_embeddings": False},
    "SDARForCausalLM": BLOCKS,
    "SDARMoeForCausalLM": {**BLOCKS, **EXPERTS},
    "DreamForCausalLM": BLOCKS,
    "Fast_dLLM_QwenForCausalLM": {**QWEN, "bd_size": 6},
    "A2DQwen2LMHeadModel": BLOCKS,
    "A2DLlamaLMHeadModel": BLOCKS,
    "LLaDAMoEModelLM": {
        "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_experts": 8,
        "num_experts_per_tok": 2, "expert_intermediate_size": 16, "vocab_size": 262,
        "rope_theta": 100.0, "max_position_embeddings": 64,
    },
    "LLaDA2MoeModelLM": {**LLADA2, "num_hidden_layers": 4, "num_experts": 8},
}  # fmt: skip
CONFIGS = {architecture: OTHERS.get(architecture, QWEN) for architecture in FAMILIES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four equal layers; the embedding, or the head, is about as large as one of them."""
    path = tmp_path_factory.mktemp("split")
    return write_checkpoint(path, layers=4, width=32, dtype=torch.float32, shards=3)


def denoiser_of(network: Network) -> NativeDenoiser:
    return NativeDenoiser(name="x", model=network, tokenizer=tiny_tokenizer(), preset=Preset())


@torch.no_grad()
def random_network(architecture: str) -> Network:
    network = FAMILIES[architecture].build(CONFIGS[architecture])
    generator = torch.Generator().manual_seed(3)
    for parameter in network.requires_grad_(False).parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return network.eval()


@pytest.fixture(params=CONFIGS)
def pair(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[NativeDenoiser, NativeDenoiser]]:
    """A model of every family, on the host, and the same over two devices."""
    family, config = FAMILIES[request.param], CONFIGS[request.param]
    whole = random_network(request.param)
    places = stacked(whole, family.tensor_map(whole))
    save_file({hub: t.contiguous() for hub, t in places.items()}, tmp_path / "model.safetensors")
    with Pretended():
        with torch.device("meta"):
            over = family.build(config)
        loading._place_layers(over, TWO, family, WeightFiles(tmp_path), name="x")
        yield denoiser_of(whole), denoiser_of(over)


def host(tensor: Tensor) -> Tensor:
    return tensor.cpu()


def padded(device: torch.device) -> Canvas:
    """Two rows of prompt and canvas, the second one shorter."""
    prompts, canvases = [[5, 6, 7], [8]], [range(10, 22), range(30, 37)]
    return Canvas.of(prompts, [list(c) for c in canvases], 2, device)


def logits(denoiser: Denoiser) -> Tensor:
    canvas = padded(denoiser.device)
    return host(denoiser.head(denoiser.hidden(canvas)[canvas.canvas]))


def test_every_family_gives_the_same_bits_over_two_devices(
    pair: tuple[NativeDenoiser, NativeDenoiser],
) -> None:
    whole, over = pair
    assert [home(block) for block in over.model.blocks] == sorted(
        (home(block) for block in over.model.blocks), key=str
    )
    assert {home(block) for block in over.model.blocks} == set(TWO)
    assert over.model.embedding.weight.device == TWO[0]
    assert over.device == over.model.norm.weight.device == TWO[1]
    assert over.model.unembedding is not None
    assert over.model.unembedding.weight.device == TWO[1]
    assert torch.equal(logits(whole), logits(over))
    tokens = torch.arange(40)
    assert torch.equal(whole.embed(tokens), host(over.embed(tokens.to(over.device))))


def test_every_family_keeps_the_contract_over_two_devices(
    pair: tuple[NativeDenoiser, NativeDenoiser],
) -> None:
    check_denoiser(pair[1])


def test_answers_and_round_trips_are_the_same(
    pair: tuple[NativeDenoiser, NativeDenoiser],
) -> None:
    """A cache lives with the layers it belongs to, through every row that ends before another."""
    whole, _ = pair
    prompts = [whole.tokenizer.encode(text) for text in ("One and two?", "3")]
    settings = replace(SETTINGS, block=whole.block_size or SETTINGS.block)
    answers, again = (sample(model, prompts, settings, items=["a", "b"]) for model in pair)
    assert answers == again
    for one, other in zip(*(round_trips(model, answers, TRIPS) for model in pair), strict=True):
        assert (one.texts, one.confidence) == (other.texts, other.confidence)
        assert torch.equal(one.rebuilt, other.rebuilt)
        assert torch.equal(one.logp, other.logp)


@pytest.mark.parametrize("pair", ["LLaDA2MoeModelLM"], indirect=True)
def test_a_past_is_where_its_layers_are(pair: tuple[NativeDenoiser, NativeDenoiser]) -> None:
    """Of a block behind a cache only what a boundary needs is moved, and once.

    Tokens and their places go to the first device; states, two tables, places and who is seen
    by whom go on to the second, where the last of them came from.
    """
    found = []
    for model in pair:
        tokens = torch.arange(16, device=model.device).view(2, 8)
        cache = model.extend_cache(Canvas(tokens=tokens, canvas=tokens >= 0, attend=None))
        cache = cache.rows(torch.tensor([1, 0, 1], device=model.device))
        behind = torch.arange(12, device=model.device).view(3, 4)
        with Pretended() as moved:
            states = model.hidden(Canvas(tokens=behind, canvas=behind >= 0, attend=None), cache)
        found.append(host(model.head(states.flatten(0, 1))))
    assert torch.equal(*found)
    blocks = pair[1].model.blocks
    assert [layer.device for layer in cache.layers] == [home(block) for block in blocks]
    assert moved.moves == {("cpu:1", "cpu:0"): 3, ("cpu:0", "cpu:1"): 5}


def test_two_cpus_by_name_are_two_devices(folder: Path) -> None:
    """What a user without GPUs can try: `--device cpu,cpu --split layers`."""
    over, alone = load(folder, device="cpu,cpu", split="layers"), load(folder, device="cpu")
    assert isinstance(over, NativeDenoiser)
    assert torch.equal(logits(over), logits(alone))
    check_denoiser(over)
    texts = [api.sample(m, "One.", settings=SETTINGS, seed=4).text for m in (over, alone)]
    assert texts[0] == texts[1]
    scores = [api.score(m, "One.", "It is 1.", settings=TRIPS, metrics="core", seed=4).value
              for m in (over, alone)]  # fmt: skip
    assert scores[0] == scores[1]
    assert isinstance(remask.load(folder, device="cpu,cpu", split="replicas"), Replicas)


def test_weights_go_to_their_device_one_by_one(folder: Path) -> None:
    with Pretended():
        over = load(folder, device="cpu:0,cpu:1,cpu:2", split="layers")
        assert isinstance(over, NativeDenoiser)
        homes = [str(home(block)) for block in over.model.blocks]
        for name, tensor in over.model.named_parameters():
            part = name.split(".")
            expected = {"embedding": homes[0], "norm": homes[-1], "unembedding": homes[-1]}
            assert (
                str(tensor.device)
                == (expected | dict(zip("0123", homes, strict=True)))[
                    part[1] if part[0] == "blocks" else part[0]
                ]
            )
        assert homes == ["cpu:0", "cpu:1", "cpu:1", "cpu:2"]


def test_blocks_can_be_compiled_over_two_devices(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda block, **_: compiled.append(block))
    over = load(folder, device="cpu,cpu", split="layers", compiled=True)
    assert isinstance(over, NativeDenoiser)
    assert compiled == list(over.model.blocks)


def test_layers_are_shared_out_by_their_bytes() -> None:
    """Ten bytes on each device; a first layer with a large embedding goes alone."""
    assert split.runs([5, 5, 5, 5], [1, 1]) == [2, 2]
    assert split.runs([9, 3, 3, 3], [1, 1]) == [1, 3]
    assert split.runs([4, 4, 4, 12], [1, 1]) == [3, 1]
    assert split.runs([5] * 6, [20, 10]) == [4, 2]
    assert split.runs([7], [3]) == [1]
    assert split.runs([1, 1, 1], [1, 1, 1]) == [1, 1, 1]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=7),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_no_other_way_to_share_leaves_the_fullest_less_full(
    sizes: list[int], rooms: list[int]
) -> None:
    num = len(sizes)
    rooms = rooms[:num]

    def fullest(ends: tuple[int, ...]) -> float:
        borders = pairwise((0, *ends, num))
        return max(sum(sizes[a:b]) / room for (a, b), room in zip(borders, rooms, strict=True))

    found = split.runs(sizes, rooms)
    assert len(found) == len(rooms)
    assert sum(found) == num
    assert min(found) >= 1
    ends = [sum(found[: i + 1]) for i in range(len(found) - 1)]
    best = min(map(fullest, combinations(range(1, num), len(rooms) - 1)))
    assert fullest(tuple(ends)) == pytest.approx(best)


def test_what_each_device_would_hold_is_checked_before_anything_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer has 10,304 numbers, embedding and head 8,384 each, the last norm 32.

    In float32: 4 x (2 x 10,304 + 8,384) = 115,968 bytes on the first, 128 more on the second.
    """
    free = {"cuda:0": 115_968, "cuda:1": 116_096}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(devices, "free_memory", lambda device: free[str(device)])
    monkeypatch.setattr(split, "place", lambda *_: pytest.fail("memory was taken"))
    for device in free:
        free[device] -= 1
        with pytest.raises(SettingsError, match=f"for 2 of its 4 layers in float32 and {device}"):
            load(folder, device="all", dtype="float32", split="layers")
        free[device] += 1
    with pytest.raises(pytest.fail.Exception, match="memory was taken"):
        load(folder, device="all", dtype="float32", split="layers")


def test_a_device_named_twice_must_hold_both_its_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "free_memory", lambda device: 232_063)
    with pytest.raises(SettingsError, match="for 4 of its 4 layers in float32 and cpu has"):
        load(folder, device="cpu,cpu", split="layers")
    monkeypatch.setattr(devices, "free_memory", lambda device: 232_064)
    assert load(folder, device="cpu,cpu", split="layers").vocab_size == 262


@pytest.mark.parametrize(
    ("device", "how", "told"),
    [
        ("cpu", "layers", "split 'layers' spreads one model over several devices and device 'cpu'"),
        ("cpu,cpu", "columns", "Unknown split 'columns'. Known: replicas, layers"),
        ("cpu,cpu,cpu,cpu,cpu", "layers", "names 5 devices and the model has 4 layers; with split "
                                          "layers name at most 4"),
    ],
)  # fmt: skip
def test_what_cannot_be_split_is_refused(folder: Path, device: str, how: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load(folder, device=device, split=how)


def test_a_model_that_fits_on_no_device_alone_is_told_of_the_split(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has 58,016 numbers, 116,032 bytes in bfloat16."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(devices, "free_memory", lambda device: 58_016)
    with pytest.raises(SettingsError, match="with --device cuda:0,cuda:1 --split layers"):
        load(folder, device="cuda")
    monkeypatch.setattr(devices, "free_memory", lambda device: 38_677)
    with pytest.raises(SettingsError, match="choose another device or a smaller model"):
        load(folder, device="cuda")
