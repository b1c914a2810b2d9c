"""LLaDA against a plain re-implementation that shares no code with it."""

import math
from typing import Any

import pytest
import torch
from plain import norm, turn
from torch import Tensor

from remask.denoisers.llada import LLaDA, LLaDAConfig, hub_tensors, tensor_map

CONFIG: dict[str, Any] = {
    "d_model": 32,
    "n_layers": 2,
    "n_heads": 4,
    "mlp_hidden_size": 64,
    "vocab_size": 128,
    "max_sequence_length": 64,
}
PUBLISHED: dict[str, Any] = {
    **CONFIG,
    "alibi": False,
    "attention_layer_norm": False,
    "block_type": "llama",
    "include_bias": False,
    "include_qkv_bias": False,
    "input_emb_norm": False,
    "layer_norm_type": "rms",
    "activation_type": "silu",
    "rope": True,
    "scale_logits": False,
}
SHAPES = [(kv, tied) for kv in (4, 2, 1) for tied in (False, True)]


def network(seed: int = 0, **changes: Any) -> LLaDA:
    """Return a network whose every weight, norms included, is large enough to show."""
    model = LLaDA(LLaDAConfig.read({**CONFIG, **changes}))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3 + (weight.dim() == 1))
    return model


def plain_forward(tensors: dict[str, Tensor], tokens: list[int], config: LLaDAConfig) -> Tensor:
    """Return the logits (L, V) of one row in float64, head by head, from the hub's tensors."""
    w = {name.removeprefix("model.transformer."): t.double() for name, t in tensors.items()}
    width = config.d_model // config.n_heads
    x = w["wte.weight"][tokens]  # (L, d_model)
    for i in range(config.n_layers):
        b = {n.removeprefix(f"blocks.{i}."): t for n, t in w.items() if f"blocks.{i}." in n}
        y = norm(x, b["attn_norm.weight"], 1e-5)
        mixed = []
        for head in range(config.n_heads):
            shared = head * config.n_kv_heads // config.n_heads
            q, k, v = (
                (y @ b[f"{name}_proj.weight"].T)[:, at * width : (at + 1) * width]
                for name, at in (("q", head), ("k", shared), ("v", shared))
            )
            q, k = turn(q, config.rope_theta), turn(k, config.rope_theta)
            mixed.append((q @ k.T / math.sqrt(width)).softmax(-1) @ v)
        x = x + torch.cat(mixed, -1) @ b["attn_out.weight"].T
        y = norm(x, b["ff_norm.weight"], 1e-5)
        gate, up = y @ b["ff_proj.weight"].T, y @ b["up_proj.weight"].T
        x = x + (gate * gate.sigmoid() * up) @ b["ff_out.weight"].T
    head_weight = w["wte.weight"] if config.weight_tying else w["ff_out.weight"]
    return norm(x, w["ln_f.weight"], 1e-5) @ head_weight.T


@pytest.mark.parametrize(("kv_heads", "tied"), SHAPES)
@torch.no_grad()
def test_logits_equal_a_plain_reimplementation(kv_heads: int, tied: bool) -> None:
    model = network(n_kv_heads=kv_heads, weight_tying=tied, rope_theta=100.0)
    tokens = torch.tensor([[5, 126, 7, 126, 9, 99, 0, 1, 126, 3, 2, 64], [*range(40, 52)]])
    logits = model.project(model(tokens))
    for row, ids in zip(logits, tokens.tolist(), strict=True):
        expected = plain_forward(hub_tensors(model), ids, model.config)
        scale = expected.abs().max().item()
        assert (row - expected).abs().max().item() <= 1e-5 * max(1.0, scale)


@torch.no_grad()
def test_a_padded_row_equals_the_plain_forward_of_its_real_tokens() -> None:
    model = network(n_kv_heads=2)
    tokens = torch.tensor([[5, 126, 7, 0, 0, 0], [9, 8, 126, 6, 5, 4]])
    attend = torch.tensor([[True] * 3 + [False] * 3, [True] * 6])
    logits = model.project(model(tokens, attend))[0, :3]
    expected = plain_forward(hub_tensors(model), [5, 126, 7], model.config)
    assert (logits - expected).abs().max().item() <= 1e-5 * expected.abs().max().item()


