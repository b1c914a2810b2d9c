"""Record what the reference implementations of Dream and A2D compute, on tiny random weights.

    python tests/reference/record_dream.py CHECKOUT

CHECKOUT is a folder with a copy of github.com/ZHZisZZ/dllm; transformers must be installed. For
each family one file is written beside this script: configuration, weights under the hub's names,
tokens, and the logits in float32 and bfloat16, in the rows where the reference has them. The tests
need those files alone.
"""

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
from safetensors.torch import save_file
from torch import Tensor, nn

HERE = Path(__file__).parent
MASK_ID, PAD_ID, LENGTH = 126, 127, 40
DREAM: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 64,
    "mask_token_id": MASK_ID,
    "pad_token_id": PAD_ID,
}
A2D: dict[str, Any] = {**DREAM, "head_dim": 16, "tie_word_embeddings": True}


def main(checkout: Path) -> None:
    """Write dream.safetensors and a2d.safetensors."""
    rope = transformers.modeling_rope_utils
    rope.ROPE_INIT_FUNCTIONS["default"] = default_rotary
    pipelines = checkout / "dllm" / "pipelines"
    dream = package("dream", pipelines / "dream" / "models")
    settings = dream("configuration_dream").DreamConfig(**DREAM)
    record("dream", drawn(dream("modeling_dream").DreamModel(settings)), "DreamModel", DREAM)
    a2d = package("a2d", pipelines / "a2d" / "models" / "qwen3")("modeling_qwen3")
    settings = a2d.A2DQwen3Config(**A2D, attn_implementation="sdpa")
    network = drawn(a2d.A2DQwen3LMHeadModel(settings))
    for layer in network.model.layers:
        layer.attention_type = "full_attention"  # newer layers no longer say it of themselves
    record("a2d", network, "A2DQwen3LMHeadModel", A2D)


def default_rotary(config: Any, device: Any = None, **_: Any) -> tuple[Tensor, float]:
    """Return the plain frequencies, which transformers 5 no longer keeps under a name."""
    told = getattr(config, "head_dim", None)
    width = told or config.hidden_size // config.num_attention_heads
    return 1.0 / DREAM["rope_theta"] ** (torch.arange(0, width, 2, device=device) / width), 1.0


def package(name: str, folder: Path) -> Any:
    """Return a function that imports a module of `folder`, past the package's own __init__."""
    holder = types.ModuleType(f"reference_{name}")
    holder.__path__ = [str(folder)]
    sys.modules[holder.__name__] = holder
    return lambda module: importlib.import_module(f"{holder.__name__}.{module}")


@torch.no_grad()
def drawn(network: nn.Module) -> nn.Module:
    """Return the network with random weights, norms and biases; the same every time."""
    generator = torch.Generator().manual_seed(0)
    for name, weight in network.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        small = 0.1 * noise + name.endswith(("norm.weight", "ln_f.weight"))
        wide = noise / weight.shape[-1] ** 0.5 if weight.dim() == 2 else small
        weight.copy_(wide.bfloat16())  # the same weights in both dtypes
    return network.eval().requires_grad_(False)


def real() -> Tensor:
    """Return what is text and not padding, (2, 40): the second row has thirty tokens."""
    return torch.arange(LENGTH) < torch.tensor([[LENGTH], [30]])


def tokens() -> Tensor:
    """Return two rows of ids below 100, some of them masked, (2, 40)."""
    rows = torch.randint(100, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    rows[:, 3::4] = MASK_ID
    return rows.where(real(), PAD_ID)


def logits(network: Any) -> Tensor:
    """Return float32 logits (2, 40, V); padding has rows of zeros."""
    out: Tensor = network(tokens(), attention_mask=real().long(), use_cache=False).logits
    return out.float().where(real()[..., None], 0.0)


def record(name: str, network: nn.Module, architecture: str, config: dict[str, Any]) -> None:
    """Write one family's file."""
    held = {f"weights.{key}": w.bfloat16() for key, w in network.named_parameters()}
    exact = logits(network)
    for weight in network.parameters():  # not the buffers: frequencies stay in float32 when loaded
        weight.data = weight.data.bfloat16()
    rounded = logits(network)
    tensors = {"tokens": tokens(), "attend": real(), "float32": exact, "bfloat16": rounded}
    path = HERE / f"{name}.safetensors"
    told = json.dumps({"architectures": [architecture], **config})
    save_file({**held, **tensors}, path, metadata={"config": told})
    sys.stdout.write(
        f"{path}: {path.stat().st_size} bytes, largest logit {exact.abs().max():.2f}\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
