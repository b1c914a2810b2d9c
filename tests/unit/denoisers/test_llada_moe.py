"""LLaDA-MoE against a plain re-implementation that shares no code with it, token by token."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from plain import norm, turn
from safetensors.torch import save_file
from torch import Tensor

from remask.denoisers.base import Preset
from remask.denoisers.experts import SoftmaxRouter
from remask.denoisers.llada_moe import FAMILY, LLaDAMoE
from remask.denoisers.native import NativeDenoiser, stacked
from remask.denoisers.weights import WeightFiles, check_tensors, fill
from remask.errors import CheckpointError
from remask.testing import check_denoiser, tiny_tokenizer

CONFIG: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "expert_intermediate_size": 16,
    "vocab_size": 262,
    "rope_theta": 100.0,
    "max_position_embeddings": 64,
}
PUBLISHED: dict[str, Any] = {
    **CONFIG,
    "attention_bias": False,
    "clip_qkv": None,
    "dense_intermediate_size": 64,
    "moe_layer_freq": [1, 1],
    "moe_router_enable_expert_bias": False,
    "norm_topk_prob": True,
    "partial_rotary_factor": 1,
    "qk_layernorm": True,
    "routed_scaling_factor": 2.5,
    "shared_expert_intermediate_size": None,
}
ROW = [5, 126, 7, 126, 9, 99, 0, 1, 126, 3, 2, 64]


def hub_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the tensors of a checkpoint as the hub names them."""
    width, head_dim = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    kv, experts = config["num_key_value_heads"] * head_dim, config["num_experts"]
    inner, vocab = config["expert_intermediate_size"], config["vocab_size"]
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
        "self_attn.q_proj.weight": (width, width),
        "self_attn.k_proj.weight": (kv, width),
        "self_attn.v_proj.weight": (kv, width),
        "self_attn.o_proj.weight": (width, width),
        "self_attn.q_norm.weight": (head_dim,),
        "self_attn.k_norm.weight": (head_dim,),
        "mlp.gate.weight": (experts, width),
    }
    for e in range(experts):
        layer[f"mlp.experts.{e}.gate_proj.weight"] = (inner, width)
        layer[f"mlp.experts.{e}.up_proj.weight"] = (inner, width)
        layer[f"mlp.experts.{e}.down_proj.weight"] = (width, inner)
    if config.get("moe_router_enable_expert_bias"):
        layer["mlp.expert_bias"] = (experts,)
    layers = range(config["num_hidden_layers"])
    return {
        "model.embed_tokens.weight": (vocab, width),
        "model.norm.weight": (width,),
        "lm_head.weight": (vocab, width),
        **{f"model.layers.{i}.{name}": shape for i in layers for name, shape in layer.items()},
    }


def checkpoint(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Return random tensors, norms included, large enough to show."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator) * 0.3 + name.endswith("norm.weight")
        for name, shape in hub_shapes(config).items()
    }


