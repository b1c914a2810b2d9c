"""SDAR: Qwen3 with small blocks, dense or with experts (arXiv:2510.06303).

SDAR-1.7B, -4B and -8B and TraDo (arXiv:2509.06949) have Qwen3's network and tensor names;
SDAR-30B-A3B has those of Qwen3-MoE. A token attends to its own block and to all earlier ones;
blocks are counted from the first token of the row, and row i predicts token i. Dense layers among
the experts raise.

Blocks have 4 tokens. Few config.json files have the size; names of checkpoints with other blocks
contain it, as in SDAR-1.7B-Chat-b32.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from remask.denoisers.experts import Experts, SoftmaxRouter, expert_map
from remask.denoisers.native import Family, TensorMap
from remask.denoisers.qwen import (
    CHAT,
    END_OF_TURN,
    SUPPORTED,
    SYSTEM_TURN,
    Qwen,
    QwenMoeConfig,
    tensor_map,
)
from remask.errors import CheckpointError

ARCHITECTURE = "SDARForCausalLM"
MOE_ARCHITECTURE = "SDARMoeForCausalLM"
_BLOCKS = re.compile(r"-b(\d+)$")  # block size at the end of a name


class SDAR(Qwen):
    """Block-causal Qwen3."""

    family = "SDAR"
    qk_norm = True
    block_key, usual_block = "block_size", 4
    ignored: Collection[str] = (  # keys of the authors' trainer
        "debug", "ep_size", "fuse_cross_entropy", "micro_forward", "skip_checkpoint", "use_deepep",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SDARMoeConfig(QwenMoeConfig):
    """The keys of Qwen3-MoE."""

    moe_intermediate_size: int
    norm_topk_prob: bool = False


class SDARMoe(SDAR):
    """Block-causal Qwen3-MoE with experts in every layer."""

    config: SDARMoeConfig
    family = "SDAR-MoE"
    supported: Mapping[str, Any] = {**SUPPORTED, "shared_expert_intermediate_size": None}
    ignored = (*SDAR.ignored, "decoder_sparse_step", "mlp_only_layers")  # read by `read`

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> SDARMoeConfig:
        if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
            raise CheckpointError(
                "config.json sets mlp_only_layers or decoder_sparse_step; "
                "this SDAR implementation has experts in every layer."
            )
        return SDARMoeConfig.read(config, **cls.keys())

    def mlp(self) -> nn.Module:
        c = self.config
        router = SoftmaxRouter(
            c.hidden_size, c.num_experts, c.num_experts_per_tok, renormalised=c.norm_topk_prob
        )
        return Experts(router, c.num_experts, c.hidden_size, c.moe_intermediate_size)

    def mlp_map(self, ours: str, hub: str) -> TensorMap:
        c = self.config
        yield f"{ours}router.gate.weight", [(f"{hub}gate.weight", c.num_experts)]
        yield from expert_map(ours, hub, c.num_experts, c.moe_intermediate_size, c.hidden_size)


def named(name: str) -> dict[str, Any]:
    """Return the block size in the name of a checkpoint."""
    size = _BLOCKS.search(name)
    return {"block_size": int(size[1])} if size else {}


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=SDAR.build,
    tensor_map=tensor_map,
    system=SYSTEM_TURN,
    template=CHAT,  # Qwen3's without thinking
    ends=(END_OF_TURN,),
    mask_token="<|MASK|>",  # named in tokenizer_config.json, seldom in config.json
    mask_id=151_669,
    model_types=("sdar",),
    schedule="shares",
    named=named,
)
MOE_FAMILY = replace(
    FAMILY, architecture=MOE_ARCHITECTURE, build=SDARMoe.build, model_types=("sdar_moe",)
)
