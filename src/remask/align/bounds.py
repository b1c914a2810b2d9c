"""Lower and upper bound of the log-likelihood of a completion, from M masked copies of it.

Let C be the response tokens, S_m those counted in copy m, t_m = |S_m| / |C|, and
p_i(m) the probability of the true token i in copy m:

    elbo = (1/M) sum_m (1/|S_m|) sum_{i in S_m} log p_i(m)
    eubo = (1/(b |V|)) sum_{i in V} log a_i,   a_i = (1/M) sum_m 1[i in S_m] p_i(m)^b / t_m

V are the tokens counted in at least one copy, b >= 1 is the order of the Rényi bound. Both bounds
are per token; eubo is the part of the upper bound that depends on the model. The public code of SPG
(arXiv:2510.09541) computes the same, but raises a softmax in the model's dtype to a power, which
underflows; here everything is in log space.

The functions are differentiable. `elbo_weights` and `eubo_weights` are their derivatives, with
which a trainer can process one copy at a time (see `remask.align.spg`).

Shapes: `logp` and `counted` are (M, B, L), `response` is (B, L). `logp` is used only where
`counted`, in at least float32. Every copy of every row must count a token.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Bounds(NamedTuple):
    """Both bounds of each row, in nats per token."""

    elbo: Tensor  # (B,)
    eubo: Tensor  # (B,)


def bounds(logp: Tensor, counted: Tensor, response: Tensor, *, order: float) -> Bounds:
    """Return both bounds of every row."""
    return Bounds(elbo(logp, counted), eubo(logp, counted, response, order=order))


def mask_ratios(counted: Tensor, response: Tensor) -> Tensor:
    """Return t_m, the share of response tokens that each copy counts, (M, B)."""
    return counted.sum(-1) / response.sum(-1)


def elbo(logp: Tensor, counted: Tensor) -> Tensor:
    """Return the lower bound of every row, (B,)."""
    inside = _exact(logp).masked_fill(~counted, 0.0)
    return (inside.sum(-1) / counted.sum(-1)).mean(0)


def eubo(logp: Tensor, counted: Tensor, response: Tensor, *, order: float) -> Tensor:
    """Return the part of the upper bound that depends on the model, of every row, (B,).

    Args:
        logp: (M, B, L) log-probabilities of the true tokens.
        counted: (M, B, L) bool.
        response: (B, L) bool.
        order: order of the Rényi bound, at least 1; 1 is the tightest.
    """
    seen = counted.any(0)  # (B, L): V
    terms = _terms(logp, counted, response, order)
    log_a = terms.logsumexp(0) - math.log(len(counted))  # (B, L)
    return log_a.masked_fill(~seen, 0.0).sum(-1) / (order * seen.sum(-1))


def mixture(estimated: Bounds, *, upper_weight: float) -> Tensor:
    """Return upper_weight * eubo + (1 - upper_weight) * elbo, (B,)."""
    return upper_weight * estimated.eubo + (1 - upper_weight) * estimated.elbo


def elbo_weights(counted: Tensor) -> Tensor:
    """Return d elbo / d logp, (M, B, L) float32: 1 / (M |S_m|) where counted."""
    return counted / (len(counted) * counted.sum(-1, keepdim=True))


@torch.no_grad()
def eubo_weights(logp: Tensor, counted: Tensor, response: Tensor, *, order: float) -> Tensor:
    """Return d eubo / d logp, (M, B, L): softmax over copies of order * logp - log t, over |V|.

    A token counted in a single copy has weight 1 / |V| there.
    """
    num_seen = counted.any(0).sum(-1)  # (B,)
    share = _terms(logp, counted, response, order).softmax(0)
    return share.masked_fill(~counted, 0.0) / num_seen[:, None]


def _terms(logp: Tensor, counted: Tensor, response: Tensor, order: float) -> Tensor:
    """Return order * log p - log t where counted, -inf elsewhere, (M, B, L)."""
    ratios = mask_ratios(counted, response)[..., None]  # (M, B, 1)
    exact = _exact(logp).masked_fill(~counted, 0.0)
    return (order * exact - ratios.log()).masked_fill(~counted, -torch.inf)


def _exact(logp: Tensor) -> Tensor:
    return logp if logp.dtype == torch.float64 else logp.float()
