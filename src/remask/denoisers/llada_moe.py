"""LLaDA-MoE: LLaDA with normed heads, and experts for MLPs (LLaDA-MoE-7B-A1B).

The router is the one that runs in the released code, which is not the one its configuration
describes: no renormalisation, no scaling, no groups, whatever config.json says of them. What the
published configurations never use (biases, clipping, a shared expert, dense layers) is refused.
Its config.json calls itself model_type "llada"; only the architecture tells the two apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remask.denoisers.config import read_fields
from remask.denoisers.experts import Experts, SoftmaxRouter, expert_map
from remask.denoisers.native import Family, Network, TensorMap
from remask.denoisers.tokenizer import ROLE_TEMPLATE
from remask.denoisers.transformer import Attention, Block
from remask.errors import CheckpointError

ARCHITECTURE = "LLaDAMoEModelLM"
_REFUSED = {
    "attention_bias": False,
    "clip_qkv": None,
    "hidden_act": "silu",
    "partial_rotary_factor": 1,
    "qk_layernorm": True,
    "shared_expert_intermediate_size": None,
    "tie_word_embeddings": False,
}


@dataclass(frozen=True, kw_only=True)
class LLaDAMoEConfig:
    """The keys of config.json that shape the network, under their own names."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    num_experts: int
    num_experts_per_tok: int
    expert_intermediate_size: int
    vocab_size: int
    rope_theta: float
    max_position_embeddings: int
    rms_norm_eps: float = 1e-5
    moe_router_enable_expert_bias: bool = False

    @staticmethod
    def read(config: Mapping[str, Any]) -> "LLaDAMoEConfig":
        """Return the configuration, or raise naming the key that does not fit."""
        layers = config.get("moe_layer_freq") or [1]
        if layers != 1 and not (isinstance(layers, list) and all(layers)):
            raise CheckpointError(
                f"config.json sets moe_layer_freq to {config['moe_layer_freq']!r}; "
                "this LLaDA-MoE implementation has experts in every layer."
            )
        kv_heads = config.get("num_key_value_heads") or config.get("num_attention_heads")
        changed = {**config, "num_key_value_heads": kv_heads}
        known = read_fields(LLaDAMoEConfig, changed, refused=_REFUSED, family="LLaDA-MoE")
        return LLaDAMoEConfig(**known).checked()

    def checked(self) -> "LLaDAMoEConfig":
        """Return the configuration, or raise where its sizes do not fit one another."""
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        if self.hidden_size % (2 * heads) or heads % kv_heads:
            raise CheckpointError(
                f"config.json gives hidden_size {self.hidden_size}, num_attention_heads {heads} "
                f"and num_key_value_heads {kv_heads}; heads must divide the width evenly, kv heads "
                "the heads."
            )
        if self.num_experts_per_tok > self.num_experts:
            raise CheckpointError(
                f"config.json gives num_experts_per_tok {self.num_experts_per_tok}, "
                f"more than num_experts {self.num_experts}."
            )
        return self


class LLaDAMoE(Network):
    """The network: attention with normed heads, experts in every layer."""

    def __init__(self, config: LLaDAMoEConfig) -> None:
        self.config = config
        super().__init__(
            (_block(config) for _ in range(config.num_hidden_layers)),
            vocab_size=config.vocab_size, width=config.hidden_size, eps=config.rms_norm_eps,
            tied=False, max_length=config.max_position_embeddings,
            rotated=config.hidden_size // config.num_attention_heads, theta=config.rope_theta,
        )  # fmt: skip


def _block(c: LLaDAMoEConfig) -> Block:
    attention = Attention(
        c.hidden_size, c.num_attention_heads, c.num_key_value_heads, qk_norm_eps=c.rms_norm_eps
    )
    router = SoftmaxRouter(
        c.hidden_size, c.num_experts, c.num_experts_per_tok, biased=c.moe_router_enable_expert_bias
    )
    experts = Experts(router, c.num_experts, c.hidden_size, c.expert_intermediate_size)
    return Block(attention, experts, c.hidden_size, c.rms_norm_eps)


def tensor_map(config: LLaDAMoEConfig) -> TensorMap:
    """Yield each tensor of `LLaDAMoE` with the hub tensors stacked into it."""
    c = config
    head_dim = c.hidden_size // c.num_attention_heads
    yield "embedding.weight", [("model.embed_tokens.weight", c.vocab_size)]
    for i in range(c.num_hidden_layers):
        ours, hub = f"blocks.{i}.", f"model.layers.{i}."
        yield f"{ours}attention_norm.weight", [(f"{hub}input_layernorm.weight", c.hidden_size)]
        yield (
            f"{ours}attention.qkv.weight",
            [
                (f"{hub}self_attn.q_proj.weight", c.num_attention_heads * head_dim),
                (f"{hub}self_attn.k_proj.weight", c.num_key_value_heads * head_dim),
                (f"{hub}self_attn.v_proj.weight", c.num_key_value_heads * head_dim),
            ],
        )
        yield f"{ours}attention.qk_norm.q.weight", [(f"{hub}self_attn.q_norm.weight", head_dim)]
        yield f"{ours}attention.qk_norm.k.weight", [(f"{hub}self_attn.k_norm.weight", head_dim)]
        yield f"{ours}attention.out.weight", [(f"{hub}self_attn.o_proj.weight", c.hidden_size)]
        yield f"{ours}mlp_norm.weight", [(f"{hub}post_attention_layernorm.weight", c.hidden_size)]
        yield from _expert_map(c, f"{ours}mlp.", f"{hub}mlp.")
    yield "norm.weight", [("model.norm.weight", c.hidden_size)]
    yield "unembedding.weight", [("lm_head.weight", c.vocab_size)]


def _expert_map(c: LLaDAMoEConfig, ours: str, hub: str) -> TensorMap:
    yield f"{ours}router.gate.weight", [(f"{hub}gate.weight", c.num_experts)]
    if c.moe_router_enable_expert_bias:
        yield f"{ours}router.expert_bias", [(f"{hub}expert_bias", c.num_experts)]
    yield from expert_map(ours, hub, c.num_experts, c.expert_intermediate_size, c.hidden_size)


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=lambda config: LLaDAMoE(LLaDAMoEConfig.read(config)),
    tensor_map=lambda network: tensor_map(network.config),
    template=ROLE_TEMPLATE,
    ends=("<|role_end|>",),
    turns=False,  # no tokenizer of the authors was seen
    model_types=("llada", "lladamoe"),
    spare={".mlp.expert_bias": "the released code adds it where config.json switches it on alone"},
)