@torch.no_grad()
def test_the_plain_forward_tells_the_rotation_base_apart() -> None:
    """The comparison above must be able to fail: another theta moves the logits visibly."""
    model = network(rope_theta=100.0)
    other = LLaDAConfig.read({**CONFIG, "rope_theta": 10000.0})
    logits = model.project(model(torch.tensor([[*range(12)]])))[0]
    expected = plain_forward(hub_tensors(model), [*range(12)], other)
    assert (logits - expected).abs().max().item() > 0.1


@pytest.mark.parametrize(("kv_heads", "tied"), SHAPES)
def test_hub_names_and_shapes_are_those_of_the_published_checkpoints(
    kv_heads: int, tied: bool
) -> None:
    """9 tensors per layer and wte, ln_f, plus the head ff_out where it is not tied."""
    tensors = hub_tensors(network(n_kv_heads=kv_heads, weight_tying=tied))
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    layer = {
        "attn_norm": (32,),
        "ff_norm": (32,),
        "q_proj": (32, 32),
        "k_proj": (8 * kv_heads, 32),
        "v_proj": (8 * kv_heads, 32),
        "attn_out": (32, 32),
        "ff_proj": (64, 32),
        "up_proj": (64, 32),
        "ff_out": (32, 64),
    }
    root = "model.transformer."
    expected = {f"{root}blocks.{i}.{n}.weight": s for i in (0, 1) for n, s in layer.items()}
    expected |= {f"{root}wte.weight": (128, 32), f"{root}ln_f.weight": (32,)}
    expected |= {} if tied else {f"{root}ff_out.weight": (128, 32)}
    assert shapes == expected


@pytest.mark.parametrize(("kv_heads", "tied"), SHAPES)
def test_fused_projections_come_back_from_hub_names_exactly(kv_heads: int, tied: bool) -> None:
    model = network(n_kv_heads=kv_heads, weight_tying=tied)
    tensors = hub_tensors(model)
    parameters = dict(model.named_parameters())
    rebuilt = {
        name: torch.cat([tensors[hub] for hub, _ in parts])
        for name, parts in tensor_map(model.config)
    }
    assert rebuilt.keys() == parameters.keys()
    assert all(torch.equal(rebuilt[name], parameters[name]) for name in parameters)


def test_defaults_are_those_of_the_authors_class() -> None:
    config = LLaDAConfig.read({k: v for k, v in PUBLISHED.items() if k != "rope_theta"})
    assert (config.rope_theta, config.rms_norm_eps) == (10_000.0, 1e-5)
    assert (config.n_kv_heads, config.weight_tying) == (4, False)


def test_logits_are_as_wide_as_a_padded_embedding() -> None:
    assert LLaDAConfig.read({**CONFIG, "embedding_size": 160}).vocab_size == 160


def test_initial_weights_are_a_function_of_the_generator() -> None:
    one, other = LLaDA(LLaDAConfig.read(CONFIG)), LLaDA(LLaDAConfig.read(CONFIG))
    for model in (one, other):
        model.initialise(torch.Generator().manual_seed(7))
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert one.embedding.weight.std().item() == pytest.approx(0.02, rel=0.05)


def test_residual_outputs_start_smaller_by_depth() -> None:
    """Two layers add four times to the stream: 0.02 / sqrt(4) = 0.01."""
    model = LLaDA(LLaDAConfig.read(CONFIG))
    model.initialise(torch.Generator().manual_seed(7))
    outputs = [w for n, w in model.named_parameters() if n.endswith(("out.weight", "down.weight"))]
    assert len(outputs) == 4
    assert torch.cat([w.flatten() for w in outputs]).std().item() == pytest.approx(0.01, rel=0.05)
