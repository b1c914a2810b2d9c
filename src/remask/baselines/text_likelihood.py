"""Log-likelihood of a text given a context, for evaluation harnesses: a Monte Carlo lower bound.

LLaDA's estimate (arXiv:2502.09992) is `likelihood.masked_log_likelihood` times the number of
tokens. A text of one token has a single mask, so one draw is exact. `greedy` generates a text of
the same length, one token per step, and compares.

The bound is for models trained on text. Numbers of instruction-tuned models are not comparable
with those of base models.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from remask.baselines.likelihood import Draws, draw_forwards, masked_log_likelihood
from remask.denoisers.base import Denoiser
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.settings import Seed, checked
from remask.values import Sample

DRAWS = 128  # of LLaDA's authors


@dataclass(frozen=True, kw_only=True)
class TextLikelihood:
    """Estimated log-likelihood of one text."""

    logp: float  # in nats, sum over the tokens; estimate of a lower bound
    is_greedy: bool | None  # whether greedy decoding generates it; None: not computed
    forwards: int


@checked
def log_likelihood(
    model: Denoiser,
    samples: Sequence[Sample],
    *,
    draws: Draws = DRAWS,
    seed: Seed = 0,
    greedy: bool = False,
) -> list[TextLikelihood]:
    """Return the log-likelihood of the responses given their prompts.

    Args:
        model: a masked diffusion model.
        samples: the context as `prompt`, and the text as the first `num_response` tokens of the
            canvas. Later tokens stay visible.
        draws: masks per text.
        seed: of the masks. Texts with the same item and length get the same masks, so that the
            choices of a question are compared fairly.
        greedy: also check greedy decoding, for one forward pass per token.
    """
    logp = _estimates(model, samples, draws, seed)
    written = _greedy(model, samples) if greedy else [(None, 0) for _ in samples]
    return [
        TextLikelihood(
            logp=value,
            is_greedy=same,
            forwards=draw_forwards(model, _num_draws(one, draws)) + spent,
        )
        for one, value, (same, spent) in zip(samples, logp, written, strict=True)
    ]


def _num_draws(sample: Sample, draws: int) -> int:
    """Return the number of draws: a text of one token needs one, an empty text none."""
    return draws if sample.num_response > 1 else sample.num_response


def _estimates(model: Denoiser, samples: Sequence[Sample], draws: int, seed: int) -> list[float]:
    """Return the bound of each text; 0 for an empty text."""
    out = [0.0] * len(samples)
    for count in {_num_draws(one, draws) for one in samples} - {0}:
        rows = [i for i, one in enumerate(samples) if _num_draws(one, draws) == count]
        means = masked_log_likelihood(model, [samples[i] for i in rows], draws=count, seed=seed)
        for i, mean in zip(rows, means, strict=True):
            out[i] = mean * samples[i].num_response
    return out


def _greedy(model: Denoiser, samples: Sequence[Sample]) -> list[tuple[bool | None, int]]:
    """Return whether greedy decoding generates each text, and the forward passes."""
    out: list[tuple[bool | None, int]] = [(True, 0)] * len(samples)
    for size in {one.num_response for one in samples} - {0}:
        rows = [i for i, one in enumerate(samples) if one.num_response == size]
        block = model.block_size or size
        length = -(-size // block) * block
        how = SamplerSettings(length=length, steps=length, block=block)
        prompts, items = [samples[i].prompt for i in rows], [samples[i].item for i in rows]
        for i, one in zip(rows, sample(model, prompts, how, items=items), strict=True):
            out[i] = one.canvas[:size] == samples[i].canvas[:size], one.forwards
    return out
