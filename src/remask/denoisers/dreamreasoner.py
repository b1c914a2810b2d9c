"""DreamReasoner: Qwen3-8B made to write blocks of 32, and to think aloud (arXiv:2606.19257).

Its config.json calls itself model_type "Dream", but its architecture is not Dream's: the heads of q
and k are normed, nothing has a bias, the row of a masked token predicts that token, and a token
sees its own block and every earlier one. Blocks count from the first token of the row.
"""

from collections.abc import Mapping
from typing import Any

from remask.denoisers.config import read_block
from remask.denoisers.native import Family
from remask.denoisers.qwen import Qwen, QwenConfig, tensor_map

ARCHITECTURE = "DreamForCausalLM"
BLOCK_SIZE = 32
# Qwen3's with thinking allowed, as the authors ask: the answer begins with its thought.
TEMPLATE = "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"


class DreamReasoner(Qwen):
    """Qwen3 blocks, block-causal: heads of q and k normed, no biases."""

    def __init__(self, config: QwenConfig, block_size: int) -> None:
        super().__init__(config, qkv_bias=False, qk_norm=True, block_size=block_size)


def build(config: Mapping[str, Any]) -> DreamReasoner:
    """Return the empty network."""
    known = QwenConfig.read(config, family="DreamReasoner")
    return DreamReasoner(known, read_block(config, "block_size", BLOCK_SIZE))


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=build,
    tensor_map=tensor_map,
    template=TEMPLATE,
    ends=("<|im_end|>",),
    model_types=("Dream",),
    schedule="shares",
)
