"""A block written in portions: sub-block after sub-block, as Fast-dLLM v2 does (arXiv:2509.26328).

Every pass predicts the whole block, but only positions of the current sub-block are revealed, by
the rule of `loop`, until none of it is masked. The sub-blocks of a model that has blocks of its own
count, like those, from the first token of the row.

The first token of a block comes first, before any pass, where the network is shifted: what predicts
it is the end of the block before, which does not see the block, so that waiting would tell nothing
more. It is the likeliest token at every temperature.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser
from remask.sampling.blocks import Part
from remask.sampling.loop import Counts, denoise, predict
from remask.sampling.settings import Rule


class Nested(NamedTuple):
    """What is left behind, on the model's device."""

    tokens: Tensor  # (b, w)
    probs: Tensor  # (b, w) of each token when it was revealed; 1 where it was given
    steps: Tensor  # (b, w) the step that revealed it, -1 where it was given
    forwards: Tensor  # (b,) forward passes each row needed


def write_nested(
    denoiser: Denoiser,
    part: Part,
    rule: Rule,
    *,
    sizes: tuple[int, int],
    counts: Counts,
    steps: int,
    temperature: float,
    keys: Tensor,
) -> Nested:
    """Write a block.

    Args:
        denoiser: predicts.
        part: the block.
        rule: which predictions of a sub-block are revealed.
        sizes: of a block and of a sub-block, in tokens.
        counts: schedule of a sub-block.
        steps: forward passes over the block, shared evenly by its sub-blocks.
        temperature: Gumbel noise on the logits; 0 is greedy.
        keys: (b,) random streams.
    """
    block, size = sizes
    done = _led(denoiser, part)
    inside = _places(part, block) // size  # (b, w) which sub-block
    each = steps // (block // size)
    for number in range(block // size):
        found = denoise(
            denoiser, replace(part.canvas, tokens=done.tokens), counts, each,
            within=part.within & (inside == number), past=part.past, rule=rule,
            temperature=temperature, keys=keys,
        )  # fmt: skip
        new = found.steps >= 0
        done = Nested(
            tokens=found.tokens,
            probs=torch.where(new, found.probs, done.probs),
            steps=torch.where(new, found.steps + number * each, done.steps),
            forwards=done.forwards + found.forwards,
        )
    return done


def _places(part: Part, block: int) -> Tensor:
    """Return the place of every column in its block, (b, w)."""
    if part.past is None:
        return part.canvas.offsets % block
    return torch.arange(part.within.shape[1], device=part.within.device).expand_as(part.within)


def _led(denoiser: Denoiser, part: Part) -> Nested:
    """Return the block with its first token, where the block before has told it."""
    tokens = part.canvas.tokens
    blank = Nested(
        tokens=tokens,
        probs=torch.ones(tokens.shape, device=tokens.device),
        steps=torch.full_like(tokens, -1),
        forwards=torch.zeros(len(tokens), dtype=torch.long, device=tokens.device),
    )
    if part.past is None or part.past.last is None:
        return blank
    masked = part.within[:, 0] & (tokens[:, 0] == denoiser.tokenizer.mask_id)
    known = masked & (part.past.lengths > 0)  # (b,)
    found = predict(denoiser, part.past.last, tokens[:, 0], Rule(), None)
    changes = (
        (tokens, found.tokens),
        (blank.probs, found.logp.exp()),
        (blank.steps, 0 * tokens[:, 0]),
    )
    first, prob, step = (
        torch.cat((torch.where(known, new, old[:, 0])[:, None], old[:, 1:]), 1)
        for old, new in changes
    )
    return blank._replace(tokens=first, probs=prob, steps=step)
