"""The model that is trained, as a denoiser through which gradients flow.

Sampling and scoring call it under `torch.no_grad`. Trained weights are float32, because updates of
1e-6 vanish in bfloat16. With dtype bfloat16 the forward pass uses autocast, and full fine-tuning
generates completions with a bfloat16 copy of the weights, which is refreshed before each rollout.

`log_probs` computes logits only for the tokens of the loss; for a large vocabulary they are
recomputed in the backward pass.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from remask import rng
from remask.align import lora
from remask.align.settings import AlignSettings
from remask.align.sharding import whole
from remask.denoisers.base import Denoiser
from remask.denoisers.devices import choose_device, choose_dtype
from remask.denoisers.experts import Experts
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.load import load
from remask.denoisers.native import NativeDenoiser, Network
from remask.errors import SettingsError
from remask.sampling.likelihood import log_likelihood
from remask.values import Canvas

LOGITS = 2**28  # logits in memory at a time: 1 GB of float32


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy(NativeDenoiser):
    """A native denoiser whose calls let gradients through."""

    in_bfloat16: bool = False  # by autocast

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        """Return the states before the last MLP, (B, L, width)."""
        with self._precision():
            lacking = self.lacking(canvas, cache)
            if cache is not None:
                return self.model.forward_cached(cache, canvas.tokens, canvas.attend, lacking)
            return self.model.states(canvas.tokens, canvas.attend, lacking)

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        """Return the cache with the columns of `canvas` added, without gradients."""
        with self._precision():
            return super().extend_cache(canvas, cache)

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        """Return the states of each noisy block after blocks of `clean`, (B, L, width)."""
        with self._precision():
            lacking = self.lacking(canvas, None)
            return self.model.hidden_noisy_given_clean(canvas.tokens, clean, canvas.attend, lacking)

    def head(self, rows: Tensor) -> Tensor:
        """Return float32 logits (M, V)."""
        with self._precision():
            return self.model.project(self.model.finish_last_layer(rows)).float()

    def _precision(self) -> "torch.autocast | nullcontext[None]":
        # One region per call: autocast caches weights that were cast without gradients.
        if not self.in_bfloat16:
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)


def load_policy(
    settings: AlignSettings, device: torch.device | None = None, place: str = ""
) -> Policy:
    """Return the model to train, with adapters if the settings say so.

    Args:
        settings: of the run.
        device: device of the training; None: the device of the settings.
        place: device to load on, if different: a model that will be sharded may not fit.
    """
    target = choose_device(settings.device) if device is None else device
    wanted = choose_dtype(settings.dtype, target)
    held = "float32" if settings.tuning == "full" else str(wanted).removeprefix("torch.")
    denoiser = load(settings.model, device=place or str(target), dtype=held)
    if not isinstance(denoiser, NativeDenoiser):
        raise SettingsError(
            f"device must be a single device, got {settings.device!r}; start one process each."
        )
    return make_policy(denoiser, settings, in_bfloat16=wanted == torch.bfloat16)


def make_policy(
    denoiser: NativeDenoiser, settings: AlignSettings, *, in_bfloat16: bool = False
) -> Policy:
    """Return a loaded model as a policy; its network is changed in place."""
    network = denoiser.model
    if network.packed_as:
        raise SettingsError(f"weights must be 'full' for training, got {network.packed_as!r}.")
    if settings.tuning == "full":
        network.requires_grad_(True)
    else:
        lora.attach(network, settings)
    if in_bfloat16:
        _exact_routers(network)
    if settings.gradient_checkpointing:
        _recompute(network)
    network.eval()
    return Policy(
        name=denoiser.name,
        model=network,
        tokenizer=denoiser.tokenizer,
        preset=denoiser.preset,
        in_bfloat16=in_bfloat16,
    )


def trained(policy: Policy) -> dict[str, nn.Parameter]:
    """Return the parameters that learn, by name."""
    return {name: p for name, p in policy.model.named_parameters() if p.requires_grad}


class Actor:
    """The model that generates completions: the policy, or a copy of its weights."""

    def __init__(self, policy: Policy, copied: NativeDenoiser | None) -> None:
        self.policy, self.copied = policy, copied
        self.denoiser: NativeDenoiser = copied or policy

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the current weights of the policy, if there is a copy."""
        if self.copied is not None:
            theirs = self.policy.model.state_dict()
            for name, ours in self.copied.model.state_dict().items():
                ours.copy_(whole(theirs[name]))


def copy_of(policy: Policy, device: torch.device) -> NativeDenoiser:
    """Return a copy of the policy in its compute dtype, for generation."""
    network = copy.deepcopy(policy.model).requires_grad_(False)
    network.to(device, torch.bfloat16 if policy.in_bfloat16 else None)
    return NativeDenoiser(
        name=policy.name, model=network, tokenizer=policy.tokenizer, preset=policy.preset
    )


def reference_of(policy: Policy, settings: AlignSettings, device: torch.device) -> Denoiser | None:
    """Return a copy of the initial model if the loss needs it; None with LoRA.

    With LoRA the policy itself is the initial model, see `without_adapters`.
    """
    if settings.tuning == "lora" or not settings.uses_reference:
        return None
    network = copy.deepcopy(policy.model).requires_grad_(False).to(device)
    return replace(policy, model=network)


def drops(policy: Policy) -> bool:
    """Return whether the policy has dropout."""
    return any(isinstance(m, nn.Dropout) and m.p > 0 for m in policy.model.modules())


@contextmanager
def learning(policy: Policy, *identity: int | str, seed: int) -> Iterator[None]:
    """Turn on dropout, with draws that depend on the seed and the identity.

    Dropout uses torch's global generator, which is restored afterwards.
    """
    if not drops(policy):
        yield
        return
    kind = policy.device.type
    own = [] if kind == "cpu" else [policy.device]  # devices with their own generator
    generator = torch.Generator(policy.device)
    generator.manual_seed(rng.key(seed, "/".join(map(str, identity)), "dropout"))
    with torch.random.fork_rng(own, device_type=kind):
        set_state: Any = getattr(torch, kind if own else "random").set_rng_state
        set_state(generator.get_state(), *own)
        policy.model.train()
        try:
            yield
        finally:
            policy.model.eval()


def log_probs(denoiser: Denoiser, canvas: Canvas, masked: Tensor, selected: Tensor) -> Tensor:
    """Return log p of the selected tokens of finished rows, (B, L) float32; 0 elsewhere."""
    return log_likelihood(denoiser, canvas, masked, selected, elements=LOGITS)


def _exact_routers(network: Network) -> None:
    """Run routers without autocast: rounding would change the choice of experts."""
    for module in network.modules():
        if isinstance(module, Experts):
            module.router.forward = partial(_exactly, module.router)


def _exactly(router: nn.Module, rows: Tensor) -> Any:
    with torch.autocast(rows.device.type, enabled=False):
        return type(router).forward(router, rows)


def _recompute(network: Network) -> None:
    """Keep only the inputs of blocks, and recompute the rest in the backward pass."""
    for block in network.blocks[:-1]:
        block.forward = partial(_recomputed, block)  # a deepcopy keeps it


def _recomputed(block: nn.Module, *args: Any) -> Any:
    plain = partial(type(block).forward, block)
    if not torch.is_grad_enabled():
        return plain(*args)
    return checkpoint(plain, *args, use_reentrant=False)
