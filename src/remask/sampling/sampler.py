"""From a masked canvas to text: the one denoising loop, and how LLaDA and Dream use it.

LLaDA writes blocks left to right; inside a block each step predicts every masked position and
keeps the most confident predictions for good (arXiv:2502.09992). Dream writes the canvas as one
block, with orders and a schedule of its own (see `reveal`). Departures from their published
loops: the mask token is never predicted, probabilities are float32, those that are reported are
untempered and unfiltered, rows whose finished blocks hold an end token leave the batch, and noise
is keyed by row (see `rng`), so at a temperature above 0 tokens are distributed as theirs, and at 0
they are theirs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor

from remask import rng
from remask.denoisers.base import Denoiser, Preset
from remask.errors import DenoiserError, InputError, SettingsError
from remask.sampling.reveal import (
    BLIND_ORDERS,
    DREAM_ORDERS,
    Order,
    Rule,
    certainty,
    dream_counts,
    even_counts,
    filtered,
    num_due,
    origin_counts,
    pick,
)
from remask.values import Canvas, Sample

Counts = Callable[[Tensor, int], Tensor]  # a schedule: (masked (B,), steps) -> reveals (S, B)
# Counters of draws that belong to a place or a row, below those of the vocabulary's tokens.
_PLACE, _ORDER = -2, -3
_CONFIDENT = Rule()  # the most confident first
_HEAD_ELEMENTS = 2**29  # logits held at once: 2 GB of float32


@dataclass(frozen=True, kw_only=True)
class SamplerSettings(Rule):
    """How to write an answer."""

    length: int
    steps: int  # forward passes; with a reveal_threshold the most there may be
    block: int
    temperature: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        super().__post_init__()
        if self.length < 1 or self.block < 1 or self.length % self.block:
            raise SettingsError(
                f"length {self.length} is no multiple of block {self.block}; adjust one."
            )
        blocks = self.length // self.block
        if self.steps < blocks or self.steps % blocks:
            raise SettingsError(
                f"steps {self.steps} is no multiple of the {blocks} blocks; give each the same."
            )
        if not 0 <= self.temperature < float("inf"):
            raise SettingsError(f"temperature {self.temperature} is not a number from 0 up.")

    @staticmethod
    def of(preset: Preset) -> "SamplerSettings":
        """Return the settings a model's preset asks for."""
        return SamplerSettings(
            length=preset.length,
            steps=preset.steps,
            block=preset.block,
            temperature=preset.temperature,
            order=cast(Order, preset.order),  # checked above, like every name from a file
            order_temperature=preset.order_temperature,
            ends_last=preset.ends_last,
            reveal_threshold=preset.reveal_threshold,
            top_p=preset.top_p,
            top_k=preset.top_k,
        )


class Denoised(NamedTuple):
    """What the loop leaves behind, on the model's device."""

    tokens: Tensor  # (B, L)
    probs: Tensor  # (B, L) of each token when it was revealed; 1 where it was given
    steps: Tensor  # (B, L) the step that revealed it, -1 where it was given
    confidence: Tensor  # (B,) mean over steps of the mean highest probability at watched positions
    watched: Tensor  # (B,) steps that had such positions
    logp: Tensor  # (B, L) log p of `truth` at the first step, 0 where not masked
    forwards: Tensor  # (B,) forward passes each row needed


class _Prediction(NamedTuple):
    tokens: Tensor  # (M,)
    logp: Tensor  # (M,) of those tokens, untempered
    top: Tensor  # (M,) the highest log-probability
    truth: Tensor  # (M,) log-probability of the tokens asked about
    sure: Tensor  # (M,) the confidence that ranks them


