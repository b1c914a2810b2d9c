"""Dream's architecture: Qwen2.5 made to look both ways (arXiv:2508.15487).

Dream-v0, Dream-Coder and DiffuCoder share it. The network kept the habit of its ancestor: its row
i - 1 predicts token i. What leaves `forward` is moved one place on.
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
# Of all the authors' models; config.json still has the length of the ancestor.
TRAINED_LENGTH = 2048


class Dream(Qwen):
    """Qwen2 blocks, both ways, whose rows are brought in line with the tokens."""

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
