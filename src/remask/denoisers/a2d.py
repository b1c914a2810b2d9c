"""A2D, "autoregressive to diffusion": Qwen3 fine-tuned to fill masks, small enough for a laptop.

Weights and tensor names are Qwen3's own; the row of a masked token predicts that token. This is the
variant that attends to everything (mdlm). Its sibling that writes block by block (bd3lm) has the
same config.json, so the name of the checkpoint must tell them apart, unless somebody wrote
`block_size` into it; it is refused.
"""

from collections.abc import Mapping
from typing import Any

from remask.denoisers.native import Family
from remask.denoisers.qwen import Qwen, QwenConfig, tensor_map
from remask.errors import CheckpointError

ARCHITECTURE = "A2DQwen3LMHeadModel"
BLOCK_SIZE = 32  # of the authors' trainer and sampler
# The empty thought is how Qwen3's template asks for an answer without thinking aloud.
THOUGHT = "<think>\n\n</think>\n\n"
TEMPLATE = "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n" + THOUGHT


class A2D(Qwen):
    """Qwen3 blocks, both ways: heads of q and k normed, no biases."""

    def __init__(self, config: QwenConfig) -> None:
        super().__init__(config, qkv_bias=False, qk_norm=True)


def build(config: Mapping[str, Any]) -> A2D:
    """Return the empty network, which attends to everything."""
    if config.get("block_size"):
        raise CheckpointError(
            f"this A2D checkpoint writes blocks of {config['block_size']!r} (bd3lm), by its "
            "config.json or its name; only those that attend to everything (mdlm) are read."
        )
    return A2D(QwenConfig.read(config))


def named(name: str) -> dict[str, Any]:
    """Return what the name of a checkpoint says of its blocks."""
    return {"block_size": BLOCK_SIZE} if "bd3lm" in name.lower() else {}


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=build,
    tensor_map=tensor_map,
    template=TEMPLATE,
    primer=THOUGHT,
    ends=("<|im_end|>",),
    model_types=("a2d-qwen3",),
    schedule="rounded",
    named=named,
)
