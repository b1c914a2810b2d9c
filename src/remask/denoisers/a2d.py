"""A2D, "autoregressive to diffusion": small models fine-tuned to fill masks.

Weights and tensor names are those of the ancestor, Qwen3, Qwen2 or Llama; the row of a masked token
predicts that token. There are two ways of training: one attends to everything (mdlm), the other
writes block by block (bd3lm). Both have the same config.json, so the name of the checkpoint must
tell them apart, unless somebody wrote `block_size` into it.

Trained on blocks that count from the first token of the row, bd3lm is sampled by its authors with
blocks that count from the first token of the answer, those of the prompt backwards from its end;
so it is here.
"""

from collections.abc import Mapping
from typing import Any

from remask.denoisers.config import read_block
from remask.denoisers.native import Family
from remask.denoisers.qwen import REFUSED, Qwen, QwenConfig, tensor_map

ARCHITECTURE = "A2DQwen3LMHeadModel"
QWEN2_ARCHITECTURE = "A2DQwen2LMHeadModel"
LLAMA_ARCHITECTURE = "A2DLlamaLMHeadModel"
BLOCK_SIZE = 32  # that of the authors' trainer and sampler, and of all they published
# The empty thought is how Qwen3's template asks for an answer without thinking aloud.
THOUGHT = "<think>\n\n</think>\n\n"
TEMPLATE = "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n" + THOUGHT
# The system turns are those that the stock templates insert where the conversation has none.
QWEN2_TEMPLATE = (
    "<|im_start|>system\n"
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n{prompt}<|im_end|>\n"
    "<|im_start|>assistant\n"
)
LLAMA_TEMPLATE = (
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{prompt}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)


class A2D(Qwen):
    """Qwen3 blocks: heads of q and k normed, no biases."""

    answer_apart = True

    def __init__(self, config: QwenConfig, block_size: int | None = None) -> None:
        super().__init__(config, qkv_bias=False, qk_norm=True, block_size=block_size)


class A2DQwen2(Qwen):
    """Qwen2 blocks: q, k and v have biases."""

    answer_apart = True

    def __init__(self, config: QwenConfig, block_size: int | None = None) -> None:
        super().__init__(config, qkv_bias=True, qk_norm=False, block_size=block_size)


class A2DLlama(Qwen):
    """Llama's blocks: no biases, and no norms of q and k."""

    answer_apart = True

    def __init__(self, config: QwenConfig, block_size: int | None = None) -> None:
        super().__init__(config, qkv_bias=False, qk_norm=False, block_size=block_size)


def build(kind: type[A2D | A2DQwen2 | A2DLlama], config: Mapping[str, Any]) -> Qwen:
    """Return the empty network; without blocks it attends to everything."""
    known = QwenConfig.read(config, refused={**REFUSED, "mlp_bias": False}, family="A2D")
    return kind(known, read_block(config, "block_size", 0) or None)


def named(name: str) -> dict[str, Any]:
    """Return what the name of a checkpoint says of its blocks."""
    return {"block_size": BLOCK_SIZE} if "bd3lm" in name.lower() else {}


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=lambda config: build(A2D, config),
    tensor_map=tensor_map,
    template=TEMPLATE,
    primer=THOUGHT,
    ends=("<|im_end|>",),
    model_types=("a2d-qwen3",),
    schedule="rounded",
    named=named,
)
QWEN2_FAMILY = Family(
    architecture=QWEN2_ARCHITECTURE,
    build=lambda config: build(A2DQwen2, config),
    tensor_map=tensor_map,
    template=QWEN2_TEMPLATE,
    ends=("<|im_end|>",),
    model_types=("a2d-qwen2",),
    schedule="rounded",
    named=named,
)
LLAMA_FAMILY = Family(
    architecture=LLAMA_ARCHITECTURE,
    build=lambda config: build(A2DLlama, config),
    tensor_map=tensor_map,
    template=LLAMA_TEMPLATE,
    trims=True,
    ends=("<|eot_id|>",),
    model_types=("a2d-llama",),
    schedule="rounded",
    named=named,
)
