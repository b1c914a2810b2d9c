"""Bidirectional Manifold Consistency: mask most of an answer, reconstruct it and compare.

    trips = round_trips(...)          N reconstructions of every answer
    values = {metric: one per trip}   None if a metric has no value
    score = sum of weight x mean over trips, weights renormalised over the present metrics

The metric set is explicit, so a score does not depend on installed packages. The prompt is never
masked. The EOS tail is masked too, so that the mask does not reveal the length;
`ConsistencySettings.tail` can leave it visible.

Answers and trips are flattened into one batch of rows. The masks and noise of a row are keyed by
(seed, item, sample number, trip) and do not depend on the other rows.

A block-causal model reconstructs block by block from left to right, as in generation, so each block
sees the reconstruction of earlier blocks. Its scores are not comparable with those of bidirectional
models. `RoundTrips.forwards` then includes the passes that fill the cache (`sampling.blocks`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import stdev
from typing import NamedTuple

import torch
from torch import Tensor

from remask import rng
from remask.consistency.metrics import (
    Context,
    Metric,
    check_weights,
    chosen_metrics,
    composite,
    find_metric,
    semantic_similarity,
    uniform_weights,
)
from remask.consistency.semantic import sentence_encoder
from remask.consistency.settings import ConsistencySettings, MetricSet
from remask.denoisers.base import Denoiser, starts_apart
from remask.extension import call
from remask.sampling.batches import batches, check_sample, finished_rows, spread
from remask.sampling.blocks import BlockIterator, BlockView, block_numbers, row_block
from remask.sampling.loop import Denoised, denoise
from remask.settings import Seed, checked
from remask.values import (
    NO_CONTENT,
    ROUNDTRIPS,
    Canvas,
    RoundTrips,
    Sample,
    Score,
    mean,
    skips_empty,
)

VERSION = 1  # of the score; raised if the score of an answer changes
_FALLBACK, _RATIO = -1, -2  # counters no canvas offset uses
NOTHING_MASKED = "no token of the answer was masked"


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class Consistency:
    """Bidirectional Manifold Consistency as a `Scorer`."""

    denoiser: Denoiser
    extract: Callable[[str], str | None]
    settings: ConsistencySettings = field(default_factory=ConsistencySettings)
    metric_set: MetricSet = "paper"
    task_metrics: Sequence[str | Metric] | None = None  # None: those of the metric set
    extra_metrics: Sequence[str | Metric] = ()  # measured and reported, outside the composite
    weights: Mapping[str, float] | None = None  # None: uniform
    seed: Seed = 0
    name: str = ROUNDTRIPS

    def __post_init__(self) -> None:
        """Raise for unknown metrics and weights of other metrics."""
        _ = self._measured  # raises if a metric is unknown
        if self.weights is not None:
            check_weights(self.weights, self.metrics)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics in the composite."""
        return tuple(m.name for m in chosen_metrics(self.metric_set, self.task_metrics))

    @cached_property
    def _measured(self) -> tuple[Metric, ...]:
        """The metrics of the composite, then the extra metrics."""
        weighted = chosen_metrics(self.metric_set, self.task_metrics)
        return (*weighted, *map(find_metric, self.extra_metrics))

    @property
    def encodes(self) -> bool:
        """Whether a metric needs the sentence encoder."""
        return any(metric.needs_encoder for metric in self._measured)

    def warm(self) -> None:
        """Load the sentence encoder if it is needed, so that a missing package raises early."""
        if self.encodes:
            sentence_encoder(self.denoiser.device.type)

    def price(self, num_prompt: int, length: int) -> int:
        """Return the maximum number of forward passes for an answer on a canvas of `length`.

        A block takes its steps and one pass that caches it or the prompt.
        """
        model, size = self.denoiser, self.denoiser.block_size
        passes = steps_at_once(self.settings, size or length)
        if size is not None:
            before = 0 if starts_apart(model) else num_prompt % size
            passes = -(-(before + length) // size) * (passes + 1)
        return self.settings.trips * passes * model.forwards_per_call

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        trips = round_trips(self.denoiser, samples, self.settings, seed=self.seed)
        return self.measure(trips)

    @checked
    def measure(self, trips: Sequence[RoundTrips]) -> list[Score]:
        """Return the scores of existing round trips."""
        similarities = self._similarities(trips)
        return [self._measure(t, s) for t, s in zip(trips, similarities, strict=True)]

    def _similarities(self, trips: Sequence[RoundTrips]) -> list[tuple[float, ...] | None]:
        """Return the cosine of every reconstruction with its original; texts are encoded once."""
        if not self.encodes:
            return [None] * len(trips)
        encoder = sentence_encoder(self.denoiser.device.type)
        texts = [text for t in trips for text in (t.sample.text, *t.texts)]
        vectors = encoder.encode(texts)
        return [
            tuple(semantic_similarity(vectors[t.sample.text], vectors[text]) for text in t.texts)
            for t in trips
        ]

    def _measure(self, trips: RoundTrips, similarities: tuple[float, ...] | None) -> Score:
        size = trips.sample.num_response
        reason = "" if trips.sample.has_content else NO_CONTENT
        if reason or not trips.masked[:, :size].any():
            return Score(
                value=None, reason=reason or NOTHING_MASKED, forwards=trips.forwards,
                scorer=self.name, version=VERSION,
            )  # fmt: skip
        response = trips.sample.canvas[:size]
        context = Context(
            extract=partial(call, "extract", self.extract),
            similarities=similarities,
            pieces=tuple(self.denoiser.tokenizer.pieces(response)),
        )
        by_trip = {m.name: m.of(trips, context) for m in self._measured}
        by_metric = {
            name: mean([v for v in values if v is not None])
            for name, values in by_trip.items()
            if any(v is not None for v in values)
        }
        weights = self.weights or uniform_weights(self.metrics)
        value = composite(by_metric, weights)
        return Score(
            value=value,
            reason="" if value is not None else "no metric of positive weight has a value",
            by_metric=by_metric,
            by_trip=by_trip,
            drift=tuple(None if math.isnan(d) else d for d in trips.drift.tolist()),
            stderr=self._stderr(by_trip, weights),
            forwards=trips.forwards,
            scorer=self.name,
            version=VERSION,
            weights=weights,
        )

    def _stderr(
        self, by_trip: Mapping[str, Sequence[float | None]], weights: Mapping[str, float]
    ) -> float | None:
        """Return the standard error of the composite over trips."""
        values = []
        for n in range(len(next(iter(by_trip.values())))):
            row = {m: v for m in self.metrics if (v := by_trip[m][n]) is not None}
            value = composite(row, weights)
            if value is not None:
                values.append(value)
        return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


class TripInput(NamedTuple):
    """One row of the flat batch: an answer and the number of its trip."""

    sample: Sample
    trip: int
    seed: int


class TripOutput(NamedTuple):
    """One row of the flat batch, on the CPU."""

    masked: Tensor  # (C,) bool
    rebuilt: Tensor  # (C,)
    logp: Tensor  # (C,)
    steps: Tensor  # (C,)
    confidence: float | None
    displacement: float
    forwards: int


def round_trips(
    denoiser: Denoiser, samples: Sequence[Sample], settings: ConsistencySettings, *, seed: int = 0
) -> list[RoundTrips]:
    """Return the round trips of every sample."""
    for sample in samples:
        check_sample(denoiser, sample)
    jobs = [TripInput(sample, n, seed) for sample in samples for n in range(settings.trips)]
    done: list[TripOutput | None] = [None] * len(jobs)
    lengths = [len(job.sample.prompt) + len(job.sample.canvas) for job in jobs]

    def go(replica: Denoiser, batch: list[int]) -> list[TripOutput]:
        return mask_and_rebuild(replica, [jobs[i] for i in batch], settings)

    for batch, trips in spread(denoiser, batches(lengths, denoiser), go):
        for i, trip in zip(batch, trips, strict=True):
            done[i] = trip
    trips = [trip for trip in done if trip is not None]
    size = settings.trips
    return [
        collect(denoiser, sample, trips[i * size : (i + 1) * size])
        for i, sample in enumerate(samples)
    ]


def linear_schedule(num_masked: Tensor, steps: int) -> Tensor:
    """Return reveals per step, (S, B): after step k of S, n (S - k) // S tokens stay masked."""
    k = torch.arange(steps + 1, device=num_masked.device)[:, None]
    left = num_masked * (steps - k) // steps  # (S + 1, B)
    return left[:-1] - left[1:]


def steps_at_once(settings: ConsistencySettings, block_size: int | None) -> int:
    """Return the denoising steps per row or block; at most one per position of a block."""
    return min(settings.rebuild_steps, block_size or settings.rebuild_steps)


def mask_and_rebuild(
    denoiser: Denoiser, jobs: Sequence[TripInput], settings: ConsistencySettings
) -> list[TripOutput]:
    """Mask and reconstruct one batch of rows."""
    samples = [job.sample for job in jobs]
    canvas, response = finished_rows(denoiser, samples)
    masked = _perturb(canvas, response, jobs, settings)
    if settings.tail == "visible":
        masked &= response
    blank = replace(canvas, tokens=canvas.tokens.masked_fill(masked, denoiser.tokenizer.mask_id))
    keys = _keys(jobs, "rebuild", denoiser.device)
    done = _rebuild(denoiser, blank, settings, keys, watch=response, truth=canvas.tokens)
    moved = denoiser.embed(canvas.tokens) - denoiser.embed(done.tokens)  # (B, L, E)
    squared = moved.square().sum(-1) * response
    displacement = (squared.sum(1) / response.sum(1)).sqrt()  # (B,)
    return _to_cpu(samples, masked, done, displacement)


def _rebuild(
    denoiser: Denoiser,
    canvas: Canvas,
    settings: ConsistencySettings,
    keys: Tensor,
    *,
    watch: Tensor,
    truth: Tensor,
) -> Denoised:
    """Reconstruct masked tokens: the whole row, or block by block if the model is block-causal."""
    fill = partial(
        denoise, denoiser, schedule=linear_schedule,
        steps=steps_at_once(settings, denoiser.block_size),
        temperature=settings.rebuild_temperature, skips_idle=True,
    )  # fmt: skip
    if denoiser.block_size is None:
        return fill(canvas, keys=keys, watch=watch, truth=truth)
    numbers = block_numbers(canvas, denoiser.block_size, row_block(denoiser))
    blocks = BlockIterator(denoiser, canvas, numbers)
    written = []
    for view in blocks:
        done = fill(
            view.canvas, keys=rng.fold_in(keys, view.number), within=view.within, cache=view.cache,
            watch=view.of(watch), truth=view.of(truth),
        )  # fmt: skip
        view.put(blocks.tokens, done.tokens)
        # Without its cache, so that the old cache is freed when it grows.
        written.append((replace(view, cache=None), done))
    return _joined(blocks, written)


def _joined(blocks: BlockIterator, written: Sequence[tuple[BlockView, Denoised]]) -> Denoised:
    """Merge the blocks of one reconstruction."""
    watched = torch.stack([done.watched for _, done in written])  # (blocks, B)
    seen = torch.stack([done.confidence for _, done in written]) * watched
    probs, logp = (torch.full(blocks.tokens.shape, x, device=watched.device) for x in (1.0, 0.0))
    steps = torch.full_like(blocks.tokens, -1)
    for view, done in written:
        view.put(probs, done.probs)
        view.put(steps, done.steps)
        view.put(logp, done.logp)
    return Denoised(
        tokens=blocks.tokens,
        probs=probs,
        steps=steps,
        confidence=seen.sum(0) / watched.sum(0).clamp(min=1),
        watched=watched.sum(0),
        logp=logp,
        forwards=blocks.forwards + torch.stack([done.forwards for _, done in written]).sum(0),
    )


def _perturb(
    canvas: Canvas,
    response: Tensor,
    jobs: Sequence[TripInput],
    settings: ConsistencySettings,
) -> Tensor:
    device = canvas.tokens.device
    keys = _keys(jobs, "perturb", device)
    if settings.mask_ratio == "uniform":
        ratio = uniform_ratio(keys)
    else:
        ratio = torch.full((len(jobs),), float(settings.mask_ratio), device=device)
    if settings.mask_design == "independent":
        return independent_masks(canvas, response, ratio, keys)
    shared = _keys([job._replace(trip=0) for job in jobs], "stratify", device)
    phase = torch.tensor([job.trip / settings.trips for job in jobs], device=device)
    return stratified_masks(canvas, response, ratio, keys, shared, phase)


def _keys(jobs: Sequence[TripInput], purpose: str, device: torch.device) -> Tensor:
    keys = [rng.key(seed, s.item, f"{purpose}/{s.number}", trip) for s, trip, seed in jobs]
    return torch.tensor(keys, device=device)


def _to_cpu(
    samples: Sequence[Sample], masked: Tensor, done: Denoised, displacement: Tensor
) -> list[TripOutput]:
    masked, rebuilt, logp = masked.cpu(), done.tokens.cpu(), done.logp.cpu()
    steps = done.steps.cpu()
    confidence, moved, forwards = (
        t.tolist() for t in (done.confidence, displacement, done.forwards)
    )
    out = []
    for i, sample in enumerate(samples):
        where = slice(len(sample.prompt), len(sample.prompt) + len(sample.canvas))
        any_masked = bool(masked[i, where][: sample.num_response].any())
        out.append(
            TripOutput(
                masked=masked[i, where],
                rebuilt=rebuilt[i, where],
                logp=logp[i, where],
                steps=steps[i, where],
                confidence=confidence[i] if any_masked else None,
                displacement=moved[i],
                forwards=forwards[i],
            )
        )
    return out


def collect(denoiser: Denoiser, sample: Sample, trips: Sequence[TripOutput]) -> RoundTrips:
    """Collect the trips of one answer, in order."""
    masked = torch.stack([t.masked for t in trips])  # (N, C)
    rebuilt = torch.stack([t.rebuilt for t in trips])
    changed = rebuilt != torch.tensor(sample.canvas)
    drift = (masked & changed).sum(0) / masked.sum(0)  # 0 / 0: no trip masked it
    return RoundTrips(
        sample=sample,
        masked=masked,
        rebuilt=rebuilt,
        texts=tuple(denoiser.tokenizer.decode(row) for row in rebuilt.tolist()),
        confidence=tuple(t.confidence for t in trips),
        logp=torch.stack([t.logp for t in trips]),
        steps=torch.stack([t.steps for t in trips]),
        drift=drift[: sample.num_response],
        displacement=tuple(t.displacement for t in trips),
        forwards=sum(t.forwards for t in trips),
    )


def independent_masks(canvas: Canvas, response: Tensor, ratio: Tensor, keys: Tensor) -> Tensor:
    """Return positions to mask, (B, L) bool: each with probability `ratio` (B,), the paper's way.

    Args:
        canvas: the finished rows.
        response: (B, L) bool, the tokens up to and including the first end token.
        ratio: (B,) chance of each canvas position.
        keys: (B,) one random stream per row.
    """
    draws = rng.uniform(keys[:, None], canvas.offsets)  # (B, L)
    masked = canvas.canvas & (draws < ratio[:, None])
    return _never_empty(masked, canvas.offsets, response, ratio, keys)


def stratified_masks(
    canvas: Canvas, response: Tensor, ratio: Tensor, keys: Tensor, shared: Tensor, phase: Tensor
) -> Tensor:
    """Return positions to mask, (B, L): trip n of N masks where frac(u + n / N) < ratio.

    Args:
        canvas: the finished rows.
        response: (B, L) bool, the tokens up to and including the first end token.
        ratio: (B,) chance of each canvas position.
        keys: (B,) one random stream per row.
        shared: (B,) one stream per answer, the same for all its trips: one u per position makes
            every position visible in its fair share of them.
        phase: (B,) n / N.
    """
    draws = (rng.uniform(shared[:, None], canvas.offsets) + phase[:, None]) % 1.0
    masked = canvas.canvas & (draws < ratio[:, None])
    return _never_empty(masked, canvas.offsets, response, ratio, keys)


def uniform_ratio(keys: Tensor) -> Tensor:
    """Return a uniform ratio per row, (B,), as in Definition 1."""
    return rng.uniform(keys, _RATIO)


def _never_empty(
    masked: Tensor, offsets: Tensor, response: Tensor, ratio: Tensor, keys: Tensor
) -> Tensor:
    """Mask one random response token in rows without a masked one, unless the ratio is 0."""
    ranks = rng.uniform(rng.fold_in(keys, _FALLBACK)[:, None], offsets).masked_fill(~response, 2.0)
    place = torch.arange(masked.shape[1], device=masked.device)
    chosen = place == ranks.argmin(1, keepdim=True)  # (B, L)
    empty = ~(masked & response).any(1, keepdim=True) & (ratio[:, None] > 0)
    return masked | (chosen & empty)
