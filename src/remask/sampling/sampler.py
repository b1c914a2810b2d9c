"""Writing an answer: how LLaDA and Dream use the denoising loop.

LLaDA writes blocks left to right; inside a block each step predicts every masked position and
keeps the most confident predictions for good (arXiv:2502.09992). Dream writes the canvas as one
block, with orders and a schedule of its own (see `schedule`); Fast-dLLM v2 writes a block in
sub-blocks (see `nested`). Departure from their published loops, beside those of `loop`: rows whose
finished blocks hold an end token leave the batch.

`Sample.forwards` counts a row's steps and, where the model is block-causal, the passes that keep
its cache (see `blocks`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from remask import rng
from remask.denoisers.base import Denoiser
from remask.denoisers.wrap import Suppressed
from remask.errors import SettingsError
from remask.sampling.batches import batches, check_ids, check_length, spread, whole_length
from remask.sampling.blocks import BlockIterator, BlockView, block_numbers, row_block
from remask.sampling.editing import Edited, edit
from remask.sampling.loop import PLACE, Denoised, denoise
from remask.sampling.nested import Nested, write_nested
from remask.sampling.schedule import (
    Schedule,
    dream_schedule,
    even_schedule,
    origin_schedule,
    rounded_schedule,
    share_schedule,
)
from remask.sampling.settings import DREAM_ORDERS, SamplerSettings
from remask.sampling.trace import BlockTrace, traces
from remask.values import Canvas, Sample, Trace

# tokens, probs, steps, forwards, trace
_Written = tuple[list[int], list[float], list[int], int, Trace | None]


def sample(
    denoiser: Denoiser,
    prompts: Sequence[Sequence[int]],
    settings: SamplerSettings,
    *,
    items: Sequence[str],
    number: int = 0,
    seed: int = 0,
    trace: bool = False,
) -> list[Sample]:
    """Return one answer per prompt (token ids); `number` says which sample of each item's pool.

    With `trace` the samples say how they came about: the answers are the same.
    """
    numbers = [number] * len(prompts)
    return sample_rows(
        denoiser, prompts, settings, items=items, numbers=numbers, seed=seed, trace=trace
    )


def sample_rows(
    denoiser: Denoiser,
    prompts: Sequence[Sequence[int]],
    settings: SamplerSettings,
    *,
    items: Sequence[str],
    numbers: Sequence[int],
    seed: int = 0,
    trace: bool = False,
) -> list[Sample]:
    """Return one answer per row, each with its own number; those drawn alike share batches."""
    for prompt in prompts:
        check_length(denoiser, len(prompt), whole_length(denoiser, len(prompt), settings.length))
        check_ids(denoiser, prompt, "prompt")
    check_block(denoiser, settings)
    out: dict[int, Sample] = {}
    for how in dict.fromkeys(map(settings.for_sample, numbers)):
        rows = [i for i, number in enumerate(numbers) if settings.for_sample(number) == how]
        for i, written in _drawn(denoiser, prompts, how, rows, items, numbers, seed, trace):
            out[i] = finish(denoiser, items[i], numbers[i], prompts[i], *written)
    return [out[i] for i in range(len(prompts))]


def _drawn(
    denoiser: Denoiser,
    prompts: Sequence[Sequence[int]],
    settings: SamplerSettings,
    rows: Sequence[int],
    items: Sequence[str],
    numbers: Sequence[int],
    seed: int,
    trace: bool,
) -> Iterator[tuple[int, _Written]]:
    """Yield some of the rows with what was written, as their batches end."""

    def write(replica: Denoiser, batch: list[int]) -> list[_Written]:
        names, which = [items[i] for i in batch], [numbers[i] for i in batch]
        keys = rng.keys(seed, names, "sample", which, replica.device)
        return _write(replica, [prompts[i] for i in batch], settings, keys, trace)

    lengths = [len(prompts[i]) + settings.length for i in rows]
    places = [[rows[k] for k in batch] for batch in batches(lengths, denoiser)]
    for batch, answers in spread(denoiser, places, write):
        yield from zip(batch, answers, strict=True)


def _write(
    denoiser: Denoiser,
    prompts: Sequence[Sequence[int]],
    settings: SamplerSettings,
    keys: Tensor,
    trace: bool = False,
) -> list[_Written]:
    """Write one batch block by block; rows that have ended leave it."""
    s, tokenizer = settings, denoiser.tokenizer
    if s.suppress_eos:
        denoiser = Suppressed(denoiser, ids=(tokenizer.eos_id,))
    blank = [[tokenizer.mask_id] * whole_length(denoiser, len(p), s.length) for p in prompts]
    canvas = Canvas.of(prompts, blank, tokenizer.pad_id, denoiser.device)
    probs = torch.ones(canvas.tokens.shape, device=denoiser.device)
    when = torch.full_like(canvas.tokens, -1)
    per_block = s.steps // (s.length // s.block)
    if s.editing is not None:
        per_block = s.block + s.post_steps
    ends = torch.tensor(tokenizer.eos_ids, device=denoiser.device)
    blocks = BlockIterator(denoiser, canvas, block_numbers(canvas, s.block, row_block(denoiser)))
    seen: list[BlockTrace] = []
    for view in blocks:
        streams = rng.fold_in(keys[view.rows], view.number)
        if trace:
            seen.append(BlockTrace(view, s.block, tokenizer.mask_id))
        done = write_block(denoiser, view, s, streams, per_block, seen[-1] if trace else None)
        view.put(blocks.tokens, done.tokens)
        view.put(probs, done.probs)
        view.put(when, done.steps + view.number * per_block)
        blocks.forwards[view.rows] += done.forwards
        blocks.leave((torch.isin(done.tokens, ends) & view.within).any(1))
    tokens = blocks.tokens.masked_fill(blocks.tokens == tokenizer.mask_id, tokenizer.eos_id)
    columns = [(len(p), len(p) + s.length) for p in prompts]
    steps = traces(seen, columns) if trace else [None] * len(prompts)
    listed = zip(
        tokens.tolist(), probs.tolist(), when.tolist(), blocks.forwards.tolist(), strict=True
    )
    return [
        (t[a:b], p[a:b], w[a:b], f, step)
        for (a, b), (t, p, w, f), step in zip(columns, listed, steps, strict=True)
    ]


def write_block(
    denoiser: Denoiser,
    view: BlockView,
    settings: SamplerSettings,
    keys: Tensor,
    steps: int,
    trace: BlockTrace | None = None,
) -> Denoised | Edited | Nested:
    """Write one block; `trace` is shown how."""
    s, editing = settings, settings.editing
    if editing is not None:
        return edit(
            denoiser, view.canvas, editing,
            within=view.within, cache=view.cache, temperature=s.temperature, keys=keys,
            trace=trace,
        )  # fmt: skip
    if s.sub_block is not None or (view.cache is not None and view.cache.last is not None):
        return write_nested(
            denoiser, view, s, sizes=(s.block, s.sub_block or s.block),
            schedule=_schedule(denoiser, s, keys), steps=steps, temperature=s.temperature,
            keys=keys, trace=trace,
        )  # fmt: skip
    return denoise(
        denoiser, view.canvas, _schedule(denoiser, s, keys), steps,
        within=view.within, cache=view.cache, rule=s, temperature=s.temperature, keys=keys,
        steady=_shares(denoiser, s), trace=trace,
    )  # fmt: skip


def _shares(denoiser: Denoiser, settings: SamplerSettings) -> bool:
    return denoiser.preset.schedule == "shares" and not _counts_as_dream(denoiser, settings)


def _counts_as_dream(denoiser: Denoiser, settings: SamplerSettings) -> bool:
    """Say whether Dream's schedule comes with the order; models with blocks keep their own.

    `origin` draws how many tokens are revealed, so it has no other schedule.
    """
    whole = denoiser.block_size is None
    return settings.order in DREAM_ORDERS and (whole or settings.order == "origin")


def _schedule(denoiser: Denoiser, settings: SamplerSettings, keys: Tensor) -> Schedule:
    """Return how many tokens of a block each step reveals.

    The schedule is that of the model's authors, or Dream's with one of Dream's orders.
    """
    if settings.order == "origin":
        places = torch.arange(settings.block, device=keys.device)
        draws = rng.uniform(rng.fold_in(keys, PLACE)[:, None], places)  # (B, C)
        return partial(origin_schedule, draws=draws)
    if _counts_as_dream(denoiser, settings):
        return dream_schedule
    if _shares(denoiser, settings):
        return partial(share_schedule, block=settings.block)
    return rounded_schedule if denoiser.preset.schedule == "rounded" else even_schedule


def finish(
    denoiser: Denoiser,
    item: str,
    number: int,
    prompt: Sequence[int],
    tokens: list[int],
    probs: list[float],
    steps: list[int],
    forwards: int,
    trace: Trace | None = None,
) -> Sample:
    """Return the sample, with what follows its end token replaced by EOS."""
    tokenizer = denoiser.tokenizer
    used = tokenizer.num_response(tokens)
    canvas = (*tokens[:used], *[tokenizer.eos_id] * (len(tokens) - used))
    # A token that was thrown away has neither a probability nor a step.
    unchanged = [token == final for token, final in zip(tokens, canvas, strict=True)]
    if trace is not None:
        real = zip(trace.entropy, unchanged, strict=True)
        trace = replace(trace, entropy=tuple(value if k else 0.0 for value, k in real))
    return Sample(
        item=item,
        number=number,
        prompt=tuple(prompt),
        canvas=canvas,
        num_response=used,
        text=tokenizer.decode(canvas),
        probs=tuple(p if k else 1.0 for p, k in zip(probs, unchanged, strict=True)),
        steps=tuple(w if k else -1 for w, k in zip(steps, unchanged, strict=True)),
        forwards=forwards,
        trace=trace,
    )


def check_block(denoiser: Denoiser, settings: SamplerSettings) -> None:
    """Refuse a block that is not the model's own, where it has one."""
    if denoiser.block_size not in (None, settings.block):
        raise SettingsError(
            f"block {settings.block} is not that of {denoiser.name}, which sees blocks of "
            f"{denoiser.block_size}; set block {denoiser.block_size}."
        )
