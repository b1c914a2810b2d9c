"""SDAR: Qwen3 made to write small blocks, dense or with experts (arXiv:2510.06303).

SDAR-1.7B, -4B and -8B and their descendants TraDo (arXiv:2509.06949) are Qwen3 under its own tensor
names; SDAR-30B-A3B is Qwen3-MoE. A token sees its own block, both ways, and every earlier one;
blocks count from the first token of the row, and the row of a masked token predicts that token.
What the published configurations never use (dense layers among the experts) is refused.

Blocks have 4 tokens. Few config.json files say so; checkpoints with other blocks say it in their
names, as in SDAR-1.7B-Chat-b32.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import nn

from remask.denoisers.config import read_block
from remask.denoisers.experts import Experts, SoftmaxRouter, expert_map
from remask.denoisers.native import Family, TensorMap
from remask.denoisers.qwen import REFUSED, Qwen, QwenConfig, tensor_map
from remask.errors import CheckpointError

ARCHITECTURE = "SDARForCausalLM"
MOE_ARCHITECTURE = "SDARMoeForCausalLM"
BLOCK_SIZE = 4
MASK_TOKEN, MASK_ID = "<|MASK|>", 151_669  # tokenizer_config.json names it, config.json seldom
# Qwen3's, which asks for no thought unless it is told to.
TEMPLATE = "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
_BLOCKS = re.compile(r"-b(\d+)$")  # how a name ends that tells the size of the blocks


class SDAR(Qwen):
    """Qwen3 blocks, block-causal: heads of q and k normed, no biases."""

    def __init__(self, config: QwenConfig, block_size: int) -> None:
        super().__init__(config, qkv_bias=False, qk_norm=True, block_size=block_size)


@dataclass(frozen=True, kw_only=True)
class SDARMoeConfig(QwenConfig):
    """The keys of Qwen3-MoE."""

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    norm_topk_prob: bool = False

    def checked(self) -> Self:
        """Return the configuration, or raise where its sizes do not fit one another."""
        if self.num_experts_per_tok > self.num_experts:
            raise CheckpointError(
                f"config.json gives num_experts_per_tok {self.num_experts_per_tok}, "
                f"more than num_experts {self.num_experts}."
            )
        return super().checked()


class SDARMoe(SDAR):
    """Qwen3-MoE blocks, block-causal: experts in every layer."""

    config: SDARMoeConfig

    def mlp(self) -> nn.Module:
        """Return the experts of a layer."""
        c = self.config
        router = SoftmaxRouter(
            c.hidden_size, c.num_experts, c.num_experts_per_tok, renormalised=c.norm_topk_prob
        )
        return Experts(router, c.num_experts, c.hidden_size, c.moe_intermediate_size)

    def mlp_map(self, ours: str, hub: str) -> TensorMap:
        """Yield each tensor of the experts with the hub tensors stacked into it."""
        c = self.config
        yield f"{ours}router.gate.weight", [(f"{hub}gate.weight", c.num_experts)]
        yield from expert_map(ours, hub, c.num_experts, c.moe_intermediate_size, c.hidden_size)


def build(config: Mapping[str, Any]) -> SDAR:
    """Return the empty dense network."""
    known = QwenConfig.read(config, family="SDAR")
    return SDAR(known, read_block(config, "block_size", BLOCK_SIZE))


def build_moe(config: Mapping[str, Any]) -> SDARMoe:
    """Return the empty network with experts."""
    dense = config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1
    if dense:
        raise CheckpointError(
            "config.json sets mlp_only_layers or decoder_sparse_step; "
            "this SDAR implementation has experts in every layer."
        )
    refused = {**REFUSED, "shared_expert_intermediate_size": None}
    known = SDARMoeConfig.read(config, refused=refused, family="SDAR-MoE")
    return SDARMoe(known, read_block(config, "block_size", BLOCK_SIZE))


def named(name: str) -> dict[str, Any]:
    """Return what the name of a checkpoint says of its blocks."""
    size = _BLOCKS.search(name)
    return {"block_size": int(size[1])} if size else {}


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=build,
    tensor_map=tensor_map,
    template=TEMPLATE,
    ends=("<|im_end|>",),
    mask_token=MASK_TOKEN,
    mask_id=MASK_ID,
    model_types=("sdar",),
    schedule="shares",
    named=named,
)
MOE_FAMILY = Family(
    architecture=MOE_ARCHITECTURE,
    build=build_moe,
    tensor_map=tensor_map,
    template=TEMPLATE,
    ends=("<|im_end|>",),
    mask_token=MASK_TOKEN,
    mask_id=MASK_ID,
    model_types=("sdar_moe",),
    schedule="shares",
    named=named,
)
