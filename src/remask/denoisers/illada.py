"""iLLaDA's architecture: LLaDA retrained on Llama's blocks with shared keys (arXiv:2606.25331).

Tensor names are those of Llama on the hub, and so is the network, but that it looks both ways; the
head is the embedding. Layer norms and biases, for which its configuration has keys, are refused.

No file of the checkpoint names the mask token: its id is the authors' word. The chat template was
not seen. The one here is inferred from the tokenizer's kin, so `load` refuses a tokenizer without
the tokens that it is made of, rather than ask in a way that the model never learned.
"""

from collections.abc import Mapping
from typing import Any

from remask.denoisers import qwen
from remask.denoisers.native import Family
from remask.denoisers.qwen import Qwen, QwenConfig

ARCHITECTURE = "ILLaDAForCausalLM"
MASK_ID = 5  # <[MASK]>
BEGIN, END = "<[begin▁of▁sentence]>", "<[end▁of▁sentence]>"
TEMPLATE = f"{BEGIN}user\n{{prompt}}{END}{BEGIN}assistant\n"
_REFUSED = {**qwen.REFUSED, "mlp_bias": False, "layer_norm_eps": None}


class ILLaDA(Qwen):
    """Llama's blocks, both ways: no biases, and no norms of q and k."""

    def __init__(self, config: QwenConfig) -> None:
        super().__init__(config, qkv_bias=False, qk_norm=False)


def build(config: Mapping[str, Any]) -> ILLaDA:
    """Return the empty network; a configuration that is silent on it means a tied head."""
    with_default = {"tie_word_embeddings": True, **config}
    return ILLaDA(QwenConfig.read(with_default, refused=_REFUSED, family="iLLaDA"))


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=build,
    tensor_map=qwen.tensor_map,
    template=TEMPLATE,
    trims=True,  # as LLaDA's; like the rest of the template, not seen
    ends=(),  # EOS ends the turn
    mask_token="<[MASK]>",
    mask_id=MASK_ID,
    model_types=("illada",),
)
