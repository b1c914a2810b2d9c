"""Fast-dLLM v2: Qwen2.5 made to write blocks of 32 (arXiv:2509.26328).

A token sees its own block, both ways, and every earlier one; blocks count from the first token of
the row. The network kept the habit of its ancestor: its row i - 1 predicts token i, so that the
first token of a block is predicted by the end of the block before it, which does not see it.

No file of the checkpoint says which token is the mask; the tokenizer has one by a name of its own.
Not here: the order in which a block is written (see `sampling.nested`).
"""

from remask.denoisers.native import Family
from remask.denoisers.qwen import ASSISTANT_CHAT, END_OF_TURN, SYSTEM_TURN, Qwen, tensor_map

ARCHITECTURE = "Fast_dLLM_QwenForCausalLM"


class FastDLLM(Qwen):
    """Qwen2 blocks, block-causal, whose rows are brought in line with the tokens."""

    family = "Fast-dLLM v2"
    shifted = True
    qkv_bias = True
    block_key, usual_block = "bd_size", 32
    ignored = ("conplemenrary_mask",)  # of the authors' trainer, spelled so


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
