"""DreamReasoner: Qwen3-8B made to write blocks of 32, and to think aloud (arXiv:2606.19257).

Its config.json calls itself model_type "Dream", but its architecture is not Dream's: the heads of q
and k are normed, nothing has a bias, the row of a masked token predicts that token, and a token
sees its own block and every earlier one. Blocks count from the first token of the row.
"""

from remask.denoisers.native import Family
from remask.denoisers.qwen import CHAT, END_OF_TURN, SYSTEM_TURN, Qwen, tensor_map

ARCHITECTURE = "DreamForCausalLM"


class DreamReasoner(Qwen):
    """Qwen3 blocks, block-causal: heads of q and k normed, no biases."""

    family = "DreamReasoner"
    qk_norm = True
    block_key, usual_block = "block_size", 32


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=DreamReasoner.build,
    tensor_map=tensor_map,
    system=SYSTEM_TURN,
    template=CHAT,  # thinking is allowed, as the authors ask: the answer begins with its thought
    ends=(END_OF_TURN,),
    model_types=("Dream",),
    schedule="shares",
)