def load(config: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> LLaDAMoE:
    """Return the network, filled from a file as a checkpoint is loaded."""
    save_file(tensors, folder / "model.safetensors")
    with torch.device("meta"):
        network = FAMILY.build(config)
    network = network.to(torch.float32).to_empty(device="cpu")
    places = stacked(network, FAMILY.tensor_map(network))
    check_tensors(places, WeightFiles(folder))
    fill([places], WeightFiles(folder))
    assert isinstance(network, LLaDAMoE)
    return network.eval().requires_grad_(False)


def attend(y: Tensor, w: dict[str, Tensor], config: dict[str, Any]) -> Tensor:
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width, theta = config["hidden_size"] // heads, config["rope_theta"]
    mixed = []
    for head in range(heads):
        shared = head * kv_heads // heads
        q, k, v = (
            (y @ w[f"self_attn.{name}_proj.weight"].T)[:, at * width : (at + 1) * width]
            for name, at in (("q", head), ("k", shared), ("v", shared))
        )
        q = turn(norm(q, w["self_attn.q_norm.weight"], 1e-5), theta)
        k = turn(norm(k, w["self_attn.k_norm.weight"], 1e-5), theta)
        mixed.append((q @ k.T / math.sqrt(width)).softmax(-1) @ v)
    return torch.cat(mixed, -1) @ w["self_attn.o_proj.weight"].T


def consult(row: Tensor, w: dict[str, Tensor], num_chosen: int) -> Tensor:
    """Return what the experts make of one token, (width,)."""
    logits = w["mlp.gate.weight"] @ row
    weights = (logits - logits.max()).exp()
    weights = weights / weights.sum()
    if "mlp.expert_bias" in w:
        weights = weights + w["mlp.expert_bias"]
    out = torch.zeros_like(row)
    for e in sorted(range(len(weights)), key=lambda e: -weights[e].item())[:num_chosen]:
        gate, up, down = (
            w[f"mlp.experts.{e}.{part}_proj.weight"] for part in ("gate", "up", "down")
        )
        inner = gate @ row
        out = out + weights[e] * (down @ (inner * inner.sigmoid() * (up @ row)))
    return out


def plain_forward(tensors: dict[str, Tensor], tokens: list[int], config: dict[str, Any]) -> Tensor:
    """Return the logits (L, V) of one row in float64."""
    every = {name: tensor.double() for name, tensor in tensors.items()}
    x = every["model.embed_tokens.weight"][tokens]  # (L, width)
    for i in range(config["num_hidden_layers"]):
        root = f"model.layers.{i}."
        w = {n.removeprefix(root): t for n, t in every.items() if n.startswith(root)}
        x = x + attend(norm(x, w["input_layernorm.weight"], 1e-5), w, config)
        y = norm(x, w["post_attention_layernorm.weight"], 1e-5)
        x = x + torch.stack([consult(row, w, config["num_experts_per_tok"]) for row in y])
    return norm(x, every["model.norm.weight"], 1e-5) @ every["lm_head.weight"].T


def distance(ours: Tensor, expected: Tensor) -> float:
    return ((ours - expected).abs().max() / expected.abs().max().clamp(min=1.0)).item()


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("biased", [False, True])
def test_logits_equal_a_plain_reimplementation(tmp_path: Path, kv_heads: int, biased: bool) -> None:
    config = {**CONFIG, "num_key_value_heads": kv_heads, "moe_router_enable_expert_bias": biased}
    tensors = checkpoint(config)
    model = load(config, tensors, tmp_path)
    tokens = torch.tensor([ROW, [*range(40, 52)]])
    logits = model.project(model(tokens))
    for row, ids in zip(logits, tokens.tolist(), strict=True):
        assert distance(row, plain_forward(tensors, ids, config)) <= 1e-5


@pytest.mark.parametrize("change", [{"num_experts_per_tok": 3}, {"rope_theta": 1e4}])
def test_the_plain_forward_can_tell_a_difference(tmp_path: Path, change: dict[str, Any]) -> None:
    tensors = checkpoint(CONFIG)
    model = load(CONFIG, tensors, tmp_path)
    logits = model.project(model(torch.tensor([ROW])))[0]
    assert distance(logits, plain_forward(tensors, ROW, {**CONFIG, **change})) > 0.01


def test_a_padded_row_equals_the_plain_forward_of_its_real_tokens(tmp_path: Path) -> None:
    tensors = checkpoint(CONFIG)
    model = load(CONFIG, tensors, tmp_path)
    tokens = torch.tensor([[5, 126, 7, 0, 0, 0], [9, 8, 126, 6, 5, 4]])
    keep = torch.tensor([[True] * 3 + [False] * 3, [True] * 6])
    logits = model.project(model(tokens, keep))[0, :3]
    assert distance(logits, plain_forward(tensors, [5, 126, 7], CONFIG)) <= 1e-5


def test_the_denoiser_keeps_its_contract(tmp_path: Path) -> None:
    config = {**CONFIG, "max_position_embeddings": 256}
    model = load(config, checkpoint(config), tmp_path)
    check_denoiser(
        NativeDenoiser(name="moe", model=model, tokenizer=tiny_tokenizer(), preset=Preset())
    )


def test_every_place_of_the_network_comes_from_one_hub_tensor() -> None:
    """Shapes are those of the hub, and rows in all are those of the network: nothing is left."""
    for biased in (False, True):
        config = {**PUBLISHED, "moe_router_enable_expert_bias": biased}
        network = FAMILY.build(config)
        places = stacked(network, FAMILY.tensor_map(network))
        assert {name: tuple(place.shape) for name, place in places.items()} == hub_shapes(config)
        numbers = sum(t.numel() for t in (*network.parameters(), *network.buffers()))
        assert sum(place.numel() for place in places.values()) == numbers


def test_a_checkpoint_without_the_bias_its_config_announces_is_refused(tmp_path: Path) -> None:
    config = {**CONFIG, "moe_router_enable_expert_bias": True}
    with pytest.raises(CheckpointError, match=r"lacks the tensor .*mlp\.expert_bias"):
        load(config, checkpoint(CONFIG), tmp_path)


def router(bias: list[float] | None = None) -> SoftmaxRouter:
    """Return a router of 4 experts whose softmax is 0.1, 0.2, 0.3, 0.4 for the row (1,)."""
    model = SoftmaxRouter(1, 4, 2, biased=bias is not None).requires_grad_(False)
    model.gate.weight.copy_(torch.tensor([[0.1], [0.2], [0.3], [0.4]]).log())
    if bias is not None:
        model.expert_bias = torch.tensor(bias)
    return model


def test_weights_are_not_renormalised() -> None:
    """The best two of 0.1, 0.2, 0.3, 0.4 keep 0.4 and 0.3; renormalised they would be 4/7, 3/7."""
    weights, chosen = router()(torch.ones(1, 1))
    assert chosen.tolist() == [[3, 2]]
    assert weights[0].tolist() == pytest.approx([0.4, 0.3])


def test_the_bias_counts_in_the_choice_and_in_the_weight() -> None:
    """0.1 + 0.5 = 0.6 comes first, then 0.4."""
    weights, chosen = router([0.5, 0.0, 0.0, 0.0])(torch.ones(1, 1))
    assert chosen.tolist() == [[0, 3]]
    assert weights[0].tolist() == pytest.approx([0.6, 0.4])


def test_weights_are_in_the_dtype_of_the_rows() -> None:
    model = router()
    assert model(torch.ones(1, 1))[0].dtype == torch.float32
    model.double()
    assert model(torch.ones(1, 1).double())[0].dtype == torch.float64


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_attention_heads", 5), ("num_key_value_heads", 3), ("num_experts_per_tok", 9)],
)
def test_sizes_that_do_not_fit_one_another_are_refused(name: str, value: int) -> None:
    with pytest.raises(CheckpointError, match=f"{name} {value}"):
        LLaDAMoE.read({**PUBLISHED, name: value})


def test_defaults_are_those_of_the_published_models() -> None:
    config = LLaDAMoE.read({k: v for k, v in CONFIG.items() if k != "num_key_value_heads"})
    assert (config.rms_norm_eps, config.moe_router_enable_expert_bias) == (1e-5, False)
    assert config.num_key_value_heads == 4


def test_the_injected_system_line_is_pinned() -> None:
    assert FAMILY.template.format(prompt="Hi?") == (
        "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>Hi?<|role_end|>"
        "<role>ASSISTANT</role>"
    )
    assert FAMILY.ends == ("<|role_end|>",)
