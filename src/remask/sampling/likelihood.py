"""How probable a finished text is: log-probabilities of masked tokens in one forward pass.

A block-causal model, shown a row with masks in several blocks, would read the later ones behind a
noisy past, which it never does when it writes. It is shown the noisy row and the clean one together
instead, each noisy block behind clean ones (`Denoiser.doubled`).

Nothing here stops gradients: where the denoiser lets them through, they flow.
"""

from dataclasses import replace

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser
from remask.sampling.loop import HEAD_ELEMENTS
from remask.values import Canvas


def log_likelihood(denoiser: Denoiser, canvas: Canvas, masked: Tensor) -> Tensor:
    """Return log p of the masked tokens of a finished canvas given the others, (B, L) float32.

    It is 0 where nothing is masked. The mask token has no chance, as in the denoising loop.

    Args:
        denoiser: predicts.
        canvas: rows without mask tokens.
        masked: (B, L) bool, positions that the model is not shown; no padding.
    """
    tokenizer = denoiser.tokenizer
    noisy = replace(canvas, tokens=canvas.tokens.masked_fill(masked, tokenizer.mask_id))
    if denoiser.block_size is None:
        hidden = denoiser.hidden(noisy)
    else:
        hidden = denoiser.doubled(noisy, canvas.tokens)
    rows, truth = hidden[masked], canvas.tokens[masked]  # (M, H), (M,)
    size = max(1, HEAD_ELEMENTS // denoiser.vocab_size)
    parts = [
        _log_probs(denoiser, rows[start : start + size], truth[start : start + size])
        for start in range(0, len(rows), size)
    ]
    out = torch.zeros(masked.shape, device=masked.device)
    return out.masked_scatter(masked, torch.cat(parts)) if parts else out


def _log_probs(denoiser: Denoiser, rows: Tensor, truth: Tensor) -> Tensor:
    logits = denoiser.head(rows)  # (m, V)
    logits[:, denoiser.tokenizer.mask_id] = -torch.inf
    return logits.gather(1, truth[:, None])[:, 0] - logits.logsumexp(1)