def denoise(
    denoiser: Denoiser,
    canvas: Canvas,
    counts: Counts,
    steps: int,
    *,
    within: Tensor | None = None,
    temperature: float = 0.0,
    rule: Rule = _CONFIDENT,
    keys: Tensor | None = None,
    watch: Tensor | None = None,
    truth: Tensor | None = None,
) -> Denoised:
    """Reveal every masked token of `canvas` (or of its positions `within`) in `steps` steps.

    Args:
        denoiser: predicts.
        canvas: rows; their masked positions are those that hold the mask token.
        counts: schedule, (masked per row (B,), steps) -> reveals (S, B).
        steps: forward passes; a rule with a threshold may do with fewer.
        within: (B, L) bool, the block being written; everything masked by default.
        temperature: Gumbel noise on the logits; 0 is greedy.
        rule: which tokens may be drawn, and which places go first; the most confident by default.
        keys: (B,) random streams; needed by temperature > 0 and by rules that draw places.
        watch: (B, L) bool, positions whose highest probability is averaged; the canvas by default.
        truth: (B, L) tokens whose log-probability at the first step is wanted.
    """
    if keys is None and (temperature > 0 or rule.draws):
        raise SettingsError("temperature and drawn places need keys: one stream per row.")
    tokens = canvas.tokens
    masked = tokens == denoiser.tokenizer.mask_id
    masked = masked if within is None else masked & within
    trace = _Trace(tokens, canvas.canvas if watch is None else watch)
    truth = tokens if truth is None else truth
    reveals = counts(masked.sum(1), steps)  # (S, B)
    left = masked.sum(1) - reveals.cumsum(0)  # (S, B) that may stay masked after each step
    totals = None if rule.reveal_threshold is not None else _totals(masked, reveals)
    for step in range(steps):
        # What a threshold leaves is known only now: the price of stopping early is a host read.
        num_places = int(masked.sum()) if totals is None else totals[step]
        if num_places == 0:
            break
        # A stable sort lists the masked places first; unlike nonzero() it needs no host read.
        places = (~masked).flatten().byte().argsort(stable=True)[:num_places]  # (M,)
        # Streams of this step, one per position of each row's own canvas: blind to the batch.
        streams = None if keys is None else rng.mix(rng.mix(keys, step)[:, None], canvas.offsets)
        noise = None
        if streams is not None and temperature > 0:
            noise = (temperature, streams.flatten()[places])
        rows = denoiser.hidden(replace(canvas, tokens=tokens)).flatten(0, 1)[places]  # (M, H)
        found = _predict(denoiser, rows, truth.flatten()[places], rule, noise)
        prob = _scatter(found.logp.exp(), places, masked.shape, -1.0)
        rank = _ranked(_scatter(found.sure, places, masked.shape, -1.0), rule, streams)
        revealed = pick(rank, masked, num_due(rank, masked, left[step], rule.reveal_threshold))
        trace.note(step, found, places, masked, revealed, prob)
        tokens = torch.where(revealed, _scatter(found.tokens, places, masked.shape, 0), tokens)
        masked = masked & ~revealed
    if trace.broken:
        raise DenoiserError(f"{denoiser.name} gave NaN logits; load it with dtype float32.")
    return trace.finish(tokens, denoiser.forwards_per_call)


def _ranked(sure: Tensor, rule: Rule, streams: Tensor | None) -> Tensor:
    """Return what positions are ranked by, (B, L), with the draws of a rule that has some.

    The highest of confidence / temperature + Gumbel noise are positions drawn one after another
    without replacement from softmax(confidence / temperature), as Dream's multinomial draws them.
    """
    if streams is not None and rule.order in BLIND_ORDERS:
        return rng.uniform(streams, _PLACE)
    if streams is not None and rule.order_temperature > 0:
        return sure / rule.order_temperature + rng.gumbel(streams, _ORDER)
    return sure


def _totals(masked: Tensor, reveals: Tensor) -> list[int]:
    """Return the batch's masked tokens before each step: the one host read of the loop."""
    before = masked.sum() - reveals.sum(1).cumsum(0) + reveals.sum(1)
    return [int(total) for total in before.tolist()]


class _Trace:
    """What is written down on the way, all of it on the device."""

    def __init__(self, tokens: Tensor, watch: Tensor) -> None:
        device = tokens.device
        self.watch = watch
        self.probs = torch.ones(tokens.shape, device=device)
        self.steps = torch.full_like(tokens, -1)
        self.logp = torch.zeros(tokens.shape, device=device)
        self.watched, self.seen, self.busy = torch.zeros(3, len(tokens), device=device)
        self.broken = torch.zeros((), dtype=torch.bool, device=device)

    def note(
        self,
        step: int,
        found: _Prediction,
        places: Tensor,
        masked: Tensor,
        revealed: Tensor,
        prob: Tensor,
    ) -> None:
        """Take down one step; `masked` as it was before it."""
        looking = masked & self.watch
        num_looking = looking.sum(1)
        top = _scatter(found.top.exp(), places, masked.shape, 0.0)
        self.watched += (top * looking).sum(1) / num_looking.clamp(min=1)
        self.seen += num_looking > 0
        self.busy += masked.any(1)
        self.broken |= found.logp.isnan().any()
        if step == 0:
            self.logp = _scatter(found.truth, places, masked.shape, 0.0)
        self.probs = torch.where(revealed, prob, self.probs)
        self.steps = torch.where(revealed, step, self.steps)

    def finish(self, tokens: Tensor, forwards_per_call: int) -> Denoised:
        """Return the outcome."""
        return Denoised(
            tokens=tokens,
            probs=self.probs,
            steps=self.steps,
            confidence=self.watched / self.seen.clamp(min=1),
            watched=self.seen,
            logp=self.logp,
            forwards=self.busy.long() * forwards_per_call,
        )


