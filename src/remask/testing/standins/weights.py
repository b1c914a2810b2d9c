"""Tensors of the stand-ins: the authors' names, in the shapes that a config.json asks for.

The names and shapes were written down from the authors' modelling files and from the indexes of
their checkpoints, not from this package's networks.
"""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Config = Mapping[str, Any]
Shapes = dict[str, tuple[int, ...]]


def llada(config: Config) -> Shapes:
    """LLaDA: OLMo's names; nine tensors a layer."""
    width, inner, rows = config["d_model"], config["mlp_hidden_size"], config["embedding_size"]
    shared = width * config["n_kv_heads"] // config["n_heads"]
    tensor_shapes: Shapes = {
        "model.transformer.wte.weight": (rows, width),
        "model.transformer.ln_f.weight": (width,),
        "model.transformer.ff_out.weight": (rows, width),
    }
    layer = {
        "attn_norm": (width,), "ff_norm": (width,), "attn_out": (width, width),
        "q_proj": (width, width), "k_proj": (shared, width), "v_proj": (shared, width),
        "ff_proj": (inner, width), "up_proj": (inner, width), "ff_out": (width, inner),
    }  # fmt: skip
    for i in range(config["n_layers"]):
        tensor_shapes |= {f"model.transformer.blocks.{i}.{n}.weight": s for n, s in layer.items()}
    return tensor_shapes


def decoder(config: Config, *, qkv_bias: bool = False, qk_norm: bool = False) -> Shapes:
    """Llama's names, which Qwen, Dream, SDAR and iLLaDA share."""
    tensor_shapes = _ends(config)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        tensor_shapes |= _attention(config, layer, qkv_bias=qkv_bias, qk_norm=qk_norm)
        tensor_shapes |= _gated(f"{layer}mlp.", config["hidden_size"], config["intermediate_size"])
    return tensor_shapes


def sparse_decoder(config: Config, *, inner: str) -> Shapes:
    """Llama's names with experts, as Qwen3-MoE and LLaDA-MoE have them."""
    tensor_shapes = _ends(config)
    width = config["hidden_size"]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        tensor_shapes |= _attention(config, layer, qkv_bias=False, qk_norm=True)
        tensor_shapes[f"{layer}mlp.gate.weight"] = (config["num_experts"], width)
        for expert in range(config["num_experts"]):
            tensor_shapes |= _gated(f"{layer}mlp.experts.{expert}.", width, config[inner])
    return tensor_shapes


def llada2(config: Config) -> Shapes:
    """LLaDA2: BailingMoE's names; the first layers are dense, the others have a shared expert."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    size = config["head_dim"]
    rows = (heads + 2 * config["num_key_value_heads"]) * size
    tensor_shapes: Shapes = {
        "model.word_embeddings.weight": (config["vocab_size"], width),
        "model.norm.weight": (width,),
        "lm_head.weight": (config["vocab_size"], width),
    }
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        tensor_shapes |= {
            f"{layer}input_layernorm.weight": (width,),
            f"{layer}post_attention_layernorm.weight": (width,),
            f"{layer}attention.query_key_value.weight": (rows, width),
            f"{layer}attention.query_layernorm.weight": (size,),
            f"{layer}attention.key_layernorm.weight": (size,),
            f"{layer}attention.dense.weight": (width, heads * size),
        }
        tensor_shapes |= _llada2_mlp(config, layer, dense=i < config["first_k_dense_replace"])
    return tensor_shapes


def _llada2_mlp(config: Config, layer: str, *, dense: bool) -> Shapes:
    width, inner = config["hidden_size"], config["moe_intermediate_size"]
    if dense:
        return _gated(f"{layer}mlp.", width, config["intermediate_size"])
    tensor_shapes: Shapes = {
        f"{layer}mlp.gate.weight": (config["num_experts"], width),
        f"{layer}mlp.gate.expert_bias": (config["num_experts"],),
    }
    for expert in range(config["num_experts"]):
        tensor_shapes |= _gated(f"{layer}mlp.experts.{expert}.", width, inner)
    shared = inner * config["num_shared_experts"]
    return tensor_shapes | _gated(f"{layer}mlp.shared_experts.", width, shared)


def _ends(config: Config) -> Shapes:
    rows = (config["vocab_size"], config["hidden_size"])
    return {
        "model.embed_tokens.weight": rows,
        "model.norm.weight": rows[1:],
        "lm_head.weight": rows,
    }


def _attention(config: Config, layer: str, *, qkv_bias: bool, qk_norm: bool) -> Shapes:
    width, heads = config["hidden_size"], config["num_attention_heads"]
    size = config.get("head_dim") or width // heads
    shared = config["num_key_value_heads"] * size
    place = f"{layer}self_attn."
    tensor_shapes: Shapes = {
        f"{layer}input_layernorm.weight": (width,),
        f"{layer}post_attention_layernorm.weight": (width,),
        f"{place}q_proj.weight": (heads * size, width),
        f"{place}k_proj.weight": (shared, width),
        f"{place}v_proj.weight": (shared, width),
        f"{place}o_proj.weight": (width, heads * size),
    }
    if qkv_bias:
        for name in ("q_proj", "k_proj", "v_proj"):
            tensor_shapes[f"{place}{name}.bias"] = tensor_shapes[f"{place}{name}.weight"][:1]
    if qk_norm:
        tensor_shapes |= {f"{place}q_norm.weight": (size,), f"{place}k_norm.weight": (size,)}
    return tensor_shapes


def _gated(place: str, width: int, inner: int) -> Shapes:
    return {
        f"{place}gate_proj.weight": (inner, width),
        f"{place}up_proj.weight": (inner, width),
        f"{place}down_proj.weight": (width, inner),
    }


def draw(tensor_shapes: Shapes, seed: int) -> dict[str, Tensor]:
    """Return random tensors, large enough for every layer to show; norms are near 1."""
    generator = torch.Generator().manual_seed(seed)
    return {name: _random(name, shape, generator) for name, shape in tensor_shapes.items()}


def _random(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=generator)
    if name.endswith("expert_bias"):
        return 0.1 * noise  # a buffer that the authors keep in float32
    if len(shape) == 1:
        return (0.1 * noise + (0.0 if name.endswith(".bias") else 1.0)).bfloat16()
    scaled: Tensor = noise / shape[1] ** 0.5
    return scaled.bfloat16()


def files(tensors: Mapping[str, Tensor], shards: int) -> dict[str, bytes]:
    """Return the safetensors files of a checkpoint, with an index where there are several."""
    import safetensors.torch

    def save(part: dict[str, Tensor]) -> bytes:
        content: bytes = safetensors.torch.save(part, metadata={"format": "pt"})
        return content

    if shards == 1:
        return {"model.safetensors": save(dict(tensors))}
    names = list(tensors)
    size = -(-len(names) // shards)
    parts = [names[start : start + size] for start in range(0, len(names), size)]
    out: dict[str, bytes] = {}
    where: dict[str, str] = {}
    for i, part in enumerate(parts, 1):
        file = f"model-{i:05d}-of-{len(parts):05d}.safetensors"
        out[file] = save({name: tensors[name] for name in part})
        where |= dict.fromkeys(part, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
    out["model.safetensors.index.json"] = (json.dumps(index, indent=2) + "\n").encode()
    return out
