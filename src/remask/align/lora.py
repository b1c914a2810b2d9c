"""LoRA adapters: choice of layers, initialisation, merging and saving.

Target names that match no layer are refused; peft would silently ignore them, as with those of the
public code of d1 and SPG for LLaDA (`o_proj`, `down_proj`, `gate_proj`). Projections that are fused
here (q, k and v; gate and up) share an adapter. Routers and stacked experts have no adapters.

The first matrix of an adapter is drawn from the seed of the run.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from remask import rng
from remask.denoisers.native import Network
from remask.denoisers.quantisers import aside
from remask.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from remask.align.settings import AlignSettings

AUTO = "auto"
_NAME = "default"  # of the adapter
_PARTS = ("lora_A", "lora_B")
_LEAVES = (
    "attention.qkv",
    "attention.out",
    "mlp.gate_up",
    "mlp.down",
    "shared.gate_up",
    "shared.down",
)
_FILE = "adapter_model.safetensors"


def find_targets(network: nn.Module, wanted: Sequence[str] = (AUTO,)) -> list[str]:
    """Return the names of the modules to adapt, or raise if a name matches none.

    Args:
        network: the network.
        wanted: "auto" for all linear layers of attention and dense MLPs, or module name suffixes.
    """
    linear = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    inside = [name for name in linear if name.startswith("blocks.")]
    ends = _LEAVES if tuple(wanted) == (AUTO,) else tuple(wanted)
    targets = [name for name in inside if any(_ends(name, end) for end in ends)]
    unmatched = [end for end in ends if not any(_ends(name, end) for name in inside)]
    if not targets or (unmatched and ends is not _LEAVES):
        known = ", ".join(dict.fromkeys(_without_number(name) for name in inside)) or "none"
        raise SettingsError(
            f"lora_targets must be auto or linear layers of {type(network).__name__} ({known}), "
            f"got {', '.join(unmatched or ends)}."
        )
    return targets


def _ends(name: str, end: str) -> bool:
    return f".{name}".endswith(f".{end}")


def _without_number(name: str) -> str:
    return ".".join(name.split(".")[2:])


def attach(network: Network, settings: "AlignSettings") -> None:
    """Add adapters to a network and freeze all other weights; its outputs do not change."""
    peft = _peft()
    targets = find_targets(network, settings.lora_targets)
    network.requires_grad_(False)
    config = peft.LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules=targets,
        bias="none",
    )
    # peft draws initial weights, which are replaced below, and imports quantisation packages.
    with torch.random.fork_rng([]), aside():
        peft.inject_adapter_in_model(config, network, adapter_name=_NAME)
    for name, layer in adapted(network):
        layer.cast_input_dtype_enabled = False  # autocast does it
        down, up = layer.lora_A[_NAME], layer.lora_B[_NAME]
        down.float()
        up.float()
        generator = torch.Generator(down.weight.device)
        generator.manual_seed(rng.key(settings.seed, name, "lora"))
        bound = 1 / math.sqrt(down.weight.shape[1])  # as in peft
        nn.init.uniform_(down.weight, -bound, bound, generator=generator)
        nn.init.zeros_(up.weight)


def adapted(network: nn.Module) -> list[tuple[str, Any]]:
    """Return the modules that have an adapter, by name."""
    return [(name, m) for name, m in network.named_modules() if hasattr(m, "lora_A")]


@contextmanager
def without_adapters(network: nn.Module) -> Iterator[None]:
    """Run the network without its adapters.

    Adapters stay trainable: peft would freeze those that it does not use.
    """
    layers = [layer for _, layer in adapted(network)]
    learn = [parameter for parameter in network.parameters() if parameter.requires_grad]
    for layer in layers:
        layer.enable_adapters(False)
    for parameter in learn:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


@torch.no_grad()
def merged(network: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a network without adapters that computes the same.

    Args:
        network: with or without adapters; it is not changed.
        weights: its state dict.
    """
    layers = dict(adapted(network))
    out = {}
    for name, tensor in weights.items():
        if ".lora_" in name:
            continue
        owner, _, last = name.rpartition(".base_layer.")
        if not owner:
            out[name] = tensor
        elif last == "weight":
            down, up = (weights[f"{owner}.{part}.{_NAME}.weight"] for part in _PARTS)
            delta = (up @ down) * layers[owner].scaling[_NAME]
            out[f"{owner}.weight"] = (tensor.float() + delta.float()).to(tensor.dtype)
        else:
            out[f"{owner}.{last}"] = tensor
    return out


def save_adapter(
    network: nn.Module, weights: Mapping[str, Tensor], settings: "AlignSettings", folder: Path
) -> None:
    """Write the adapter in peft's layout, with the module names of this package."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"base_model.model.{name}.{part}.weight": weights[f"{name}.{part}.{_NAME}.weight"]
        for name, _ in adapted(network)
        for part in _PARTS
    }
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(whole, folder / _FILE, metadata={"format": "pt"})
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": settings.model,
        "r": settings.lora_rank,
        "lora_alpha": settings.lora_alpha,
        "lora_dropout": settings.lora_dropout,
        "bias": "none",
        "target_modules": [name for name, _ in adapted(network)],
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _peft() -> Any:
    try:
        with aside():
            import peft
    except ImportError:
        raise MissingExtra("peft", "align", "tuning full") from None
    return peft
