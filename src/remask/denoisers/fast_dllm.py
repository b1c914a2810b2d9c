"""Fast-dLLM v2: Qwen2.5 made to write blocks of 32 (arXiv:2509.26328).

A token sees its own block, both ways, and every earlier one; blocks count from the first token of
the row. The network kept the habit of its ancestor: its row i - 1 predicts token i, so that the
first token of a block is predicted by the end of the block before it, which does not see it.

No file of the checkpoint says which token is the mask; the tokenizer has one by a name of its own.
Not here: the order in which a block is written (see `sampling.nested`).
"""

from collections.abc import Mapping
from typing import Any

from remask.denoisers.config import read_block
from remask.denoisers.native import Family
from remask.denoisers.qwen import Qwen, QwenConfig, tensor_map

ARCHITECTURE = "Fast_dLLM_QwenForCausalLM"
MASK_TOKEN = "|<MASK>|"
BLOCK_SIZE = 32
# A system turn that the stock template inserts where the conversation has none.
TEMPLATE = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n{prompt}<|im_end|>\n"
    "<|im_start|>assistant\n"
)


class FastDLLM(Qwen):
    """Qwen2 blocks, block-causal, whose rows are brought in line with the tokens."""

    shifted = True

    def __init__(self, config: QwenConfig, block_size: int) -> None:
        super().__init__(config, qkv_bias=True, qk_norm=False, block_size=block_size)


def build(config: Mapping[str, Any]) -> FastDLLM:
    """Return the empty network."""
    known = QwenConfig.read(config, family="Fast-dLLM v2")
    return FastDLLM(known, read_block(config, "bd_size", BLOCK_SIZE))


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=build,
    tensor_map=tensor_map,
    template=TEMPLATE,
    ends=("<|im_end|>",),
    mask_token=MASK_TOKEN,
    model_types=("Fast_dLLM_Qwen",),
)
