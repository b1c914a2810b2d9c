"""A2D, "autoregressive to diffusion": Qwen3 fine-tuned to fill masks, small enough for a laptop.

Weights and tensor names are Qwen3's own; the row of a masked token predicts that token. This is the
variant that attends to everything (mdlm). Its sibling that writes block by block (bd3lm) has the
same config.json, so it cannot be told apart: the name of the checkpoint must.
"""

from remask.denoisers.native import Family
from remask.denoisers.qwen import Qwen, QwenConfig, tensor_map

ARCHITECTURE = "A2DQwen3LMHeadModel"
# The empty thought is how Qwen3's template asks for an answer without thinking aloud.
TEMPLATE = "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


class A2D(Qwen):
    """Qwen3 blocks, both ways: heads of q and k normed, no biases."""

    def __init__(self, config: QwenConfig) -> None:
        super().__init__(config, qkv_bias=False, qk_norm=True)


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=lambda config: A2D(QwenConfig.read(config)),
    tensor_map=tensor_map,
    template=TEMPLATE,
    ends=("<|im_end|>",),
)
