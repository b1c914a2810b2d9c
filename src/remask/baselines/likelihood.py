"""Perplexity of a finished answer by random masks.

LLaDA's estimate of log p(answer | prompt) (arXiv:2502.09992): draw l in 1..n uniformly, mask l of
the n tokens, and weight the sum of their log-probabilities by n / l. Divided by n, a draw is the
mean log p of the masked tokens, and the mean over draws is minus the log of the perplexity. The
authors use 128 draws; the default here is 16, one forward pass each.

The response is masked, including its end token; the EOS tail stays visible. A block-causal model
reads a noisy row and its clean copy in one pass, which counts as two (`sampling.likelihood`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from remask import rng
from remask.denoisers.base import Denoiser
from remask.sampling.batches import check_sample, finished_rows, spread, whole_canvas, whole_rows
from remask.sampling.likelihood import log_likelihood
from remask.settings import Seed, Setting, checked
from remask.values import Canvas, Sample, Score, skips_empty

DRAWS = 16
Draws = Annotated[int, Setting("Masks per answer.", least=1, most=100_000)]
_NUMBER = -1  # a counter that no canvas offset uses


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class Perplexity:
    """Mean log-probability of the response under random masks, minus log perplexity."""

    denoiser: Denoiser
    draws: Draws = DRAWS
    seed: Seed = 0
    name: str = "perplexity"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        means = masked_log_likelihood(self.denoiser, samples, draws=self.draws, seed=self.seed)
        forwards = draw_forwards(self.denoiser, self.draws)
        return [Score(value=mean, forwards=forwards, scorer=self.name) for mean in means]


def draw_forwards(denoiser: Denoiser, draws: int) -> int:
    """Return the forward passes of this number of draws."""
    return draws * denoiser.forwards_per_call * (1 if denoiser.block_size is None else 2)


class MaskDraw(NamedTuple):
    """One row of the flat batch: an answer and the number of its mask."""

    sample: Sample
    number: int
    seed: int


def masked_log_likelihood(
    denoiser: Denoiser, samples: Sequence[Sample], *, draws: int = DRAWS, seed: int = 0
) -> list[float]:
    """Return the mean log-probability of each response's tokens over random masks."""
    lengths = []
    for sample in samples:
        check_sample(denoiser, sample)
        num_canvas = len(whole_canvas(denoiser, sample))
        # A block-causal model reads the noisy row beside the clean one.
        rows = 1 if denoiser.block_size is None else 2
        lengths += [rows * (len(sample.prompt) + num_canvas)] * draws
    jobs = [MaskDraw(sample, number, seed) for sample in samples for number in range(draws)]
    means = [0.0] * len(jobs)

    def read(replica: Denoiser, batch: list[int]) -> list[float]:
        return _read(replica, [jobs[i] for i in batch])

    for batch, values in spread(denoiser, whole_rows(lengths, denoiser.device), read):
        for i, value in zip(batch, values, strict=True):
            means[i] = value
    return [fmean(means[start : start + draws]) for start in range(0, len(jobs), draws)]


def _read(denoiser: Denoiser, jobs: Sequence[MaskDraw]) -> list[float]:
    """Return the mean log-probability of the masked tokens of each row."""
    canvas, response = finished_rows(denoiser, [job.sample for job in jobs])
    keys = [rng.key(seed, s.item, f"perplexity/{s.number}", number) for s, number, seed in jobs]
    masked = random_masks(canvas, response, torch.tensor(keys, device=denoiser.device))
    logp = log_likelihood(denoiser, canvas, masked).cpu().double()  # (B, L)
    means: list[float] = (logp.sum(1) / masked.sum(1).cpu()).tolist()
    return means


def random_masks(canvas: Canvas, response: Tensor, keys: Tensor) -> Tensor:
    """Return masks, (B, L), of l response tokens per row, l uniform in 1..n."""
    sizes = (rng.uniform(keys, _NUMBER) * response.sum(1)).long() + 1  # (B,)
    draws = rng.uniform(keys[:, None], canvas.offsets).masked_fill(~response, torch.inf)  # (B, L)
    ranks = draws.argsort(1).argsort(1)
    return response & (ranks < sizes[:, None])
