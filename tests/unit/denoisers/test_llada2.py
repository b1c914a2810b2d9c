"""LLaDA2 against a plain re-implementation that shares no code with it, token by token."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from llada2_config import CONFIG
from plain import norm, turn
from safetensors.torch import save_file
from torch import Tensor

import remask
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Preset
from remask.denoisers.llada2 import FAMILY, LLaDA2, LLaDA2Config, Router
from remask.denoisers.native import NativeDenoiser, Network, stacked
from remask.denoisers.weights import WeightFiles, check_tensors, fill
from remask.sampling.settings import SamplerSettings
from remask.testing import check_denoiser, tiny_tokenizer

ROW = [5, 126, 7, 126, 9, 99, 0, 1, 126, 3, 2, 64, 11, 12]  # three blocks of 4, and half of one


def hub_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the tensors of a checkpoint as the hub names them."""
    width, head_dim, vocab = config["hidden_size"], config["head_dim"], config["vocab_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.word_embeddings.weight": (vocab, width),
        "model.norm.weight": (width,),
        "lm_head.weight": (vocab, width),
    }
    for i in range(config["num_hidden_layers"]):
        root = f"model.layers.{i}."
        shapes[f"{root}input_layernorm.weight"] = (width,)
        shapes[f"{root}post_attention_layernorm.weight"] = (width,)
        num_rows = (heads + 2 * kv_heads) * head_dim
        shapes[f"{root}attention.query_key_value.weight"] = (num_rows, width)
        shapes[f"{root}attention.query_layernorm.weight"] = (head_dim,)
        shapes[f"{root}attention.key_layernorm.weight"] = (head_dim,)
        shapes[f"{root}attention.dense.weight"] = (width, heads * head_dim)
        if config["use_bias"]:
            shapes[f"{root}attention.dense.bias"] = (width,)
        if i < config["first_k_dense_replace"]:
            shapes |= mlp_shapes(f"{root}mlp.", config["intermediate_size"], width)
            continue
        inner = config["moe_intermediate_size"]
        shapes[f"{root}mlp.gate.weight"] = (config["num_experts"], width)
        shapes[f"{root}mlp.gate.expert_bias"] = (config["num_experts"],)
        for e in range(config["num_experts"]):
            shapes |= mlp_shapes(f"{root}mlp.experts.{e}.", inner, width)
        shared_inner = inner * config["num_shared_experts"]
        shapes |= mlp_shapes(f"{root}mlp.shared_experts.", shared_inner, width)
    return shapes


def mlp_shapes(root: str, inner: int, width: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{root}gate_proj.weight": (inner, width),
        f"{root}up_proj.weight": (inner, width),
        f"{root}down_proj.weight": (width, inner),
    }


def checkpoint(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Return random tensors, norms and biases included, large enough to show."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator) * 0.3 + name.endswith("norm.weight")
        for name, shape in hub_shapes(config).items()
    }


def load(
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    folder: Path,
    dtype: torch.dtype = torch.float32,
) -> LLaDA2:
    """Return the network, filled from a file as a checkpoint is loaded."""
    save_file(tensors, folder / "model.safetensors")
    with torch.device("meta"):
        network = FAMILY.build(config)
    network = network.to(dtype).to_empty(device="cpu")
    places = stacked(network, FAMILY.tensor_map(network))
    check_tensors(places, WeightFiles(folder))
    fill([places], WeightFiles(folder))
    assert isinstance(network, LLaDA2)
    return network.eval().requires_grad_(False)


