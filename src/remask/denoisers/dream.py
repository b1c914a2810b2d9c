"""Dream's architecture: Qwen2.5 made to look both ways (arXiv:2508.15487).

Dream-v0, Dream-Coder and DiffuCoder share it. The network kept the habit of its ancestor: its row
i - 1 predicts token i. What leaves `forward` is moved one place on.
"""

from remask.denoisers.native import Family
from remask.denoisers.qwen import Qwen, QwenConfig, tensor_map

ARCHITECTURE = "DreamModel"
# Of all the authors' models; config.json still has the length of the ancestor.
TRAINED_LENGTH = 2048
# A system turn that the stock template inserts where the conversation has none.
TEMPLATE = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n{prompt}<|im_end|>\n"
    "<|im_start|>assistant\n"
)


class Dream(Qwen):
    """Qwen2 blocks, both ways, whose rows are brought in line with the tokens."""

    shifted = True

    def __init__(self, config: QwenConfig) -> None:
        super().__init__(config, qkv_bias=True, qk_norm=False)
        self.max_length = min(TRAINED_LENGTH, self.max_length)


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=lambda config: Dream(QwenConfig.read(config)),
    tensor_map=tensor_map,
    template=TEMPLATE,
    ends=("<|im_end|>",),
    filler="<|dlm_pad|>",  # DiffuCoder's
    model_types=("Dream",),
)
