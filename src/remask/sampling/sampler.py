"""From a masked canvas to text: the one denoising loop, and LLaDA's way of using it.

LLaDA writes blocks left to right; inside a block each step predicts every masked position and
keeps the most confident predictions for good (arXiv:2502.09992). Departures from its published
loop: the mask token is never predicted, probabilities come from untempered float32 logits, rows
whose finished blocks hold an end token leave the batch, and noise is keyed by row (see `rng`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from remask import rng
from remask.denoisers.base import Denoiser, Preset
from remask.errors import DenoiserError, InputError, SettingsError
from remask.sampling.reveal import even_counts, pick
from remask.values import Canvas, Sample

Order = Literal["low_confidence", "random"]
_HEAD_ELEMENTS = 2**29  # logits held at once: 2 GB of float32


@dataclass(frozen=True, kw_only=True)
class SamplerSettings:
    """How to write an answer."""

    length: int
    steps: int
    block: int
    temperature: float = 0.0
    order: Order = "low_confidence"

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.length < 1 or self.length % self.block:
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
        if self.order not in ("low_confidence", "random"):
            raise SettingsError(f"order {self.order!r} is unknown; use low_confidence or random.")

    @staticmethod
    def of(preset: Preset) -> "SamplerSettings":
        """Return the settings a model's preset asks for."""
        return SamplerSettings(
            length=preset.length,
            steps=preset.steps,
            block=preset.block,
            temperature=preset.temperature,
        )


class Denoised(NamedTuple):
    """What the loop leaves behind, on the model's device."""

    tokens: Tensor  # (B, L)
    probs: Tensor  # (B, L) of each token when it was revealed; 1 where it was given
    steps: Tensor  # (B, L) the step that revealed it, -1 where it was given
    confidence: Tensor  # (B,) mean over steps of the mean highest probability at watched positions
    logp: Tensor  # (B, L) log p of `truth` at the first step, 0 where not masked


class _Prediction(NamedTuple):
    tokens: Tensor  # (M,)
    logp: Tensor  # (M,) of those tokens, untempered
    top: Tensor  # (M,) the highest log-probability
    truth: Tensor  # (M,) log-probability of the tokens asked about


def denoise(
    denoiser: Denoiser,
    canvas: Canvas,
    counts: Callable[[Tensor, int], Tensor],
    steps: int,
    *,
    within: Tensor | None = None,
    temperature: float = 0.0,
    order: Order = "low_confidence",
    keys: Tensor | None = None,
    watch: Tensor | None = None,
    truth: Tensor | None = None,
) -> Denoised:
    """Reveal every masked token of `canvas` (or of its positions `within`) in `steps` steps.

    Args:
        denoiser: predicts.
        canvas: rows; their masked positions are those that hold the mask token.
        counts: schedule, (masked per row (B,), steps) -> reveals (S, B).
        steps: forward passes.
        within: (B, L) bool, the block being written; everything masked by default.
        temperature: Gumbel noise on the logits; 0 is greedy.
        order: reveal the most confident first, or at random.
        keys: (B,) random streams; needed by temperature > 0 and by the random order.
        watch: (B, L) bool, positions whose highest probability is averaged; the canvas by default.
        truth: (B, L) tokens whose log-probability at the first step is wanted.
    """
    tokens, mask_id = canvas.tokens, denoiser.tokenizer.mask_id
    watch = canvas.canvas if watch is None else watch
    truth = tokens if truth is None else truth
    masked = tokens == mask_id if within is None else (tokens == mask_id) & within
    reveals = counts(masked.sum(1), steps)  # (S, B)
    totals = [int(masked.sum())]  # masked tokens of the batch before each step; one host read
    totals += [totals[0] - t for t in reveals.sum(1).cumsum(0).tolist()]
    offsets = canvas.offsets
    probs = torch.ones(tokens.shape, device=tokens.device)
    when = torch.full_like(tokens, -1)
    first = torch.zeros(tokens.shape, device=tokens.device)
    watched, seen = torch.zeros(2, len(tokens), device=tokens.device)
    broken = torch.zeros((), dtype=torch.bool, device=tokens.device)
    for step in range(steps):
        if totals[step] == 0:
            break
        # A stable sort lists the masked places first; unlike nonzero() it needs no host read.
        places = (~masked).flatten().byte().argsort(stable=True)[: totals[step]]  # (M,)
        noise = None
        if temperature > 0 and keys is not None:
            streams = rng.mix(rng.mix(keys, step)[:, None], offsets).flatten()[places]  # (M,)
            noise = (temperature, streams)
        hidden = denoiser.hidden(replace(canvas, tokens=tokens))
        found = _predict(denoiser, hidden.flatten(0, 1)[places], truth.flatten()[places], noise)
        broken |= found.logp.isnan().any()
        top = _scatter(found.top.exp(), places, masked.shape, 0.0)
        looking = masked & watch
        num_looking = looking.sum(1)
        watched += (top * looking).sum(1) / num_looking.clamp(min=1)
        seen += num_looking > 0
        if step == 0:
            first = _scatter(found.truth, places, masked.shape, 0.0)
        prob = _scatter(found.logp.exp(), places, masked.shape, -1.0)
        rank = prob if order == "low_confidence" else _random_rank(keys, step, offsets)
        revealed = pick(rank, masked, reveals[step])  # (B, L)
        tokens = torch.where(revealed, _scatter(found.tokens, places, masked.shape, 0), tokens)
        probs = torch.where(revealed, prob, probs)
        when = torch.where(revealed, step, when)
        masked = masked & ~revealed
    if broken:
        raise DenoiserError(f"{denoiser.name} gave NaN logits; load it with dtype float32.")
    return Denoised(tokens, probs, when, watched / seen.clamp(min=1), first)