def attend(y: Tensor, w: dict[str, Tensor], config: dict[str, Any]) -> Tensor:
    """Return the mixed values of one row, position by position: each sees to its block's end."""
    heads, kv_heads, width = (
        config[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    theta, rotated = config["rope_theta"], int(width * config.get("partial_rotary_factor", 0.5))
    parts = (y @ w["attention.query_key_value.weight"].T).split(width, dim=-1)
    mixed = []
    for head in range(heads):
        shared = head * kv_heads // heads
        q, k, v = parts[head], parts[heads + shared], parts[heads + kv_heads + shared]
        q = turn(norm(q, w["attention.query_layernorm.weight"], 1e-6), theta, rotated)
        k = turn(norm(k, w["attention.key_layernorm.weight"], 1e-6), theta, rotated)
        rows = []
        for p in range(len(y)):
            end = (p // config["block_size"] + 1) * config["block_size"]
            rows.append((k[:end] @ q[p] / math.sqrt(width)).softmax(-1) @ v[:end])
        mixed.append(torch.stack(rows))
    out = torch.cat(mixed, -1) @ w["attention.dense.weight"].T
    return out + w.get("attention.dense.bias", torch.zeros(()))


def gated(row: Tensor, w: dict[str, Tensor], root: str) -> Tensor:
    gate, up, down = (w[f"{root}{part}_proj.weight"] for part in ("gate", "up", "down"))
    inner = gate @ row
    return down @ (inner * inner.sigmoid() * (up @ row))


def route(scores: list[float], bias: list[float], config: dict[str, Any]) -> dict[int, float]:
    """Return the chosen experts of one token with their weights."""
    size = config["num_experts"] // config["n_group"]
    ranked = [s + b for s, b in zip(scores, bias, strict=True)]
    strengths = {
        g: sum(sorted(ranked[g * size : (g + 1) * size])[-2:]) for g in range(config["n_group"])
    }
    best = sorted(strengths, key=lambda g: -strengths[g])[: config["topk_group"]]
    in_reach = [e for e in range(len(scores)) if e // size in best]
    chosen = sorted(in_reach, key=lambda e: -ranked[e])[: config["num_experts_per_tok"]]
    total = sum(scores[e] for e in chosen)
    return {e: 2.5 * scores[e] / total for e in chosen}


def consult(row: Tensor, w: dict[str, Tensor], config: dict[str, Any]) -> Tensor:
    """Return what the MLP, or the experts, make of one token, (width,)."""
    if "mlp.gate.weight" not in w:
        return gated(row, w, "mlp.")
    scores = (w["mlp.gate.weight"] @ row).sigmoid().tolist()
    chosen = route(scores, w["mlp.gate.expert_bias"].tolist(), config)
    terms = [weight * gated(row, w, f"mlp.experts.{e}.") for e, weight in chosen.items()]
    return torch.stack(terms).sum(0) + gated(row, w, "mlp.shared_experts.")


def plain_forward(tensors: dict[str, Tensor], tokens: list[int], config: dict[str, Any]) -> Tensor:
    """Return the logits (L, V) of one row in float64."""
    every = {name: tensor.double() for name, tensor in tensors.items()}
    x = every["model.word_embeddings.weight"][tokens]  # (L, width)
    for i in range(config["num_hidden_layers"]):
        root = f"model.layers.{i}."
        w = {n.removeprefix(root): t for n, t in every.items() if n.startswith(root)}
        x = x + attend(norm(x, w["input_layernorm.weight"], 1e-6), w, config)
        y = norm(x, w["post_attention_layernorm.weight"], 1e-6)
        x = x + torch.stack([consult(row, w, config) for row in y])
    return norm(x, every["model.norm.weight"], 1e-6) @ every["lm_head.weight"].T


def distance(ours: Tensor, expected: Tensor) -> float:
    return ((ours - expected).abs().max() / expected.abs().max().clamp(min=1.0)).item()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"use_bias": True},
        {"num_shared_experts": 2},
        {"num_hidden_layers": 3, "first_k_dense_replace": 2},
        {"partial_rotary_factor": 1.0, "block_size": 32},
    ],
)
def test_logits_equal_a_plain_reimplementation(tmp_path: Path, changes: dict[str, Any]) -> None:
    config = {**CONFIG, **changes}
    tensors = checkpoint(config)
    model = load(config, tensors, tmp_path)
    tokens = torch.tensor([ROW, [*range(40, 54)]])
    logits = model.project(model(tokens))
    for row, ids in zip(logits, tokens.tolist(), strict=True):
        assert distance(row, plain_forward(tensors, ids, config)) <= 1e-5


@pytest.mark.parametrize(
    "change",
    [
        {"topk_group": 4},
        {"num_experts_per_tok": 3},
        {"partial_rotary_factor": 1.0},
        {"block_size": 5},
    ],
)
def test_the_plain_forward_can_tell_a_difference(tmp_path: Path, change: dict[str, Any]) -> None:
    tensors = checkpoint(CONFIG)
    model = load(CONFIG, tensors, tmp_path)
    logits = model.project(model(torch.tensor([ROW])))[0]
    assert distance(logits, plain_forward(tensors, ROW, {**CONFIG, **change})) > 0.01


def test_a_padded_row_equals_the_plain_forward_of_its_real_tokens(tmp_path: Path) -> None:
    tensors = checkpoint(CONFIG)
    model = load(CONFIG, tensors, tmp_path)
    tokens = torch.tensor([[5, 126, 7, 1, 9, 0, 0, 0, 0, 0], [9, 8, 126, 6, 5, 4, 3, 2, 1, 126]])
    keep = torch.tensor([[True] * 5 + [False] * 5, [True] * 10])
    logits = model.project(model(tokens, keep))
    assert not logits.isnan().any()
    assert distance(logits[0, :5], plain_forward(tensors, [5, 126, 7, 1, 9], CONFIG)) <= 1e-5
    assert distance(logits[1], plain_forward(tensors, tokens[1].tolist(), CONFIG)) <= 1e-5


@pytest.mark.parametrize("changed", [0, 3, 4, 6, 13])
def test_a_token_reaches_its_own_block_and_later_ones_only(tmp_path: Path, changed: int) -> None:
    """With blocks of 4 a token in block b moves every row from 4 b on, and none before.

    Rows before may round otherwise: an expert multiplies more or fewer rows at once.
    """
    model = load(CONFIG, checkpoint(CONFIG), tmp_path)
    other = [*ROW]
    other[changed] = 77
    before, after = (model(torch.tensor([row]))[0] for row in (ROW, other))
    moved = (before - after).abs().amax(-1)
    start = changed // 4 * 4
    assert (moved[:start] <= 1e-5).all()
    assert moved[start:].min().item() >= 1e-2


def test_blocks_are_counted_from_the_first_token() -> None:
    """Six tokens, blocks of 4: the first four see four, the last two see all six."""
    model = FAMILY.build(CONFIG)
    seen = model.visible(6, None)
    assert seen is not None
    assert seen[0, 0].int().tolist() == [[1, 1, 1, 1, 0, 0]] * 4 + [[1] * 6] * 2
    keep = torch.tensor([[True] * 5 + [False]])
    seen = model.visible(6, keep)
    assert seen is not None
    assert seen[0, 0].int().tolist() == [[1, 1, 1, 1, 0, 0]] * 4 + [[1] * 5 + [0]] * 2


def test_the_block_size_is_public_and_32_where_nothing_is_said() -> None:
    config = {name: value for name, value in CONFIG.items() if name != "block_size"}
    assert (FAMILY.build(CONFIG).block_size, FAMILY.build(config).block_size) == (4, 32)
    assert Network.block_size is None


@pytest.mark.parametrize("block_size", [4, 32])
def test_the_denoiser_keeps_its_contract(tmp_path: Path, block_size: int) -> None:
    config = {**CONFIG, "max_position_embeddings": 256, "block_size": block_size}
    model = load(config, checkpoint(config), tmp_path)
    check_denoiser(
        NativeDenoiser(name="llada2", model=model, tokenizer=tiny_tokenizer(), preset=Preset())
    )


def test_a_folder_loads_and_writes_in_the_blocks_of_the_model(tmp_path: Path) -> None:
    config = {**CONFIG, "max_position_embeddings": 256, "architectures": [FAMILY.architecture]}
    tokenizer = tiny_tokenizer()
    ids = {"mask_token_id": tokenizer.mask_id, "eos_token_id": tokenizer.eos_id}
    (tmp_path / "config.json").write_text(json.dumps({**config, **ids}))
    tokenizer.backend.save(str(tmp_path / "tokenizer.json"))
    save_file(checkpoint(config), tmp_path / "model.safetensors")
    model = remask.load(tmp_path, device="cpu")
    assert (model.block_size, model.preset.block) == (4, 4)
    answer = remask.sample(model, "One?", settings=SamplerSettings(length=8, steps=4, block=4))
    trips = ConsistencySettings(mask_ratio=1.0, trips=1, rebuild_steps=1)
    found = remask.score(model, "One?", answer, settings=trips, metrics="core")
    # The prompt, then a canvas of 8 in two blocks of 4, or in three, of which the last is not kept.
    assert found.forwards in (1 + 2 + 1, 1 + 3 + 2)


@pytest.mark.parametrize("use_bias", [False, True])
def test_every_place_of_the_network_comes_from_one_hub_tensor(use_bias: bool) -> None:
    """Shapes are those of the hub, and rows in all are those of the network: nothing is left."""
    config = {**CONFIG, "use_bias": use_bias}
    network = FAMILY.build(config)
    places = stacked(network, FAMILY.tensor_map(network))
    assert {name: tuple(place.shape) for name, place in places.items()} == hub_shapes(config)
    numbers = sum(t.numel() for t in (*network.parameters(), *network.buffers()))
    assert sum(place.numel() for place in places.values()) == numbers


def test_published_sizes_give_the_published_number_of_parameters() -> None:
    """Mini: 19 layers of 257 x 3 x 2048 x 512 make 15.4 of 16.3 billion, in about 14.8k tensors."""
    sizes = {
        "hidden_size": 2048, "num_hidden_layers": 20, "num_attention_heads": 16,
        "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 5120, "num_experts": 256,
        "num_experts_per_tok": 8, "moe_intermediate_size": 512, "n_group": 8, "topk_group": 4,
        "vocab_size": 157184, "max_position_embeddings": 32768,
    }  # fmt: skip
    with torch.device("meta"):
        network = FAMILY.build({**CONFIG, **sizes})
    assert round(sum(p.numel() for p in network.parameters()) / 1e9, 1) == 16.3
    assert len(stacked(network, FAMILY.tensor_map(network))) == 14813


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_expert_bias_is_loaded_and_stays_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    """1 + 2^-20 needs 20 bits: a bias that went through bfloat16 would have come back as 1."""
    tensors = checkpoint(CONFIG)
    bias = tensors["model.layers.1.mlp.gate.expert_bias"].fill_(1 + 2**-20)
    model = load(CONFIG, tensors, tmp_path, dtype)
    loaded = dict(model.named_buffers())["blocks.1.mlp.routed.router.expert_bias"]
    assert loaded.dtype == torch.float32
    assert torch.equal(loaded, bias)
    assert {p.dtype for p in model.parameters()} == {dtype}
    cast = dict(model.bfloat16().named_buffers())["blocks.1.mlp.routed.router.expert_bias"]
    assert torch.equal(cast, bias)


def test_the_best_groups_and_experts_are_those_of_a_sort() -> None:
    """Random scores; groups 5 of 8 are kept, whose two best have the largest sums."""
    sizes = {"num_experts": 64, "n_group": 8, "topk_group": 5, "num_experts_per_tok": 6}
    model = Router(LLaDA2Config.read({**CONFIG, **sizes}))
    scores = torch.rand(200, 64, generator=torch.Generator().manual_seed(0))
    for row, chosen in zip(scores.tolist(), model.choose(scores).tolist(), strict=True):
        assert set(chosen) == route(row, [0.0] * 64, {**CONFIG, **sizes}).keys()


def test_the_injected_system_line_is_pinned() -> None:
    assert FAMILY.template.format(prompt="Hi?") == (
        "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>Hi?<|role_end|>"
        "<role>ASSISTANT</role>"
    )
    assert FAMILY.ends == ("<|role_end|>",)
