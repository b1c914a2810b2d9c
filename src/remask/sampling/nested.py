"""A block written in sub-blocks, one after another, as Fast-dLLM v2 does (arXiv:2509.26328).

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
from remask.sampling.blocks import BlockView
from remask.sampling.loop import denoise, predict
from remask.sampling.outputs import raise_fault
from remask.sampling.schedule import Schedule
from remask.sampling.settings import Rule
from remask.sampling.trace import BlockTrace


class Nested(NamedTuple):
    """What is left behind, on the model's device."""

    tokens: Tensor  # (b, w)
    probs: Tensor  # (b, w) of each token when it was revealed; 1 where it was given
    steps: Tensor  # (b, w) the step that revealed it, -1 where it was given
    forwards: Tensor  # (b,) forward passes each row needed


def write_nested(
    denoiser: Denoiser,
    view: BlockView,
    rule: Rule,
    *,
    sizes: tuple[int, int],
    schedule: Schedule,
    steps: int,
    temperature: float,
    keys: Tensor,
    trace: BlockTrace | None = None,
) -> Nested:
    """Write a block.

    Args:
        denoiser: predicts.
        view: the block.
        rule: which predictions of a sub-block are revealed.
        sizes: of a block and of a sub-block, in tokens.
        schedule: of a sub-block.
        steps: forward passes over the block, shared evenly by its sub-blocks.
        temperature: Gumbel noise on the logits; 0 is greedy.
        keys: (b,) random streams.
        trace: is shown every step.
    """
    block, size = sizes
    done = _led(denoiser, view, trace)
    inside = _places(view, block) // size  # (b, w) which sub-block
    each = steps // (block // size)
    for number in range(block // size):
        latest = denoise(
            denoiser, replace(view.canvas, tokens=done.tokens), schedule, each,
            within=view.within & (inside == number), cache=view.cache, rule=rule,
            temperature=temperature, keys=keys, trace=trace,
        )  # fmt: skip
        new = latest.steps >= 0
        done = Nested(
            tokens=latest.tokens,
            probs=torch.where(new, latest.probs, done.probs),
            steps=torch.where(new, latest.steps + number * each, done.steps),
            forwards=done.forwards + latest.forwards,
        )
    return done


def _places(view: BlockView, block: int) -> Tensor:
    """Return the place of every column in its block, (b, w)."""
    if view.cache is None:
        return view.canvas.offsets % block
    return torch.arange(view.within.shape[1], device=view.within.device).expand_as(view.within)


def _led(denoiser: Denoiser, view: BlockView, trace: BlockTrace | None) -> Nested:
    """Return the block with its first token, where the block before predicts it."""
    tokens = view.canvas.tokens
    blank = Nested(
        tokens=tokens,
        probs=torch.ones(tokens.shape, device=tokens.device),
        steps=torch.full_like(tokens, -1),
        forwards=torch.zeros(len(tokens), dtype=torch.long, device=tokens.device),
    )
    if view.cache is None or view.cache.last is None:
        return blank
    masked = view.within[:, 0] & (tokens[:, 0] == denoiser.tokenizer.mask_id)
    known = masked & (view.cache.lengths > 0)  # (b,)
    first_token = predict(
        denoiser, view.cache.last, tokens[:, 0], Rule(), None,
        entropy=trace is not None, num_top=trace.num_top if trace else 0,
    )  # fmt: skip
    raise_fault(denoiser, first_token.fault)
    if trace is not None:
        trace.lead(first_token.entropy, known)
        firsts = torch.arange(len(tokens), device=tokens.device) * tokens.shape[1]  # (b,)
        written = torch.zeros_like(view.within)
        written[:, 0] = known
        trace.note_top(first_token.top_tokens, first_token.top_logp, firsts, written)
    changes = (
        (tokens, first_token.tokens),
        (blank.probs, first_token.logp.exp()),
        (blank.steps, 0 * tokens[:, 0]),
    )
    first, prob, step = (
        torch.cat((torch.where(known, new, old[:, 0])[:, None], old[:, 1:]), 1)
        for old, new in changes
    )
    return blank._replace(tokens=first, probs=prob, steps=step)
