"""The round trip: mask a finished answer again, let the model rebuild it, N times over.

Answers and trips are flattened into one batch of rows; a row's masks and noise are keyed by
(seed, item, sample number, trip), so its outcome does not depend on the rows beside it.

A block-causal model is rebuilt block by block, from left to right, as it writes: what it sees on
the left is what was rebuilt there. Its scores do not compare with those of models that see both
ways. `RoundTrips.forwards` then counts, beside the steps, the passes that keep what was rebuilt as
the cache of what follows (see `sampling.blocks`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from remask import rng
from remask.consistency import perturb
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.sampling.batches import batches, check_length, spread, whole_canvas
from remask.sampling.blocks import BlockIterator, BlockView, block_numbers, row_block
from remask.sampling.loop import Denoised, denoise
from remask.sampling.reveal import linear_schedule
from remask.values import Canvas, RoundTrips, Sample


class TripInput(NamedTuple):
    """One row of the flattened batch, before it travels."""

    sample: Sample
    trip: int
    seed: int


class TripOutput(NamedTuple):
    """One row of the flattened batch, brought back to the CPU."""

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
    """Return every sample's round trips."""
    for sample in samples:
        check_length(denoiser, len(sample.prompt), len(whole_canvas(denoiser, sample)))
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


def mask_and_rebuild(
    denoiser: Denoiser, jobs: Sequence[TripInput], settings: ConsistencySettings
) -> list[TripOutput]:
    """Mask and rebuild one batch of rows."""
    samples = [job.sample for job in jobs]
    canvas = Canvas.of(
        [s.prompt for s in samples],
        [whole_canvas(denoiser, s) for s in samples],
        denoiser.tokenizer.pad_id,
        denoiser.device,
    )
    ends = torch.tensor([s.num_response for s in samples], device=denoiser.device)
    response = canvas.canvas & (canvas.offsets < ends[:, None])  # (B, L)
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
    """Fill what is masked: all at once, or block by block where the model sees no further."""
    fill = partial(
        denoise, denoiser, schedule=linear_schedule,
        steps=settings.steps_at_once(denoiser.block_size), temperature=settings.rebuild_temperature,
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
        # Without its cache: when that grows, the old one must go.
        written.append((replace(view, cache=None), done))
    return _joined(blocks, written)


def _joined(blocks: BlockIterator, written: Sequence[tuple[BlockView, Denoised]]) -> Denoised:
    """Return the blocks of one rebuild as one; a position belongs to one of them."""
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
        ratio = perturb.uniform_ratio(keys)
    else:
        ratio = torch.full((len(jobs),), float(settings.mask_ratio), device=device)
    if settings.mask_design == "independent":
        return perturb.independent(canvas, response, ratio, keys)
    shared = _keys([job._replace(trip=0) for job in jobs], "stratify", device)
    phase = torch.tensor([job.trip / settings.trips for job in jobs], device=device)
    return perturb.stratified(canvas, response, ratio, keys, shared, phase)


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
    """Return the trips of one answer, in their order, as one value."""
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
