"""How probable a finished text is: log-probabilities of its tokens in one forward pass.

A block-causal model, shown a row with masks in several blocks, would read the later ones behind a
noisy context, which it never does when it writes. It is shown the noisy row and the clean one
together instead, each noisy block behind clean ones (`hidden_noisy_given_clean`). Rows over one
text share the clean one, and texts that begin alike share what they begin with. Other models see
the prompt through the masks behind it, so that equal prompts are computed anew.

Nothing here stops gradients: where the denoiser lets them through, they flow. Logits that do not
fit at once are then computed again on the way back instead of being kept. Without gradients, logits
that are not finite are an error; a trainer looks at its loss instead.
"""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from remask.denoisers.base import Denoiser, block_causal
from remask.sampling.outputs import checked_states, fault_in, log_probs, logits_of, raise_fault
from remask.sampling.settings import HEAD_ELEMENTS
from remask.values import Canvas


def log_likelihood(
    denoiser: Denoiser,
    canvas: Canvas,
    masked: Tensor | None,
    wanted: Tensor | None = None,
    *,
    elements: int = HEAD_ELEMENTS,
) -> Tensor:
    """Return log p of the masked tokens of a finished canvas given the others, (B, L) float32.

    It is 0 elsewhere. The mask token has no chance, as in the denoising loop. A token that is
    wanted and not masked is one that the model sees.

    Args:
        denoiser: predicts.
        canvas: rows without mask tokens.
        masked: (B, L) bool, positions that the model is not shown; no padding. None: it is shown
            all of them, by an ordinary pass.
        wanted: (B, L) bool, positions whose probabilities are returned; None: all that are masked,
            or the canvas where nothing is.
        elements: logits held at once.
    """
    if wanted is None:
        wanted = canvas.canvas if masked is None else masked
    # Before the pass: how many they are is a host read, for which a GPU would have to finish it.
    places = wanted.flatten().nonzero()[:, 0]  # (M,)
    if masked is None:
        hidden = checked_states(denoiser, denoiser.hidden(canvas), canvas.tokens)
    else:
        tokens = canvas.tokens.masked_fill(masked, denoiser.tokenizer.mask_id)
        hidden = hidden_of_noisy(denoiser, replace(canvas, tokens=tokens), canvas.tokens)
    rows, truth = hidden.flatten(0, 1)[places], canvas.tokens.flatten()[places]  # (M, H), (M,)
    size = max(1, elements // denoiser.vocab_size)
    part = partial(_log_probs, denoiser)
    if len(rows) > size and rows.requires_grad:
        part = partial(checkpoint, part, use_reentrant=False)
    out = torch.zeros(wanted.shape, device=wanted.device)
    if len(rows) == 0:
        return out
    parts = [
        part(rows[start : start + size], truth[start : start + size])
        for start in range(0, len(rows), size)
    ]
    logp, totals = (torch.cat(column) for column in zip(*parts, strict=True))
    if not logp.requires_grad:
        raise_fault(denoiser, fault_in(totals))
    return out.masked_scatter(wanted, logp)


def hidden_of_noisy(denoiser: Denoiser, noisy: Canvas, clean: Tensor) -> Tensor:
    """Return what the head needs of rows with masks, (B, L, H); each block behind clean ones.

    `clean` (B, L) has the tokens under the masks. A model without blocks is not shown them.
    """
    if denoiser.block_size is None:
        return checked_states(denoiser, denoiser.hidden(noisy), clean)
    states = block_causal(denoiser).hidden_noisy_given_clean(noisy, clean)
    return checked_states(denoiser, states, clean)


def _log_probs(denoiser: Denoiser, rows: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return log p of the true tokens and the logarithm of the sum over all tokens, (m,) each."""
    logits = logits_of(denoiser, rows)  # (m, V)
    total = logits.logsumexp(1)
    return log_probs(logits.gather(1, truth[:, None])[:, 0], total), total.detach()
