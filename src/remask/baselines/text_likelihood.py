"""How probable a given text is after another, as evaluation harnesses ask: a Monte Carlo bound.

LLaDA's estimate of log p(text | context) from below (arXiv:2502.09992): draw a number l of the
text's n tokens uniformly, mask l of them, and weigh the sum of their log-probabilities by n / l.
The mean over draws is `likelihood.masked_log_likelihood` times n. A text of one token has one mask,
and one draw tells all. Whether greedy decoding writes the text is seen by letting it write as many
tokens, one a step, the surest first.

The bound is one on what a model was trained to do with text. One trained to answer has been bent
away from it, and its numbers mean little beside those of a base model.
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
    """What is known of the probability of one text."""

    logp: float  # in nats, of all of its tokens together; an estimate, and of a bound from below
    is_greedy: bool | None  # whether greedy decoding writes it; None: nobody asked
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
    """Return how probable the responses are after their prompts.

    Args:
        model: that is asked.
        samples: the context as `prompt`, and the text as the first `num_response` tokens of the
            canvas. What stands behind them is seen.
        draws: masks per text.
        seed: of the masks. Texts of one item and length get the same ones, so that the choices of a
            question are compared fairly.
        greedy: say too whether greedy decoding writes it, for as many passes as it has tokens.
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
    """Return how many masks a text gets: one token has one, and no token none."""
    return draws if sample.num_response > 1 else sample.num_response


def _estimates(model: Denoiser, samples: Sequence[Sample], draws: int, seed: int) -> list[float]:
    """Return the bound of each text; 0 of one without tokens."""
    out = [0.0] * len(samples)
    for count in {_num_draws(one, draws) for one in samples} - {0}:
        rows = [i for i, one in enumerate(samples) if _num_draws(one, draws) == count]
        means = masked_log_likelihood(model, [samples[i] for i in rows], draws=count, seed=seed)
        for i, mean in zip(rows, means, strict=True):
            out[i] = mean * samples[i].num_response
    return out


def _greedy(model: Denoiser, samples: Sequence[Sample]) -> list[tuple[bool | None, int]]:
    """Return of each text whether greedy decoding writes it, and what that cost."""
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
