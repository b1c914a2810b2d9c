"""Sandwiched Policy Gradient (arXiv:2510.09541).

It maximises a lower bound of the log-likelihood for completions with positive advantage and an
upper bound for the others:

    loss = - sum_j A_j l_j n_j / sum_j n_j,   l_j = elbo_j if A_j > 0, else the negative branch

A_j is the reward minus the mean of its group, n_j the number of tokens of response j. The negative
branch is a mixture of both bounds by default. There is no importance ratio, no clipping and no
reference model. The token-weighted mean is that of the public code.

`spg_loss(...).backward()` keeps the forward passes of all M copies in memory. The same gradient,
one copy at a time:

    weights = spg_weights(logp, ...)             # logp of all copies, computed without gradient
    for m in range(M):
        (weights[m] * log_probs(m)).sum().backward()

`spg_weights` needs log-probabilities only for the rows of `needs_preview`; pass zeros for the
others. Rows with advantage 0 have weight 0 and can be left out.
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
    """Return the loss to minimise; gradients flow through all copies.

    Args:
        logp: (M, B, L) log-probabilities of the true tokens, used where `counted`.
        counted: (M, B, L) bool, from `draw_masks`.
        response: (B, L) bool.
        advantages: (B,).
        settings: the negative branch.
        num_tokens: response tokens of the whole batch, so that the losses of micro-batches add up
            to the loss of the batch. None: these rows are the whole batch.
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
    """Return d loss / d logp, (M, B, L); the arguments are those of `spg_loss`."""
    settings.check_copies(len(logp))
    lower = elbo_weights(counted)
    upper = eubo_weights(logp, counted, response, order=settings.renyi_order)
    negative = _negative(Bounds(lower, upper), settings)
    chosen = torch.where(advantages[:, None] > 0, lower, negative)
    return _scale(response, advantages, num_tokens)[:, None] * chosen


def needs_preview(advantages: Tensor, settings: SpgSettings) -> Tensor:
    """Return the rows whose weights depend on their log-probabilities, (B,) bool."""
    return (advantages < 0) & settings.uses_upper


def _negative(estimated: Bounds, settings: SpgSettings) -> Tensor:
    if settings.negative == "zero":
        return torch.zeros_like(estimated.elbo)
    if settings.negative == "mixture":
        return mixture(estimated, upper_weight=settings.upper_weight)
    return estimated.eubo if settings.negative == "eubo" else estimated.elbo


def _scale(response: Tensor, advantages: Tensor, num_tokens: Tensor | int | None) -> Tensor:
    """Return - A_j n_j / sum n, (B,)."""
    lengths = response.sum(-1)
    return -advantages * lengths / (lengths.sum() if num_tokens is None else num_tokens)
