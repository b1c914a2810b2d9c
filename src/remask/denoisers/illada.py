"""iLLaDA: LLaDA retrained with Llama's blocks and grouped keys (arXiv:2606.25331).

Network and tensor names are Llama's, with bidirectional attention and a tied head. Layer norms and
biases, which its configuration has keys for, raise.

No file of the checkpoint names the mask token; its id is from the authors. The chat template is
inferred from similar tokenizers, so `load` refuses a tokenizer without the tokens of the template.
"""

from collections.abc import Mapping
from typing import Any

from remask.denoisers.native import Family
from remask.denoisers.qwen import SUPPORTED, Qwen, QwenConfig, tensor_map

ARCHITECTURE = "ILLaDAForCausalLM"
BEGIN, END = "<[begin▁of▁sentence]>", "<[end▁of▁sentence]>"


class ILLaDA(Qwen):
    """Bidirectional Llama."""

    family = "iLLaDA"
    supported: Mapping[str, Any] = {**SUPPORTED, "layer_norm_eps": None, "rope_scaling": None}

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> QwenConfig:
        """Return the configuration; the head is tied by default."""
        return super().read({"tie_word_embeddings": True, **config})


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=ILLaDA.build,
    tensor_map=tensor_map,
    template=f"{BEGIN}user\n{{prompt}}{END}{BEGIN}assistant\n",
    system=f"{BEGIN}system\n{{system}}{END}",
    inferred=(BEGIN, END),
    trims=True,  # like LLaDA's; inferred
    ends=(),  # EOS ends the turn
    mask_token="<[MASK]>",
    mask_id=5,
    model_types=("illada",),
)
