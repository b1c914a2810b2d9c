"""LLaDA-MoE: LLaDA with QK norms and experts instead of MLPs (LLaDA-MoE-7B-A1B).

The router follows the released code, not the configuration: no renormalisation, scaling or groups.
Settings that no published configuration uses (biases, clipping, a shared expert, dense layers)
raise. Its model_type is "llada", like LLaDA's; the architecture differs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from torch import nn

from remask.denoisers.experts import Experts, SoftmaxRouter, expert_map
from remask.denoisers.native import Family, TensorMap
from remask.denoisers.qwen import Qwen, QwenMoeConfig, tensor_map
from remask.denoisers.tokenizer import ROLE_SYSTEM, ROLE_TEMPLATE
from remask.errors import CheckpointError

ARCHITECTURE = "LLaDAMoEModelLM"


@dataclass(frozen=True, kw_only=True)
class LLaDAMoEConfig(QwenMoeConfig):
    expert_intermediate_size: int
    rope_theta: float = field()  # required: the authors' class has no usable default
    rms_norm_eps: float = 1e-5
    moe_router_enable_expert_bias: bool = False

    def checked(self) -> Self:
        heads = self.num_attention_heads
        if self.hidden_size % (2 * heads) or self.head_dim * heads != self.hidden_size:
            raise CheckpointError(
                f"config.json gives hidden_size {self.hidden_size} and num_attention_heads "
                f"{heads}; heads must divide the width evenly."
            )
        return super().checked()


class LLaDAMoE(Qwen):
    config: LLaDAMoEConfig
    family = "LLaDA-MoE"
    qk_norm = True
    supported: Mapping[str, Any] = {
        "attention_bias": False,
        "clip_qkv": None,
        "hidden_act": "silu",
        "partial_rotary_factor": 1,
        "qk_layernorm": True,
        "shared_expert_intermediate_size": None,
        "tie_word_embeddings": False,
    }

    ignored = (  # `moe_layer_freq` is read by `read`
        "dense_intermediate_size", "moe_layer_freq", "moe_router_score_function", "norm_topk_prob",
        "routed_scaling_factor", "router_num_group", "router_topk_group",
    )  # fmt: skip

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> LLaDAMoEConfig:
        layers = config.get("moe_layer_freq") or [1]
        if layers != 1 and not (isinstance(layers, list) and all(layers)):
            raise CheckpointError(
                f"config.json sets moe_layer_freq to {config['moe_layer_freq']!r}; "
                "this LLaDA-MoE implementation has experts in every layer."
            )
        known = {**config, "intermediate_size": 1}  # no layer is dense
        return LLaDAMoEConfig.read(known, **cls.keys())

    def mlp(self) -> nn.Module:
        c = self.config
        router = SoftmaxRouter(
            c.hidden_size,
            c.num_experts,
            c.num_experts_per_tok,
            biased=c.moe_router_enable_expert_bias,
        )
        return Experts(router, c.num_experts, c.hidden_size, c.expert_intermediate_size)

    def mlp_map(self, ours: str, hub: str) -> TensorMap:
        c = self.config
        yield f"{ours}router.gate.weight", [(f"{hub}gate.weight", c.num_experts)]
        if c.moe_router_enable_expert_bias:
            yield f"{ours}router.expert_bias", [(f"{hub}expert_bias", c.num_experts)]
        yield from expert_map(ours, hub, c.num_experts, c.expert_intermediate_size, c.hidden_size)


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=LLaDAMoE.build,
    tensor_map=tensor_map,
    template=ROLE_TEMPLATE,
    system=ROLE_SYSTEM,
    ends=("<|role_end|>",),
    turns=False,  # not checked: we have not seen the authors' tokenizer
    model_types=("llada", "lladamoe"),
    spare={".mlp.expert_bias": "the released code adds it where config.json switches it on alone"},
)
