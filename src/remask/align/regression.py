"""Likelihoods regressed on advantages: every completion moves by A / beta nats, and stops.

Reward less beta times the divergence from a model pi_0 is highest at pi ~ pi_0 exp(R / beta), where
within a group beta log(pi / pi_0) and R differ by a constant. So the difference is fitted instead
of being pushed, as REBEL (arXiv:2404.16767) and IPO (arXiv:2310.12036) do:

    d_j = elbo_j - elbo_j of the anchor, on the same masks, in nats per token
    loss = (1 / (2 beta sum n)) sum_j n_j (beta (d_j - mean d) - A_j)^2,   mean over the group of j

with A_j the reward minus its group's mean and n_j the tokens of response j. A policy gradient has
no such end: a completion that it pushes down is pushed down for ever. Where nothing has moved yet
the gradient is that of - sum_j A_j elbo_j n_j / sum n, less what all of a group have in common,
whatever beta is: rates compare with those of SPG.

That constant leaves room: wrong answers fall more easily than right ones rise, and where both sink
together what they lose goes to texts that nobody wrote. Not `centred`, mean d is taken as 0, which
it is to the first order in 1 / beta: then right answers have to rise by A / beta themselves.

The anchor is the model that wrote the completions, or the one before the first update: then all
updates together move a completion by no more. Likelihoods are bounds, and per token: a long answer
may move further than a short one.

A group's completions may lie in several micro-batches. What ties them is `moved`, one number per
completion: `regression_weights` are the derivatives of the loss by it, and by `elbo`.
"""

import torch
from torch import Tensor

from remask.align.method_settings import RegressionSettings


def regression_loss(
    moved: Tensor,
    lengths: Tensor,
    advantages: Tensor,
    groups: Tensor,
    settings: RegressionSettings,
    *,
    num_tokens: int | None = None,
) -> Tensor:
    """Return the loss, to be minimised.

    Args:
        moved: (B,) the lower bound now, less that of the anchor on the same masks.
        lengths: (B,) tokens of the responses.
        advantages: (B,).
        groups: (B,) a number that the completions of one prompt share; each group is here whole.
        settings: how far, and from where.
        num_tokens: response tokens of the whole batch of which these rows are a part; None: they
            are the whole.
    """
    total = lengths.sum() if num_tokens is None else num_tokens
    common = group_means(moved, groups) if settings.centred else torch.zeros_like(moved)
    misfit = settings.beta * (moved - common) - advantages
    return (lengths * misfit.square()).sum() / (2 * settings.beta * total)


@torch.enable_grad()
def regression_weights(
    moved: Tensor,
    lengths: Tensor,
    advantages: Tensor,
    groups: Tensor,
    settings: RegressionSettings,
    *,
    num_tokens: int | None = None,
) -> Tensor:
    """Return d loss / d moved, (B,); arguments as of `regression_loss`."""
    leaf = moved.detach().clone().requires_grad_()
    loss = regression_loss(leaf, lengths, advantages, groups, settings, num_tokens=num_tokens)
    (weights,) = torch.autograd.grad(loss, leaf)
    return weights


def group_means(values: Tensor, groups: Tensor) -> Tensor:
    """Return the mean of its group for each value, (B,)."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups.tolist()))}
    place = torch.tensor([numbers[group] for group in groups.tolist()], dtype=torch.long)
    sums = torch.zeros(len(numbers), dtype=values.dtype).index_add(0, place, values)
    return (sums / place.bincount(minlength=len(numbers)))[place]
