"""iLLaDA's architecture: LLaDA retrained on Llama's blocks with shared keys (arXiv:2606.25331).

Tensor names are those of Llama on the hub, and so is the network, but that it looks both ways; the
head is the embedding. Layer norms and biases, for which its configuration has keys, are refused.

No file of the checkpoint names the mask token: its id is the authors' word. The chat template was
not seen. The one here is inferred from the tokenizer's kin, so `load` refuses a tokenizer without
the tokens that it is made of, rather than ask in a way that the model never learned.
"""

from collections.abc import Mapping
from typing import Any

from remask.denoisers.native import Family
from remask.denoisers.qwen import SUPPORTED, Qwen, QwenConfig, tensor_map

ARCHITECTURE = "ILLaDAForCausalLM"
BEGIN, END = "<[begin▁of▁sentence]>", "<[end▁of▁sentence]>"


class ILLaDA(Qwen):
    """Llama's blocks, both ways: no biases, and no norms of q and k."""

    family = "iLLaDA"
    supported: Mapping[str, Any] = {
        **SUPPORTED, "layer_norm_eps": None, "rope_scaling": None
    }  # fmt: skip

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> QwenConfig:
        """Return the configuration; one that is silent on it means a tied head."""
        return super().read({"tie_word_embeddings": True, **config})


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=ILLaDA.build,
    tensor_map=tensor_map,
    template=f"{BEGIN}user\n{{prompt}}{END}{BEGIN}assistant\n",
    system=f"{BEGIN}system\n{{system}}{END}",
    inferred=(BEGIN, END),
    trims=True,  # as LLaDA's; like the rest of the template, not seen
    ends=(),  # EOS ends the turn
    mask_token="<[MASK]>",
    mask_id=5,
    model_types=("illada",),
)
