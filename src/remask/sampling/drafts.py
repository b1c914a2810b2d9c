"""Answers in the making: rows that are written a block at a time, and may meet at any block.

`sampler.sample` writes a batch from its first block to its last. A server has rows that come and
go: one is in its third block when another begins. Here a row is a value, its `Draft`, and `advance`
writes the next block of many, each of them wherever it is. What comes out is what `sample` writes.

The price: a block-causal model has no cache between two blocks, and reads what precedes a block in
one pass more; as long as a block takes many steps, that is little. Passes are charged as `sample`
charges them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from remask import rng
from remask.denoisers.base import Denoiser
from remask.denoisers.wrap import Suppressed
from remask.sampling.batches import check_ids, check_length, whole_length
from remask.sampling.blocks import BlockIterator, BlockView, block_numbers, row_block
from remask.sampling.sampler import check_block, finish, write_block
from remask.sampling.settings import SamplerSettings
from remask.sampling.trace import BlockTrace
from remask.values import Canvas, Likeliest, Sample


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One answer as far as it is written."""

    item: str
    number: int
    seed: int
    prompt: tuple[int, ...]
    settings: SamplerSettings
    row_block: int | None  # of the model: see `blocks.row_block`
    canvas: tuple[int, ...]  # (W,) mask tokens where nothing is written yet
    probs: tuple[float, ...]  # (W,) as in `Sample`
    steps: tuple[int, ...]  # (W,)
    block: int = 0  # the one to write next
    ended: bool = False  # the last block holds an end token, or there is none left
    forwards: int = 0
    num_top: int = 0  # how many of the likeliest tokens are noted
    likeliest: tuple[Likeliest, ...] = ()  # (W,) as in `Sample`; () where none are

    @cached_property
    def block_settings(self) -> SamplerSettings:
        """How one block is written: drafts that agree in it go together."""
        s = self.settings.for_sample(self.number)
        return replace(s, length=s.block, steps=s.steps // (s.length // s.block))

    @property
    def num_columns(self) -> int:
        """Prompt and canvas."""
        return len(self.prompt) + len(self.canvas)

    def span(self, block: int) -> tuple[int, int]:
        """Return where a block begins and ends in the canvas."""
        size = self.row_block or self.settings.block
        # Blocks of a model that has its own are mostly counted from the first token of the row.
        ahead = len(self.prompt) % size if self.row_block else 0
        return max(0, block * size - ahead), min(len(self.canvas), (block + 1) * size - ahead)

    @property
    def written(self) -> tuple[int, ...]:
        """What is final: the blocks that are written."""
        return self.canvas[: self.span(self.block - 1)[1]] if self.block else ()


def begin(
    denoiser: Denoiser,
    prompt: Sequence[int],
    settings: SamplerSettings,
    *,
    item: str,
    number: int = 0,
    seed: int = 0,
    num_top: int = 0,
) -> Draft:
    """Return an empty draft, or raise where the model cannot write it.

    `num_top` of the likeliest tokens are noted when a token is revealed.
    """
    num_canvas = whole_length(denoiser, len(prompt), settings.length)
    check_length(denoiser, len(prompt), num_canvas)
    check_ids(denoiser, prompt, "prompt")
    check_block(denoiser, settings)
    return Draft(
        item=item,
        number=number,
        seed=seed,
        prompt=tuple(prompt),
        settings=settings,
        row_block=row_block(denoiser),
        canvas=(denoiser.tokenizer.mask_id,) * num_canvas,
        probs=(1.0,) * num_canvas,
        steps=(-1,) * num_canvas,
        num_top=num_top,
        likeliest=((),) * num_canvas if num_top else (),
    )


def advance(denoiser: Denoiser, drafts: Sequence[Draft]) -> list[Draft]:
    """Return drafts with the same `block_settings`, the next block of each written."""
    how, tokenizer, device = drafts[0].block_settings, denoiser.tokenizer, denoiser.device
    model = Suppressed(denoiser, ids=(tokenizer.eos_id,)) if how.suppress_eos else denoiser
    canvas = Canvas.of(
        [d.prompt for d in drafts], [d.canvas for d in drafts], tokenizer.pad_id, device
    )
    blocks = BlockIterator(model, canvas, block_numbers(canvas, how.block, row_block(denoiser)))
    current = torch.tensor([d.block for d in drafts], device=device)
    view = blocks.at(current)
    keys = torch.tensor([rng.key(d.seed, d.item, "sample", d.number) for d in drafts])
    num_top = max(d.num_top for d in drafts)
    trace = BlockTrace(view, how.block, tokenizer.mask_id, num_top) if num_top else None
    done = write_block(model, view, how, rng.fold_in(keys.to(device), current), how.steps, trace)
    probs, when = torch.ones(blocks.tokens.shape, device=device), torch.full_like(blocks.tokens, -1)
    view.put(blocks.tokens, done.tokens)
    view.put(probs, done.probs)
    view.put(when, done.steps)
    rows = zip(
        blocks.tokens.tolist(), probs.tolist(), when.tolist(),
        (blocks.forwards + done.forwards).tolist(), strict=True,
    )  # fmt: skip
    grown = [
        _grown(draft, *row, tokenizer.eos_ids) for draft, row in zip(drafts, rows, strict=True)
    ]
    return grown if trace is None else _noted(drafts, grown, view, trace)


def _grown(
    draft: Draft,
    tokens: list[int],
    probs: list[float],
    when: list[int],
    forwards: int,
    ends: Sequence[int],
) -> Draft:
    """Return a draft with one more block, cut from whole rows (L,)."""
    first, last = draft.span(draft.block)
    how = draft.block_settings
    per_block = how.steps if how.editing is None else how.post_steps + how.block
    here = slice(len(draft.prompt) + first, len(draft.prompt) + last)
    steps = [step + draft.block * per_block for step in when[here]]
    return replace(
        draft,
        canvas=(*draft.canvas[:first], *tokens[here], *draft.canvas[last:]),
        probs=(*draft.probs[:first], *probs[here], *draft.probs[last:]),
        steps=(*draft.steps[:first], *steps, *draft.steps[last:]),
        block=draft.block + 1,
        ended=last == len(draft.canvas) or any(token in ends for token in tokens[here]),
        forwards=draft.forwards + forwards,
    )


def _noted(
    before: Sequence[Draft], grown: Sequence[Draft], view: BlockView, trace: BlockTrace
) -> list[Draft]:
    """Return drafts that have grown by a block with the likeliest tokens of it, where wanted."""
    width = max(draft.num_columns for draft in before)
    device, ranks = trace.top_logp.device, range(trace.num_top)
    tokens = torch.full((len(before), width, trace.num_top), -1, device=device)  # (B, L, K)
    logp = torch.full(tokens.shape, -torch.inf, device=device)
    for rank in ranks:
        view.put(tokens[..., rank], trace.top_tokens[..., rank])
        view.put(logp[..., rank], trace.top_logp[..., rank])
    drafts = []
    for old, new, ids, logs in zip(before, grown, tokens.tolist(), logp.tolist(), strict=True):
        first, last = old.span(old.block)
        here = range(len(old.prompt) + first, len(old.prompt) + last)
        known = [_likeliest(ids[i][: old.num_top], logs[i][: old.num_top]) for i in here]
        row = (*old.likeliest[:first], *known, *old.likeliest[last:]) if old.num_top else ()
        drafts.append(replace(new, likeliest=row))
    return drafts


def _likeliest(tokens: Sequence[int], logp: Sequence[float]) -> Likeliest:
    """Return tokens with their log p, without those that cannot be drawn."""
    return tuple((t, p) for t, p in zip(tokens, logp, strict=True) if p > -torch.inf)


def finished(denoiser: Denoiser, draft: Draft) -> Sample:
    """Return an ended draft as a sample."""
    mask_id, eos_id = denoiser.tokenizer.mask_id, denoiser.tokenizer.eos_id
    length = draft.settings.length
    tokens = [eos_id if token == mask_id else token for token in draft.canvas[:length]]
    sample = finish(
        denoiser, draft.item, draft.number, draft.prompt, tokens,
        list(draft.probs[:length]), list(draft.steps[:length]), draft.forwards,
    )  # fmt: skip
    return replace(sample, likeliest=draft.likeliest[:length])
