"""A2D, "autoregressive to diffusion": small models fine-tuned as masked diffusion models.

Network and tensor names are those of the base model, Qwen3, Qwen2 or Llama; row i predicts token i.
mdlm models have full attention, bd3lm models write blocks. Both have the same config.json, so the
kind is in the name of the checkpoint, unless config.json has `block_size`. `remask adapt` makes
mdlm models; `shifted` in config.json records whether row i - 1 predicts token i.

bd3lm is trained with blocks that are counted from the first token of the row. Like its authors, we
sample it with blocks that are counted from the first token of the answer, in both directions.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from remask.denoisers.config import read_flag
from remask.denoisers.native import Family
from remask.denoisers.qwen import CHAT, END_OF_TURN, SYSTEM_TURN, Qwen, tensor_map

ARCHITECTURE = "A2DQwen3LMHeadModel"
QWEN2_ARCHITECTURE = "A2DQwen2LMHeadModel"
LLAMA_ARCHITECTURE = "A2DLlamaLMHeadModel"
BLOCK_SIZE = 32  # of the authors' trainer, sampler and checkpoints
# With an empty thought, Qwen3's template requests an answer without thinking.
THOUGHT = "<think>\n\n</think>\n\n"
# The default system turn of the stock template.
QWEN2_SYSTEM = (
    "<|im_start|>system\n"
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
)
LLAMA_TEMPLATE = (
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{prompt}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)
LLAMA_SYSTEM = "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>"


class A2D(Qwen):
    """Qwen3; block-causal if it has a block size."""

    family = "A2D"
    answer_apart = True
    qk_norm = True
    ignored = ("shifted",)  # read by `build`
    block_key = "block_size"

    @classmethod
    def build(cls, config: Mapping[str, Any]) -> Self:
        network = super().build(config)
        network.shifted = read_flag(config, "shifted")
        return network


class A2DQwen2(A2D):
    """Qwen2."""

    qk_norm, qkv_bias = False, True


class A2DLlama(A2D):
    """Llama."""

    qk_norm = False


def named(name: str) -> dict[str, Any]:
    """Return the block size that the name of a checkpoint implies."""
    return {"block_size": BLOCK_SIZE} if "bd3lm" in name.lower() else {}


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=A2D.build,
    tensor_map=tensor_map,
    template=CHAT + THOUGHT,
    system=SYSTEM_TURN,
    primer=THOUGHT,
    ends=(END_OF_TURN,),
    model_types=("a2d-qwen3",),
    schedule="rounded",
    named=named,
)
QWEN2_FAMILY = replace(
    FAMILY,
    architecture=QWEN2_ARCHITECTURE,
    build=A2DQwen2.build,
    model_types=("a2d-qwen2",),
    template=QWEN2_SYSTEM + CHAT,
    primer="",
)
LLAMA_FAMILY = replace(
    QWEN2_FAMILY,
    architecture=LLAMA_ARCHITECTURE,
    build=A2DLlama.build,
    model_types=("a2d-llama",),
    template=LLAMA_TEMPLATE,
    system=LLAMA_SYSTEM,
    trims=True,
    ends=("<|eot_id|>",),
)
