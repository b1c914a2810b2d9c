"""LLaDA: bidirectional Llama blocks (arXiv:2502.09992).

q, k and v are fused into one matrix, gate and up into another; the hub has them separately.
Settings that no published configuration uses (biases, ALiBi, QK norms, other norms) raise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from remask.denoisers.config import read_fields
from remask.denoisers.native import Family, Network, TensorMap, stacked
from remask.denoisers.tokenizer import LLADA_SYSTEM, LLADA_TEMPLATE
from remask.denoisers.transformer import Attention, Block, GatedMLP
from remask.errors import CheckpointError

ARCHITECTURE = "LLaDAModelLM"
_SUPPORTED = {
    "alibi": False,
    "bias_for_layer_norm": False,
    "clip_qkv": None,
    "attention_layer_norm": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "input_emb_norm": False,
    "scale_logits": False,
    "layer_norm_type": "rms",
    "block_type": "llama",
    "activation_type": "silu",
    "rope": True,
    "partial_rotary_factor": 1,
    "block_group_size": 1,
    "layer_norm_with_affine": True,
    "multi_query_attention": False,
    "rope_full_precision": True,
}
# Keys of unsupported settings and of the initialisation.
_IGNORED = (
    "alibi_bias_max", "attention_layer_norm_with_affine", "embedding_size", "flash_attention",
    "init_cutoff_factor", "init_device", "init_fn", "init_std", "mlp_ratio", "precision",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LLaDAConfig:
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    mlp_hidden_size: int
    vocab_size: int
    max_sequence_length: int
    rope_theta: float = 10_000.0  # default of the authors' class; published files have 500,000
    rms_norm_eps: float = 1e-5
    weight_tying: bool = False

    @staticmethod
    def read(config: Mapping[str, Any]) -> "LLaDAConfig":
        changed = {
            "n_kv_heads": config.get("n_kv_heads") or config.get("n_heads"),
            # The embedding may be wider than the vocabulary; logits have its width.
            "vocab_size": config.get("embedding_size") or config.get("vocab_size"),
        }
        known = read_fields(
            LLaDAConfig,
            {**config, **changed},
            supported=_SUPPORTED,
            family="LLaDA",
            ignored=_IGNORED,
        )
        return LLaDAConfig(**known).checked()

    def checked(self) -> "LLaDAConfig":
        if self.d_model % (2 * self.n_heads) or self.n_heads % self.n_kv_heads:
            raise CheckpointError(
                f"config.json gives d_model {self.d_model}, n_heads {self.n_heads} and n_kv_heads "
                f"{self.n_kv_heads}; heads must divide the width evenly, kv heads the heads."
            )
        return self


class LLaDA(Network):
    float32_rotary = True

    def __init__(self, config: LLaDAConfig) -> None:
        c = self.config = config
        blocks = (
            Block(
                Attention(c.d_model, c.n_heads, c.n_kv_heads),
                GatedMLP(c.d_model, c.mlp_hidden_size),
                c.d_model,
                c.rms_norm_eps,
            )
            for _ in range(c.n_layers)
        )
        super().__init__(
            blocks,
            vocab_size=c.vocab_size,
            width=c.d_model,
            eps=c.rms_norm_eps,
            tied=c.weight_tying,
            max_length=c.max_sequence_length,
            rotated=c.d_model // c.n_heads,
            theta=c.rope_theta,
        )

    def initialise(self, generator: torch.Generator) -> None:
        """Draw initial weights; those of residual outputs are scaled down by depth."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
                std = 0.02 / math.sqrt(2 * self.config.n_layers) if residual else 0.02
                nn.init.normal_(parameter, std=std, generator=generator)


def tensor_map(config: LLaDAConfig) -> TensorMap:
    c = config
    head_dim = c.d_model // c.n_heads
    root = "model.transformer."
    yield "embedding.weight", [(f"{root}wte.weight", c.vocab_size)]
    for i in range(c.n_layers):
        ours, hub = f"blocks.{i}.", f"{root}blocks.{i}."
        yield f"{ours}attention_norm.weight", [(f"{hub}attn_norm.weight", c.d_model)]
        yield (
            f"{ours}attention.qkv.weight",
            [
                (f"{hub}q_proj.weight", c.n_heads * head_dim),
                (f"{hub}k_proj.weight", c.n_kv_heads * head_dim),
                (f"{hub}v_proj.weight", c.n_kv_heads * head_dim),
            ],
        )
        yield f"{ours}attention.out.weight", [(f"{hub}attn_out.weight", c.d_model)]
        yield f"{ours}mlp_norm.weight", [(f"{hub}ff_norm.weight", c.d_model)]
        yield (
            f"{ours}mlp.gate_up.weight",
            [
                (f"{hub}ff_proj.weight", c.mlp_hidden_size),
                (f"{hub}up_proj.weight", c.mlp_hidden_size),
            ],
        )
        yield f"{ours}mlp.down.weight", [(f"{hub}ff_out.weight", c.d_model)]
    yield "norm.weight", [(f"{root}ln_f.weight", c.d_model)]
    if not c.weight_tying:
        yield "unembedding.weight", [(f"{root}ff_out.weight", c.vocab_size)]


def hub_tensors(model: LLaDA) -> dict[str, Tensor]:
    """Return the weights by hub name."""
    places = stacked(model, tensor_map(model.config))
    return {hub: place.contiguous() for hub, place in places.items()}


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=lambda config: LLaDA(LLaDAConfig.read(config)),
    tensor_map=lambda network: tensor_map(network.config),
    template=LLADA_TEMPLATE,
    system=LLADA_SYSTEM,
    trims=True,
    ends=("<|eot_id|>",),
    turns=False,  # the tokenizer of the base model may lack the tokens
    mask_token="<|mdm_mask|>",
    head="model.transformer.ff_out.weight",
    model_types=("llada",),
)
