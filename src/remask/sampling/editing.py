"""Token editing: a loop that may take back what it wrote (LLaDA2.1, arXiv:2602.08676).

Every pass predicts the whole block. Masked positions are revealed as in `loop`, those above a
threshold and at least one; a token that is already there is overwritten where another one is more
probable than a second threshold. When nothing is masked any more the block is only edited, until a
pass changes nothing or there were enough of them: the text is then a fixed point of the model.

Departures from the published loop, beside those of `loop`: it takes many rows, each of them at its
own pace, where the published one takes a single row; and what a threshold is compared with is as
`loop.num_due` has it. At temperature 0 the tokens are those of the published loop. Above 0 it
compares probabilities after temperature and filters: that is the order `maskgit_plus`.

Not here: the order of the blocks, and when an answer has ended (see `sampler`).
"""

from dataclasses import replace
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from remask import rng
from remask.denoisers.base import Denoiser
from remask.denoisers.kv_cache import KVCache
from remask.errors import SettingsError
from remask.sampling.loop import (
    Prediction,
    hidden_behind,
    num_due,
    pick,
    predict,
    scatter,
)
from remask.sampling.outputs import raise_fault
from remask.sampling.settings import EditSettings
from remask.sampling.trace import BlockTrace
from remask.values import Canvas


class Edited(NamedTuple):
    """What the loop leaves behind, on the model's device."""

    tokens: Tensor  # (B, L)
    probs: Tensor  # (B, L) of each token when it was last written, untempered; 1 where given
    steps: Tensor  # (B, L) the pass that last wrote it, -1 where it was given
    forwards: Tensor  # (B,) forward passes each row needed


def edit(
    denoiser: Denoiser,
    canvas: Canvas,
    settings: EditSettings,
    *,
    within: Tensor,
    temperature: float = 0.0,
    keys: Tensor | None = None,
    cache: KVCache | None = None,
    trace: BlockTrace | None = None,
) -> Edited:
    """Write the block `within` and edit it until it stays as it is.

    A row that is done is not touched again, however long its neighbours take.

    Args:
        denoiser: predicts.
        canvas: rows; their masked positions are those that hold the mask token.
        settings: the thresholds, and how often a finished block is read again.
        within: (B, L) bool, the block, without the prompt's part of it; a row may have none.
        temperature: Gumbel noise on the logits; 0 is greedy.
        keys: (B,) random streams, needed by a temperature > 0; a key of its own for every block.
        cache: of the columns before those of `canvas`, where the model is block-causal.
        trace: is shown every pass; one that finds nothing masked looks at the whole block.
    """
    if keys is None and temperature > 0:
        raise SettingsError("temperature needs keys: one stream per row.")
    block = _Block(canvas.tokens, within, denoiser.tokenizer.mask_id)
    hidden = hidden_behind(denoiser, cache)
    for step in count():
        due = block.due(settings.post_steps)
        # Who is done is known only now: the price of stopping early is a host read.
        places = due.flatten().nonzero()[:, 0]  # (M,)
        if len(places) == 0:
            break
        rows = hidden(replace(canvas, tokens=block.tokens)).flatten(0, 1)[places]
        noise = None
        if keys is not None and temperature > 0:
            noise = (temperature, _streams(keys, step, within).flatten()[places])
        there = block.tokens.flatten()[places]
        predicted = predict(
            denoiser, rows, there, settings, noise,
            entropy=trace is not None, num_top=trace.num_top if trace else 0,
        )  # fmt: skip
        masked = block.masked
        written = block.write(step, predicted, places, due, settings)
        if trace is not None:
            likeliest = scatter(predicted.likeliest, places, due.shape, 0)
            entropy = scatter(predicted.entropy, places, due.shape, 0.0)
            looked = torch.where(masked.any(1, keepdim=True), masked, due)
            tentative = torch.where(block.masked, likeliest, block.tokens)
            trace.note(tentative, entropy, looked, written)
            trace.note_top(predicted.top_tokens, predicted.top_logp, places, written)
    raise_fault(denoiser, block.fault)
    return Edited(block.tokens, block.probs, block.steps, block.passes * denoiser.forwards_per_call)


def _streams(keys: Tensor, step: int, within: Tensor) -> Tensor:
    """Return a stream per position, (B, L), by its place in the block: blind to the batch."""
    place = torch.arange(within.shape[1], device=within.device)
    offsets = place - within.int().argmax(1, keepdim=True)  # (B, L)
    return rng.fold_in(rng.fold_in(keys, step)[:, None], offsets)


class _Block:
    """The block as it stands, and what is written down on the way; all of it on the device."""

    def __init__(self, tokens: Tensor, within: Tensor, mask_id: int) -> None:
        device = tokens.device
        self.tokens, self.within = tokens, within
        self.masked = within & (tokens == mask_id)
        self.busy = within.any(1)  # (B,)
        self.passes, self.num_post = torch.zeros(2, len(tokens), dtype=torch.long, device=device)
        self.probs = torch.ones(tokens.shape, device=device)
        self.steps = torch.full_like(tokens, -1)
        self.fault = torch.zeros((), dtype=torch.uint8, device=device)

    def due(self, post_steps: int) -> Tensor:
        """Return the positions that the next pass must predict, (B, L)."""
        self.num_post = self.num_post + ~self.masked.any(1)
        self.busy = self.busy & (self.num_post <= post_steps)
        return self.within & self.busy[:, None]

    def write(
        self, step: int, predicted: Prediction, places: Tensor, due: Tensor, settings: EditSettings
    ) -> Tensor:
        """Take over from the prediction at flat `places`, those that are `due`, what it is for.

        Returned is what was written, (B, L) bool.
        """
        shape, masked = due.shape, self.masked
        drawn = scatter(predicted.tokens, places, shape, 0)
        sure = scatter(predicted.sure, places, shape, -1.0)
        # All may stay masked, as far as a schedule goes: there is none.
        num_reveal = num_due(sure, masked, masked.sum(1), settings.reveal_threshold)
        revealed = pick(sure, masked, num_reveal)
        edited = due & ~masked & (drawn != self.tokens) & (sure > settings.edit_threshold)
        written = revealed | edited
        self.tokens = torch.where(written, drawn, self.tokens)
        prob = scatter(predicted.logp.exp(), places, shape, 1.0)
        self.probs = torch.where(written, prob, self.probs)
        self.steps = torch.where(written, step, self.steps)
        self.passes = self.passes + self.busy
        self.fault = torch.maximum(self.fault, predicted.fault)
        self.busy = self.busy & (masked.any(1) | edited.any(1))
        self.masked = masked & ~revealed
        return written
