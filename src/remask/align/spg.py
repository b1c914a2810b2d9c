"""The Sandwiched Policy Gradient (arXiv:2510.09541): a lower bound where a completion is to become
more probable, an upper one where it is to become less.

    loss = - sum_j A_j l_j n_j / sum_j n_j,   l_j = elbo_j where A_j > 0, else the negative branch

with A_j the reward minus its group's mean and n_j the tokens of response j. The negative branch is
by default the mixture of both bounds. There is no importance ratio, no clipping, no reference
model. What is reproduced is the public code, whose loss is a token-weighted mean.

All copies at once, `spg_loss(...).backward()` keeps M forward passes in memory. One at a time:

    weights = spg_weights(logp, ...)             # logp of all copies, computed without gradient
    for m in range(M):
        (weights[m] * log_probs(m)).sum().backward()

leaves the same gradient, because `weights` are the derivatives of the loss by each log-probability.
Only the rows of `needs_preview` must have been looked at before; zeros do for the others. Rows of
advantage 0 have weights 0 and may be left out altogether.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from remask.align.bounds import Bounds, bounds, elbo_weights, eubo_weights, mixture
from remask.align.method_settings import SpgSettings


class SpgLoss(NamedTuple):
    """The loss of a batch, and the bounds of its rows for the log."""

    loss: Tensor  # ()
    bounds: Bounds


def spg_loss(
    logp: Tensor,
    counted: Tensor,
    response: Tensor,
    advantages: Tensor,
    settings: SpgSettings,
    *,
    num_tokens: Tensor | int | None = None,
) -> SpgLoss:
    """Return the loss, to be minimised, with its gradient through all copies.

    Args:
        logp: (M, B, L) log-probabilities of the true tokens, looked at where counted.
        counted: (M, B, L) bool, from `draw_masks`.
        response: (B, L) bool.
        advantages: (B,).
        settings: the negative branch.
        num_tokens: response tokens of the whole batch of which these rows are a part, so that the
            losses of the parts add up to that of the whole; None: they are the whole.
    """
    settings.check_copies(len(logp))
    estimated = bounds(logp, counted, response, order=settings.renyi_order)
    chosen = torch.where(advantages > 0, estimated.elbo, _negative(estimated, settings))
    return SpgLoss((_scale(response, advantages, num_tokens) * chosen).sum(), estimated)


@torch.no_grad()
def spg_weights(
    logp: Tensor,
    counted: Tensor,
    response: Tensor,
    advantages: Tensor,
    settings: SpgSettings,
    *,
    num_tokens: Tensor | int | None = None,
) -> Tensor:
    """Return d loss / d logp, (M, B, L); arguments as of `spg_loss`."""
    settings.check_copies(len(logp))
    lower = elbo_weights(counted)
    upper = eubo_weights(logp, counted, response, order=settings.renyi_order)
    chosen = torch.where(advantages[:, None] > 0, lower, _negative(Bounds(lower, upper), settings))
    return _scale(response, advantages, num_tokens)[:, None] * chosen


def needs_preview(advantages: Tensor, settings: SpgSettings) -> Tensor:
    """Return the rows whose weights depend on their probabilities, (B,) bool."""
    return (advantages < 0) & settings.uses_upper


def _negative(estimated: Bounds, settings: SpgSettings) -> Tensor:
    """Return what stands for the log-likelihood of completions below the mean."""
    if settings.negative == "zero":
        return torch.zeros_like(estimated.elbo)
    if settings.negative == "mixture":
        return mixture(estimated, upper_weight=settings.upper_weight)
    return estimated.eubo if settings.negative == "eubo" else estimated.elbo


def _scale(response: Tensor, advantages: Tensor, num_tokens: Tensor | int | None) -> Tensor:
    """Return - A_j n_j / sum n, (B,)."""
    lengths = response.sum(-1)
    return -advantages * lengths / (lengths.sum() if num_tokens is None else num_tokens)
