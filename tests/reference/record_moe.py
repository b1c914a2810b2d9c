"""Record what the reference code of LLaDA-MoE and LLaDA2 computes, on tiny random weights.

    python tests/reference/record_moe.py CHECKOUT

CHECKOUT is a folder with a copy of github.com/ZHZisZZ/dllm; transformers must be installed. For
each family one file is written beside this script: configuration, weights under the hub's names,
tokens, and the logits in float32 and bfloat16. The tests need those files alone.
"""

import copy
import importlib
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

# Some processors die of oneDNN's bfloat16 kernels; this must be set before torch is imported.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import torch
import transformers.modeling_rope_utils
import transformers.utils.import_utils
from safetensors.torch import save_file
from torch import Tensor, nn

HERE = Path(__file__).parent
IDS = {"mask_token_id": 126, "eos_token_id": 127, "pad_token_id": 127}
LLADA_MOE: dict[str, Any] = {
    **IDS,
    "vocab_size": 128,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "expert_intermediate_size": 16,
    "dense_intermediate_size": 64,
    "shared_expert_intermediate_size": None,
    "moe_layer_freq": [1, 1],
    "moe_router_enable_expert_bias": True,
    "norm_topk_prob": True,
    "qk_layernorm": True,
    "partial_rotary_factor": 1,
    "rope_theta": 50000.0,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 64,
}
LLADA2: dict[str, Any] = {
    **IDS,
    "vocab_size": 128,
    "hidden_size": 32,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "first_k_dense_replace": 1,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "num_shared_experts": 1,
    "moe_intermediate_size": 16,
    "n_group": 4,
    "topk_group": 2,
    "routed_scaling_factor": 2.5,
    "partial_rotary_factor": 0.5,
    "use_bias": False,
    "rope_theta": 600000.0,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 64,
}
BLOCK_SIZE = 4


def main(checkout: Path) -> None:
    """Write llada_moe.safetensors and llada2.safetensors."""
    prepare_transformers()
    pipelines = checkout / "dllm" / "pipelines"
    moe = build(pipelines / "llada", "lladamoe", "LLaDAMoE", LLADA_MOE)
    record("llada_moe", moe, {"architectures": ["LLaDAMoEModelLM"], **LLADA_MOE}, padded())
    config = {"architectures": ["LLaDA2MoeModelLM"], **LLADA2, "block_size": BLOCK_SIZE}
    newer = build(pipelines / "llada21", "llada21_moe", "LLaDA2Moe", LLADA2)
    record("llada2", newer, config, block_causal())
    older = build(pipelines / "llada2", "llada2_moe", "LLaDA2Moe", LLADA2)
    apart = logits(newer, block_causal()) - logits(older, block_causal())
    sys.stdout.write(f"LLaDA2.0 and 2.1 differ by {apart[padded()].abs().max().item():.1e}\n")


def prepare_transformers() -> None:
    """Give transformers 5 back what the reference files expect of version 4."""

    def default(config: Any, device: Any = None, **_: Any) -> tuple[Tensor, float]:
        told = LLADA2 if hasattr(config, "n_group") else LLADA_MOE
        head_dim = told.get("head_dim") or told["hidden_size"] // told["num_attention_heads"]
        rotated = int(head_dim * told["partial_rotary_factor"])
        power = torch.arange(0, rotated, 2, device=device).float() / rotated
        return 1.0 / told["rope_theta"] ** power, 1.0

    transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["default"] = default
    rope = transformers.modeling_rope_utils
    rope.rope_config_validation = lambda config: None  # type: ignore[attr-defined]
    for module in (transformers.utils, transformers.utils.import_utils):
        module.is_torch_fx_available = lambda: False  # type: ignore[attr-defined]


def build(pipeline: Path, name: str, prefix: str, config: dict[str, Any]) -> nn.Module:
    """Return the reference network with random weights, norms and biases; the same every time."""
    package = types.ModuleType(f"reference_{pipeline.name}")  # skips the package's own __init__
    package.__path__ = [str(pipeline / "models")]
    sys.modules[package.__name__] = package
    configuration = importlib.import_module(f"{package.__name__}.configuration_{name}")
    modeling = importlib.import_module(f"{package.__name__}.modeling_{name}")
    settings = getattr(configuration, f"{prefix}Config")(**config)
    settings._attn_implementation = "sdpa"
    network: nn.Module = getattr(modeling, f"{prefix}ModelLM")(settings).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for key, tensor in weights(network).items():
            noise = torch.randn(tensor.shape, generator=generator)
            vector = 0.1 * noise + float("norm" in key)  # or the bias of the experts
            drawn = noise / tensor.shape[-1] ** 0.5 if tensor.dim() == 2 else vector
            tensor.copy_(drawn.bfloat16())  # the same weights in both dtypes
    return network.requires_grad_(False)


def weights(network: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that a checkpoint of the network holds."""
    return {name: tensor.detach() for name, tensor in network.state_dict().items()}


def tokens() -> Tensor:
    """Return two rows of 12 ids below 100, some of them masked, (2, 12)."""
    rows = torch.randint(100, (2, 12), generator=torch.Generator().manual_seed(1))
    rows[:, [1, 5, 6]] = IDS["mask_token_id"]
    return rows.where(padded(), IDS["pad_token_id"])


def padded() -> Tensor:
    """Return what is text and not padding, (2, 12): the second row has nine tokens."""
    return torch.arange(12) < torch.tensor([[12], [9]])


def block_causal() -> Tensor:
    """Return who sees whom, (2, 1, 12, 12)."""
    blocks = torch.arange(12) // BLOCK_SIZE
    return (blocks[:, None] >= blocks) & padded()[:, None, None, :]


def logits(network: nn.Module, attend: Tensor) -> Tensor:
    """Return float32 logits (2, 12, V); attend is (2, 12), or (2, 1, 12, 12) and made additive."""
    if attend.dim() == 4:
        dtype = next(network.parameters()).dtype
        attend = torch.zeros(attend.shape, dtype=dtype).masked_fill(~attend, -torch.inf)
    else:
        attend = attend.long()
    out: Tensor = network(tokens(), attention_mask=attend, use_cache=False).logits
    return out.float()


def record(name: str, network: nn.Module, config: dict[str, Any], attend: Tensor) -> None:
    """Write one family's file."""
    held = {f"weights.{key}": tensor.bfloat16() for key, tensor in weights(network).items()}
    exact = logits(network, attend)
    cast = copy.deepcopy(network)
    for parameter in cast.parameters():  # and no buffer: rotary frequencies stay float32 in use
        parameter.data = parameter.data.bfloat16()
    rounded = logits(cast, attend)
    tensors = {"tokens": tokens(), "attend": padded(), "float32": exact, "bfloat16": rounded}
    path = HERE / f"{name}.safetensors"
    save_file({**held, **tensors}, path, metadata={"config": json.dumps(config)})
    sys.stdout.write(
        f"{path}: {path.stat().st_size} bytes, largest logit {exact.abs().max():.2f}\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
