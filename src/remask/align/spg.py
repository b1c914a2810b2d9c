"""The Sandwiched Policy Gradient (arXiv:2510.09541): a lower bound where a completion is to become
more probable, an upper one where it is to become less.

    loss = - sum_j A_j l_j n_j / sum_j n_j,   l_j = elbo_j where A_j > 0, else the negative branch

with A_j the reward minus its group's mean and n_j the tokens of response j. The negative branch is
by default the mixture of both bounds. There is no importance ratio, no clipping, no reference
model, unless they are asked for (`remask.align.restraints`). What is reproduced is the public code,
whose loss is a token-weighted mean.

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
from remask.align.restraints import divergence, gains
from remask.errors import SettingsError


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
    old_logp: Tensor | None = None,
    start_logp: Tensor | None = None,
) -> SpgLoss:
    """Return the loss, to be minimised, with its gradient through all copies.

    Args:
        logp: (M, B, L) log-probabilities of the true tokens, looked at where counted.
        counted: (M, B, L) bool, from `draw_masks`.
        response: (B, L) bool.
        advantages: (B,).
        settings: the negative branch, and restraints.
        num_tokens: response tokens of the whole batch of which these rows are a part, so that the
            losses of the parts add up to that of the whole; None: they are the whole.
        old_logp: (M, B, L) of the model that wrote the completions, for `ratio_clip`; None: `logp`.
        start_logp: (M, B, L) of the model before the first update, for `start_kl`.
    """
    settings.check_copies(len(logp))
    estimated = bounds(logp, counted, response, order=settings.renyi_order)
    chosen = _chosen(estimated, advantages, settings)
    if not settings.restrained:
        return SpgLoss((_scale(response, advantages, num_tokens) * chosen).sum(), estimated)
    before = None
    if old_logp is not None:
        old = bounds(old_logp, counted, response, order=settings.renyi_order)
        before = _chosen(old, advantages, settings)
    rows = -gains(chosen, before, advantages, settings)
    if settings.start_kl > 0:
        if start_logp is None:
            raise SettingsError(
                f"start_kl {settings.start_kl} needs the model before the first update; give "
                "start_logp, or set start_kl 0."
            )
        rows = rows + settings.start_kl * divergence(logp, start_logp, counted)
    return SpgLoss((_shares(response, num_tokens) * rows).sum(), estimated)


@torch.no_grad()
def spg_weights(
    logp: Tensor,
    counted: Tensor,
    response: Tensor,
    advantages: Tensor,
    settings: SpgSettings,
    *,
    num_tokens: Tensor | int | None = None,
    old_logp: Tensor | None = None,
    start_logp: Tensor | None = None,
) -> Tensor:
    """Return d loss / d logp, (M, B, L); arguments as of `spg_loss`."""
    settings.check_copies(len(logp))
    if settings.restrained:
        with torch.enable_grad():
            leaf = logp.detach().clone().requires_grad_()
            rows = (counted, response, advantages, settings)
            result = spg_loss(
                leaf, *rows, num_tokens=num_tokens, old_logp=old_logp, start_logp=start_logp
            )
            return torch.autograd.grad(result.loss, leaf)[0]
    lower = elbo_weights(counted)
    upper = eubo_weights(logp, counted, response, order=settings.renyi_order)
    chosen = torch.where(advantages[:, None] > 0, lower, _negative(Bounds(lower, upper), settings))
    return _scale(response, advantages, num_tokens)[:, None] * chosen


def needs_preview(advantages: Tensor, settings: SpgSettings) -> Tensor:
    """Return the rows whose weights depend on their probabilities, (B,) bool."""
    if settings.ratio_clip is not None or settings.start_kl > 0:
        return torch.ones_like(advantages, dtype=torch.bool)
    return (advantages < 0) & (settings.uses_upper or settings.negative_floor is not None)


def _chosen(estimated: Bounds, advantages: Tensor, settings: SpgSettings) -> Tensor:
    """Return what stands for the log-likelihood of each completion, (B,)."""
    return torch.where(advantages > 0, estimated.elbo, _negative(estimated, settings))


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


def _shares(response: Tensor, num_tokens: Tensor | int | None) -> Tensor:
    """Return n_j / sum n, (B,)."""
    lengths = response.sum(-1)
    return lengths / (lengths.sum() if num_tokens is None else num_tokens)