def _predict(
    denoiser: Denoiser, rows: Tensor, truth: Tensor, rule: Rule, noise: tuple[float, Tensor] | None
) -> _Prediction:
    """Return the prediction at gathered rows (M, H), projecting a bounded number at a time."""
    # Noise is float64 and needs several tensors of that size at once, a closer look some more.
    plain = noise is None and not rule.looks and not rule.filters
    size = max(1, _HEAD_ELEMENTS // denoiser.vocab_size // (1 if plain else 8))
    parts = []
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        logits = denoiser.head(rows[part])  # (m, V)
        logits[:, denoiser.tokenizer.mask_id] = -torch.inf
        best, tokens = logits.max(1)
        sure = None
        if not plain:
            here = None if noise is None else (noise[0], noise[1][part])
            tokens, sure = _choose(logits, tokens, rule, here, denoiser.tokenizer.eos_ids)
        chosen = logits.gather(1, tokens[:, None])[:, 0]
        known = logits.gather(1, truth[part, None])[:, 0]
        # In place: a second tensor of this size would double the peak memory.
        total = logits.sub_(best[:, None]).exp_().sum(1).log_().add_(best)  # (m,)
        logp = chosen - total
        sure = logp.exp() if sure is None else sure
        parts.append(_Prediction(tokens, logp, best - total, known - total, sure))
    return _Prediction(*(torch.cat(field) for field in zip(*parts, strict=True)))


def _choose(
    logits: Tensor,
    tokens: Tensor,
    rule: Rule,
    noise: tuple[float, Tensor] | None,
    ends: Sequence[int],
) -> tuple[Tensor, Tensor | None]:
    """Return a token per row of `logits`, (m,), and the confidence where the rule looks closer."""
    temperature, streams = (1.0, None) if noise is None else noise
    odds = logits
    if rule.filters:
        kept = filtered(logits / temperature, rule.top_p, rule.top_k)
        odds = logits.masked_fill(~kept, -torch.inf)
    if streams is not None:
        draws = rng.gumbel(streams[:, None], torch.arange(logits.shape[1], device=logits.device))
        tokens = (odds.double() + temperature * draws).argmax(1)
    if not rule.looks:
        return tokens, None
    seen = odds / temperature if rule.order in DREAM_ORDERS else logits
    return tokens, certainty(rule.order, seen, tokens, ends if rule.ends_last else ())


def _scatter(values: Tensor, places: Tensor, shape: torch.Size, rest: float) -> Tensor:
    """Return a tensor of `shape` with `values` at flat `places` and `rest` elsewhere."""
    out = torch.full((shape.numel(),), rest, dtype=values.dtype, device=values.device)
    return out.scatter_(0, places, values).view(shape)


def sample(
    denoiser: Denoiser,
    prompts: Sequence[Sequence[int]],
    settings: SamplerSettings,
    *,
    items: Sequence[str],
    number: int = 0,
    seed: int = 0,
) -> list[Sample]:
    """Return one answer per prompt (token ids); `number` says which sample of each item's pool."""
    for prompt in prompts:
        check_length(denoiser, len(prompt), settings.length)
    if denoiser.block_size not in (None, settings.block):
        raise SettingsError(
            f"block {settings.block} is not that of {denoiser.name}, which sees blocks of "
            f"{denoiser.block_size}; set block {denoiser.block_size}."
        )
    out: list[Sample | None] = [None] * len(prompts)
    for batch in batches([len(p) + settings.length for p in prompts], denoiser.device):
        answers = _write(
            denoiser,
            [prompts[i] for i in batch],
            settings,
            rng.keys(seed, [items[i] for i in batch], "sample", number, denoiser.device),
        )
        for i, (tokens, probs, steps, forwards) in zip(batch, answers, strict=True):
            out[i] = _finish(denoiser, items[i], number, prompts[i], tokens, probs, steps, forwards)
    return [answer for answer in out if answer is not None]


def _write(
    denoiser: Denoiser, prompts: Sequence[Sequence[int]], settings: SamplerSettings, keys: Tensor
) -> list[tuple[list[int], list[float], list[int], int]]:
    """Write one batch block by block; rows that have ended leave it."""
    s, tokenizer = settings, denoiser.tokenizer
    blank = [[tokenizer.mask_id] * s.length for _ in prompts]
    canvas = Canvas.of(prompts, blank, tokenizer.pad_id, denoiser.device)
    probs = torch.ones(canvas.tokens.shape, device=denoiser.device)
    when = torch.full_like(canvas.tokens, -1)
    per_block = s.steps // (s.length // s.block)
    forwards = torch.zeros(len(prompts), dtype=torch.long, device=denoiser.device)
    alive = torch.arange(len(prompts), device=denoiser.device)
    ends = torch.tensor(tokenizer.eos_ids, device=denoiser.device)
    numbers = block_numbers(canvas, s.block, denoiser.block_size)
    for block in range(int(numbers.max()) + 1):
        rows = _rows(canvas, alive)
        here = numbers[alive] == block  # (b, L)
        streams = rng.mix(keys[alive], block)
        done = denoise(
            denoiser,
            rows,
            _schedule(s, streams),
            per_block,
            within=here,
            rule=s,
            temperature=s.temperature,
            keys=streams,
        )
        canvas.tokens[alive] = done.tokens
        probs[alive] = torch.where(here, done.probs, probs[alive])
        when[alive] = torch.where(here, done.steps + block * per_block, when[alive])
        forwards[alive] += done.forwards
        ended = (torch.isin(done.tokens, ends) & here).any(1)
        alive = alive[~ended]
        if len(alive) == 0:
            break
    tokens = canvas.tokens.masked_fill(canvas.tokens == tokenizer.mask_id, tokenizer.eos_id)
    columns = [(len(p), len(p) + s.length) for p in prompts]
    listed = zip(tokens.tolist(), probs.tolist(), when.tolist(), forwards.tolist(), strict=True)
    return [
        (t[a:b], p[a:b], w[a:b], f) for (a, b), (t, p, w, f) in zip(columns, listed, strict=True)
    ]


def block_numbers(canvas: Canvas, block: int, block_size: int | None) -> Tensor:
    """Return the block that every canvas position is written in, (B, L); -1 elsewhere.

    Blocks begin with the canvas. Those of a model that has its own begin with the row, so that the
    first and the last of a canvas may be incomplete.
    """
    offsets = canvas.offsets
    if block_size is None:
        numbers = offsets // block
    else:
        start = -offsets[:, :1]  # (B, 1) tokens of the prompt
        numbers = (offsets + start) // block_size - start // block_size
    return numbers.where(canvas.canvas, -1)


def _schedule(settings: SamplerSettings, keys: Tensor) -> Counts:
    """Return how many tokens of a block each step reveals, as the authors of the order count."""
    if settings.order == "origin":
        places = torch.arange(settings.block, device=keys.device)
        draws = rng.uniform(rng.mix(keys, _PLACE)[:, None], places)  # (B, C)
        return partial(origin_counts, draws=draws)
    return dream_counts if settings.order in DREAM_ORDERS else even_counts


def _rows(canvas: Canvas, rows: Tensor) -> Canvas:
    attend = None if canvas.attend is None else canvas.attend[rows]
    return Canvas(tokens=canvas.tokens[rows], canvas=canvas.canvas[rows], attend=attend)


def _finish(
    denoiser: Denoiser,
    item: str,
    number: int,
    prompt: Sequence[int],
    tokens: list[int],
    probs: list[float],
    steps: list[int],
    forwards: int,
) -> Sample:
    """Return the sample, with what follows its end token replaced by EOS."""
    tokenizer = denoiser.tokenizer
    used = tokenizer.num_response(tokens)
    canvas = (*tokens[:used], *[tokenizer.eos_id] * (len(tokens) - used))
    # A token that was thrown away has neither a probability nor a step.
    kept = [token == final for token, final in zip(tokens, canvas, strict=True)]
    return Sample(
        item=item,
        number=number,
        prompt=tuple(prompt),
        canvas=canvas,
        num_response=used,
        text=tokenizer.decode(canvas),
        probs=tuple(p if k else 1.0 for p, k in zip(probs, kept, strict=True)),
        steps=tuple(w if k else -1 for w, k in zip(steps, kept, strict=True)),
        forwards=forwards,
    )


def check_length(denoiser: Denoiser, num_prompt: int, num_canvas: int) -> None:
    """Refuse a row that is longer than the model's context."""
    if num_prompt + num_canvas > denoiser.max_length:
        raise InputError(
            f"the prompt has {num_prompt} tokens and the canvas {num_canvas}, more than the "
            f"{denoiser.max_length} that {denoiser.name} can hold; shorten one of them."
        )


def batches(lengths: Sequence[int], device: torch.device) -> Iterator[list[int]]:
    """Yield indices of rows, longest first, so that a padded batch stays within a token budget.

    A CPU gains nothing from large batches; a GPU needs enough tokens to be busy.
    """
    budget = 2_048 if device.type == "cpu" else 65_536
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
