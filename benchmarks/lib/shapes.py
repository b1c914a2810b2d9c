"""Shapes: networks of published sizes with random weights, and what they verify and write.

Speed does not depend on the weights, so no checkpoint is needed. What a text would need, a
tokenizer, is a stub. Not here: how the work on a shape is timed, and what it is compared with.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import torch

from remask.denoisers import dream, llada, llada2, llada_moe
from remask.denoisers.base import Preset
from remask.denoisers.devices import choose_dtype
from remask.denoisers.native import Family, NativeDenoiser
from remask.denoisers.packing import pack
from remask.denoisers.quantise import FULL, PackedMatrix, find_format
from remask.sampling.settings import SamplerSettings
from remask.values import Sample


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How the authors of a model write an answer, and the part of it that is timed.

    A step costs the same wherever it stands in the canvas, so a few suffice. What is written before
    them counts as given: the canvas keeps its length, a block its steps.
    """

    settings: SamplerSettings  # of the timed part
    num_given: int  # tokens before it: the prompt and the answer so far
    steps: int  # of the whole answer, one token each, up to the end of its last block
    source: str  # of the settings


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A network, the answer it verifies and the answer it writes."""

    family: Family
    config: Mapping[str, Any]  # as in config.json
    mask_id: int
    eos_id: int  # the first special id: smaller ones stand for text
    writing: Writing
    num_prompt: int = 200
    num_response: int = 256
    matmul: int = 8192  # side of the square matrices that measure the hardware's peak

    def described(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return {**vars(self), "family": self.family.architecture, "writing": asdict(self.writing)}


LLADA_8B = {
    "d_model": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 32, "mlp_hidden_size": 12288,
    "vocab_size": 126464, "max_sequence_length": 4096,
}  # fmt: skip
DREAM_7B = {
    "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
    "rope_theta": 1e6, "max_position_embeddings": 131072,
}  # fmt: skip
LLADA_MOE = {
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16,
    "num_key_value_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
    "expert_intermediate_size": 1024, "qk_layernorm": True, "rope_theta": 50000,
    "vocab_size": 157184, "max_position_embeddings": 8192,
}  # fmt: skip
LLADA21_MINI = {
    "hidden_size": 2048, "num_hidden_layers": 20, "num_attention_heads": 16,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 5120,
    "first_k_dense_replace": 1, "num_experts": 256, "num_experts_per_tok": 8,
    "num_shared_experts": 1, "moe_intermediate_size": 512, "n_group": 8, "topk_group": 4,
    "partial_rotary_factor": 0.5, "routed_scaling_factor": 2.5, "rms_norm_eps": 1e-6,
    "use_bias": False, "rope_theta": 600000, "vocab_size": 157184,
    "max_position_embeddings": 32768, "block_size": 32,
}  # fmt: skip
TOY = {
    "d_model": 32, "n_layers": 2, "n_heads": 2, "n_kv_heads": 2, "mlp_hidden_size": 64,
    "vocab_size": 256, "max_sequence_length": 64,
}  # fmt: skip
TOY_DREAM = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 64, "vocab_size": 256, "rope_theta": 1e6, "max_position_embeddings": 64,
}  # fmt: skip
TOY_MOE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "num_experts": 8, "num_experts_per_tok": 2, "expert_intermediate_size": 16,
    "qk_layernorm": True, "rope_theta": 50000, "vocab_size": 256, "max_position_embeddings": 64,
}  # fmt: skip
TOY_BLOCKS = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 16, "intermediate_size": 64, "first_k_dense_replace": 1, "num_experts": 8,
    "num_experts_per_tok": 2, "num_shared_experts": 1, "moe_intermediate_size": 16, "n_group": 4,
    "topk_group": 2, "use_bias": False, "rope_theta": 600000, "vocab_size": 256,
    "max_position_embeddings": 64, "block_size": 8,
}  # fmt: skip

SHAPES = {
    "llada8b": Shape(
        family=llada.FAMILY, config=LLADA_8B, mask_id=126336, eos_id=126081,
        writing=Writing(
            settings=SamplerSettings(length=64, steps=64, block=8), num_given=200 + 192, steps=256,
            source="LLaDA-8B-Instruct on GSM8K: gen_length 256, steps 256, block_length 8",
        ),
    ),
    "dream7b": Shape(
        family=dream.FAMILY, config=DREAM_7B, mask_id=151666, eos_id=151643,
        writing=Writing(
            # One block: what is masked shrinks from the whole canvas to nothing, so the whole
            # canvas is written, in a quarter of the steps.
            settings=SamplerSettings(length=256, steps=64, block=256, order="entropy", top_p=0.95),
            num_given=200, steps=256,
            source="Dream-v0-Base-7B on GSM8K: max_new_tokens 256, steps 256, temperature 0, "
            "top_p 0.95, alg entropy",
        ),
    ),
    "lladamoe": Shape(
        family=llada_moe.FAMILY, config=LLADA_MOE, mask_id=156895, eos_id=156892,
        writing=Writing(
            settings=SamplerSettings(length=64, steps=64, block=64, reveal_threshold=0.76),
            num_given=200 + 960, steps=1024,
            source="LLaDA-MoE-7B-A1B-Instruct on GSM8K: gen_length 1024, block_length 64, "
            "threshold 0.76",
        ),
    ),
    "llada21mini": Shape(
        family=llada2.FAMILY, config=LLADA21_MINI, mask_id=156895, eos_id=156892,
        writing=Writing(
            settings=SamplerSettings(length=64, steps=64, block=32, reveal_threshold=0.7),
            num_given=200, steps=88,  # up to 9 x 32 tokens
            source="LLaDA2.1-mini in quality mode: block_length 32, threshold 0.7, up to 16384 "
            "tokens; here its first blocks, without editing, which random weights do not provoke",
        ),
    ),
    "toy": Shape(
        family=llada.FAMILY, config=TOY, mask_id=255, eos_id=254, num_prompt=12, num_response=16,
        matmul=128,
        writing=Writing(
            settings=SamplerSettings(length=8, steps=8, block=4), num_given=12 + 8, steps=16,
            source="a toy: length 16, steps 16, block 4",
        ),
    ),
    "toydream": Shape(
        family=dream.FAMILY, config=TOY_DREAM, mask_id=255, eos_id=254, num_prompt=12,
        num_response=16, matmul=128,
        writing=Writing(
            settings=SamplerSettings(length=16, steps=8, block=16, order="entropy", top_p=0.95),
            num_given=12, steps=16, source="a toy: length 16, steps 16, alg entropy",
        ),
    ),
    "toymoe": Shape(
        family=llada_moe.FAMILY, config=TOY_MOE, mask_id=255, eos_id=254, num_prompt=12,
        num_response=16, matmul=128,
        writing=Writing(
            settings=SamplerSettings(length=8, steps=8, block=8, reveal_threshold=0.9),
            num_given=12 + 8, steps=16, source="a toy: length 16, block 8, threshold 0.9",
        ),
    ),
    "toyblocks": Shape(
        family=llada2.FAMILY, config=TOY_BLOCKS, mask_id=255, eos_id=254, num_prompt=12,
        num_response=16, matmul=128,
        writing=Writing(
            settings=SamplerSettings(length=16, steps=16, block=8, reveal_threshold=0.9),
            num_given=12, steps=20, source="a toy: block 8, threshold 0.9",
        ),
    ),
}  # fmt: skip


def build(shape: Shape, device: torch.device, *, weights: str = FULL) -> NativeDenoiser:
    """Return a denoiser of this shape with normal(0, 0.02) weights, made on the device itself.

    In another format than full they are made, and packed, matrix by matrix.
    """
    dtype, form = choose_dtype("auto", device), find_format(weights)
    if form is not None:
        form.check(device, dtype)
    with torch.device("meta"):
        model = shape.family.build(shape.config)
    model = pack(model.to(dtype), form).to_empty(device=device)
    generator = torch.Generator(device).manual_seed(0)
    for parameter in model.requires_grad_(False).eval().parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, 0.02, generator=generator)
        else:
            parameter.fill_(1)  # the scales of the norms
    for bias in model.buffers():  # of a router
        bias.zero_()
    for matrix in (module for module in model.modules() if isinstance(module, PackedMatrix)):
        rows = torch.empty(matrix.rows.shape, device=device, dtype=dtype)
        matrix.rows.copy_(rows.normal_(0, 0.02, generator=generator))
    # The ids that the loops need, and no text. No token ends an answer: no row leaves early.
    tokenizer: Any = SimpleNamespace(
        mask_id=shape.mask_id, eos_id=shape.eos_id, pad_id=shape.eos_id, eos_ids=(-1,),
        decode=lambda ids: "", num_response=len,
    )  # fmt: skip
    return NativeDenoiser(name="random", model=model, tokenizer=tokenizer, preset=Preset())


def compile_blocks(denoiser: NativeDenoiser) -> None:
    """Compile the network for every size of batch that comes."""
    # Torch gives up after 8 sizes, and says so in a log alone; a block-causal model needs more.
    torch._dynamo.config.recompile_limit = 128
    denoiser.model.compile_blocks()


def random_tokens(shape: Shape, number: int, length: int) -> list[list[int]]:
    """Return rows of random text: no end token, no mask token."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, shape.eos_id, (number, length), generator=generator)
    return [[int(token) for token in row] for row in rows.tolist()]


def random_answers(shape: Shape, number: int) -> list[Sample]:
    """Return answers of random tokens that fill the canvas, or all but the tail of its last block.

    Such a tail is masked with the rest: on the canvas, its masks are known like the others.
    """
    length = shape.num_prompt + shape.num_response
    rows = random_tokens(shape, number, length)
    tail = windows(shape.num_prompt, length, shape.config.get("block_size"))[-1].stop - length
    return [
        Sample(
            item=str(i),
            prompt=tuple(row[: shape.num_prompt]),
            canvas=(*row[shape.num_prompt :], *[shape.eos_id] * tail),
            num_response=shape.num_response,
            text="",
        )
        for i, row in enumerate(rows)
    ]


def windows(start: int, end: int, block_size: int | None) -> list[slice]:
    """Return the parts of a row that are filled one after another, from `start` to `end`.

    Blocks of a model that has its own begin with the row: the first may be cut, the last goes on to
    its own end.
    """
    if block_size is None:
        return [slice(start, end)]
    firsts = range(start // block_size * block_size, end, block_size)
    return [slice(max(start, first), first + block_size) for first in firsts]
