"""What a denoiser returns, checked: shapes, dtype and finite logits."""

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser
from remask.errors import DenoiserError

_INFINITE, _NAN = 1, 2
_LEAST_LOGP = -1e6  # of a token that a wrapper forbids: a score is finite


def checked_states(denoiser: Denoiser, states: Tensor, tokens: Tensor) -> Tensor:
    """Return hidden states (B, L, H) of `tokens` (B, L), or raise if the shape is different."""
    shape, wanted = tuple(getattr(states, "shape", ())), tuple(tokens.shape)
    if len(shape) != 3 or shape[:2] != wanted:
        raise DenoiserError(
            f"hidden of {denoiser.name} must return shape {wanted} and a width, got {shape}."
        )
    return states


def logits_of(denoiser: Denoiser, rows: Tensor) -> Tensor:
    """Return the logits (M, V) of gathered rows (M, H); the mask token is impossible."""
    logits = denoiser.head(rows)
    shape, wanted = tuple(getattr(logits, "shape", ())), (len(rows), denoiser.vocab_size)
    if shape != wanted:
        raise DenoiserError(f"head of {denoiser.name} must return shape {wanted}, got {shape}.")
    if getattr(logits, "dtype", None) != torch.float32:
        found = logits.dtype if isinstance(logits, Tensor) else type(logits).__qualname__
        raise DenoiserError(f"head of {denoiser.name} must return torch.float32, got {found}.")
    logits[:, denoiser.tokenizer.mask_id] = -torch.inf
    return logits


def log_probs(logits: Tensor, totals: Tensor) -> Tensor:
    """Return the log-probabilities of tokens with these logits (M,), finite unless NaN."""
    return (logits - totals).clamp(min=_LEAST_LOGP)


def fault_in(highest: Tensor) -> Tensor:
    """Return what is wrong with logits, a scalar on their device; `highest` (M,) is of each row."""
    faults = highest.isinf().byte() * _INFINITE + highest.isnan().byte() * _NAN
    return faults.amax() if len(faults) else faults.new_zeros(())


def raise_fault(denoiser: Denoiser, fault: Tensor) -> None:
    """Raise if some logits were NaN or infinite: waits for the device."""
    found = int(fault)
    if found:
        kind = "NaN" if found == _NAN else "infinite"
        remedy = " Load it with dtype float32." if found == _NAN else ""
        raise DenoiserError(f"logits of {denoiser.name} must be finite, got {kind} ones.{remedy}")