def _predict(
    denoiser: Denoiser, rows: Tensor, truth: Tensor, noise: tuple[float, Tensor] | None
) -> _Prediction:
    """Return the prediction at gathered rows (M, H), projecting a bounded number at a time."""
    mask_id = denoiser.tokenizer.mask_id
    width = denoiser.vocab_size
    parts = []
    for start in range(0, len(rows), max(1, _HEAD_ELEMENTS // width)):
        part = slice(start, start + max(1, _HEAD_ELEMENTS // width))
        logits = denoiser.head(rows[part])  # (m, V)
        logits[:, mask_id] = -torch.inf
        total = logits.logsumexp(1)  # (m,)
        best, tokens = logits.max(1)
        if noise is not None:
            temperature, streams = noise
            vocabulary = torch.arange(width, device=rows.device)
            draws = rng.gumbel(streams[part, None], vocabulary)  # (m, V) float64
            tokens = (logits.double() + temperature * draws).argmax(1)
        logp = logits.gather(1, tokens[:, None])[:, 0] - total
        known = logits.gather(1, truth[part, None])[:, 0] - total
        parts.append(_Prediction(tokens, logp, best - total, known))
    return _Prediction(*(torch.cat(field) for field in zip(*parts, strict=True)))


def _scatter(values: Tensor, places: Tensor, shape: torch.Size, rest: float) -> Tensor:
    """Return a tensor of `shape` with `values` at flat `places` and `rest` elsewhere."""
    out = torch.full((shape.numel(),), rest, dtype=values.dtype, device=values.device)
    return out.scatter_(0, places, values).view(shape)


def _random_rank(keys: Tensor | None, step: int, offsets: Tensor) -> Tensor:
    if keys is None:
        raise SettingsError("order 'random' needs keys; pass one random stream per row.")
    return rng.uniform(rng.mix(rng.mix(keys, -2), step)[:, None], offsets)


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
    forwards = torch.zeros(len(prompts), dtype=torch.long)
    alive = torch.arange(len(prompts), device=denoiser.device)
    ends = torch.tensor(tokenizer.eos_ids, device=denoiser.device)
    for block in range(s.length // s.block):
        rows = _rows(canvas, alive)
        here = rows.canvas & (rows.offsets // s.block == block)  # (b, L)
        done = denoise(
            denoiser,
            rows,
            even_counts,
            per_block,
            within=here,
            order=s.order,
            temperature=s.temperature,
            keys=rng.mix(keys[alive], block),
        )
        canvas.tokens[alive] = done.tokens
        probs[alive] = torch.where(here, done.probs, probs[alive])
        when[alive] = torch.where(here, done.steps + block * per_block, when[alive])
        forwards[alive.cpu()] += per_block * denoiser.forwards_per_call
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
    return Sample(
        item=item,
        number=number,
        prompt=tuple(prompt),
        canvas=canvas,
        num_response=used,
        text=tokenizer.decode(canvas),
        probs=tuple(probs),
        steps=tuple(steps),
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
