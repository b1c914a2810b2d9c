"""A2D, "autoregressive to diffusion": small models fine-tuned to fill masks.

Weights and tensor names are those of the ancestor, Qwen3, Qwen2 or Llama; the row of a masked token
predicts that token. There are two ways of training: one attends to everything (mdlm), the other
writes block by block (bd3lm). Both have the same config.json, so the name of the checkpoint must
tell them apart, unless somebody wrote `block_size` into it. `remask adapt` makes models of the
first kind, and says in config.json whether they kept the habit of their ancestor, whose row i - 1
predicts token i (`shifted`).

Trained on blocks that count from the first token of the row, bd3lm is sampled by its authors with
blocks that count from the first token of the answer, those of the prompt backwards from its end;
so it is here.
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
BLOCK_SIZE = 32  # that of the authors' trainer and sampler, and of all they published
# The empty thought is how Qwen3's template asks for an answer without thinking aloud.
THOUGHT = "<think>\n\n</think>\n\n"
# The system turn is the one that the stock template inserts where the conversation has none.
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
    """Qwen3 blocks: heads of q and k normed, no biases; without a size, no blocks."""

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
    """Qwen2 blocks: q, k and v have biases."""

    qk_norm, qkv_bias = False, True


class A2DLlama(A2D):
    """Llama's blocks: no biases, and no norms of q and k."""

    qk_norm = False


def named(name: str) -> dict[str, Any]:
    """Return what the name of a checkpoint says of its blocks."""
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
    FAMILY, architecture=QWEN2_ARCHITECTURE, build=A2DQwen2.build, model_types=("a2d-qwen2",),
    template=QWEN2_SYSTEM + CHAT, primer="",
)  # fmt: skip
LLAMA_FAMILY = replace(
    QWEN2_FAMILY, architecture=LLAMA_ARCHITECTURE, build=A2DLlama.build,
    model_types=("a2d-llama",), template=LLAMA_TEMPLATE, system=LLAMA_SYSTEM, trims=True,
    ends=("<|eot_id|>",),
)  # fmt: skip
