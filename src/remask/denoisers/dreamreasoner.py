"""DreamReasoner: Qwen3-8B with blocks of 32 tokens and a chain of thought (arXiv:2606.19257).

Its model_type is "Dream", but its architecture differs from Dream's: q and k are normed, there are
no biases, row i predicts token i, and a token attends to its own block and to all earlier ones.
Blocks are counted from the first token of the row.
"""

from remask.denoisers.native import Family
from remask.denoisers.qwen import CHAT, END_OF_TURN, SYSTEM_TURN, Qwen, tensor_map

ARCHITECTURE = "DreamForCausalLM"


class DreamReasoner(Qwen):
    """Block-causal Qwen3."""

    family = "DreamReasoner"
    qk_norm = True
    block_key, usual_block = "block_size", 32


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=DreamReasoner.build,
    tensor_map=tensor_map,
    system=SYSTEM_TURN,
    template=CHAT,  # thinking is enabled, as by the authors: answers begin with it
    ends=(END_OF_TURN,),
    model_types=("Dream",),
    schedule="shares",
)
