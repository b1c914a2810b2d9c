"""Fast-dLLM v2: Qwen2.5 with blocks of 32 tokens (arXiv:2509.26328).

A token attends to its own block and to all earlier ones; blocks are counted from the first token of
the row. Row i - 1 predicts token i, as in Qwen, so the end of the previous block predicts the first
token of a block.

No file of the checkpoint names the mask token; the tokenizer has it under its own spelling.
`sampling.nested` implements the order in which a block is written.
"""

from remask.denoisers.native import Family
from remask.denoisers.qwen import ASSISTANT_CHAT, END_OF_TURN, SYSTEM_TURN, Qwen, tensor_map

ARCHITECTURE = "Fast_dLLM_QwenForCausalLM"


class FastDLLM(Qwen):
    """Block-causal Qwen2 with shifted rows."""

    family = "Fast-dLLM v2"
    shifted = True
    qkv_bias = True
    block_key, usual_block = "bd_size", 32
    ignored = ("conplemenrary_mask",)  # spelled like this in the authors' trainer


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=FastDLLM.build,
    tensor_map=tensor_map,
    template=ASSISTANT_CHAT,
    system=SYSTEM_TURN,
    ends=(END_OF_TURN,),
    mask_token="|<MASK>|",
    model_types=("Fast_dLLM_Qwen",),
)
