"""Dream: bidirectional Qwen2.5 (arXiv:2508.15487). Dream-v0, Dream-Coder and DiffuCoder share it.

Row i - 1 of the network predicts token i, as in Qwen; `forward` returns aligned rows.
"""

from remask.denoisers.native import Family
from remask.denoisers.qwen import (
    ASSISTANT_CHAT,
    END_OF_TURN,
    SYSTEM_TURN,
    Qwen,
    QwenConfig,
    tensor_map,
)

ARCHITECTURE = "DreamModel"
# For all models of the authors; config.json has the length of Qwen2.5.
TRAINED_LENGTH = 2048


class Dream(Qwen):
    """Bidirectional Qwen2 with shifted rows."""

    shifted = True
    qkv_bias = True

    def __init__(self, config: QwenConfig, block_size: int | None = None) -> None:
        super().__init__(config, block_size)
        self.max_length = min(TRAINED_LENGTH, self.max_length)


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=Dream.build,
    tensor_map=tensor_map,
    template=ASSISTANT_CHAT,
    system=SYSTEM_TURN,
    ends=(END_OF_TURN,),
    filler="<|dlm_pad|>",  # DiffuCoder's
    model_types=("Dream",),
)
