"""How many tokens a step reveals, and which: schedules, orders, filters. No model.

The rules are those the models were published with: LLaDA's (arXiv:2502.09992), Dream's four orders
(arXiv:2508.15487), and the confidence threshold of Fast-dLLM (arXiv:2505.22618), which is that of
LLaDA2.0 (arXiv:2512.15745) too. Departures: a schedule counts each row for itself, where Dream's
counts the mean of the batch (alone the two are equal), and ties go to the earlier position.

A schedule is `even` (LLaDA's, which gives the first steps what is left over), `rounded` (A2D's) or
`shares` (LLaDA2.0's and SDAR's: each step reveals its share of a whole block, however few of it are
masked, and however far ahead a threshold has brought it); Dream's orders have one of their own.
They differ where the steps do not divide the block, or are fewer than its positions.

LLaDA2.0 and SDAR ask for more than the threshold, where Fast-dLLM and we ask for no less; that is
seen at a threshold of 1 alone. Above temperature 0 their confidence is that of the order
`maskgit_plus`. A share that is larger than what is masked makes SDAR's loop write over tokens that
are not; here they stay.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from remask.sampling.settings import BLIND_ORDERS, Order, Rule

LAST = -1e9  # below every confidence, and finite: places that are not masked come later still
_EPS = 1e-3  # the time at which Dream's schedule ends


def draws_places(rule: Rule) -> bool:
    """Say whether places are drawn, so that rows need random streams."""
    return rule.order in BLIND_ORDERS or rule.order_temperature > 0


def filters_tokens(rule: Rule) -> bool:
    """Say whether some tokens may not be drawn."""
    return rule.top_k is not None or (rule.top_p is not None and rule.top_p < 1)


def looks_closer(rule: Rule) -> bool:
    """Say whether the confidence is another number than the probability of the token."""
    return rule.order not in BLIND_ORDERS and (rule.order != "low_confidence" or rule.ends_last)


def linear_schedule(num_masked: Tensor, steps: int) -> Tensor:
    """Return reveals per step, (S, B): after step k of S, n (S - k) // S tokens stay masked."""
    k = torch.arange(steps + 1, device=num_masked.device)[:, None]
    left = num_masked * (steps - k) // steps  # (S + 1, B)
    return left[:-1] - left[1:]


def even_schedule(num_masked: Tensor, steps: int) -> Tensor:
    """Return reveals per step, (S, B): LLaDA's, n // S each and one more in the first n % S."""
    k = torch.arange(steps, device=num_masked.device)[:, None]
    return num_masked // steps + (k < num_masked % steps).long()


def share_schedule(num_masked: Tensor, steps: int, *, block: int) -> Tensor:
    """Return reveals per step, (S, B): LLaDA2's and SDAR's, the even share of a whole block."""
    shares = even_schedule(torch.full_like(num_masked, block), steps)
    done = shares.cumsum(0).minimum(num_masked)
    return torch.cat((done[:1], done[1:] - done[:-1]))


def rounded_schedule(num_masked: Tensor, steps: int) -> Tensor:
    """Return reveals per step, (S, B): A2D's, n (1 - s / t) to the nearest, halves to the even one.

    Shares are computed in float32 and counts in float64, as its authors do: that decides halves. A
    step that would reveal nothing is not taken, so it comes last.
    """
    times = (torch.arange(steps, -1, -1, dtype=torch.float64) / steps).float()
    masked = 1 - (1 - times)  # one minus the linear alpha, in its rounding
    shares = 1 - (masked[1:] / masked[:-1]).double()  # (S,)
    left, reveals = num_masked, []
    for share in shares.to(num_masked.device):
        reveals.append((left * share).round().long().minimum(left))
        left = left - reveals[-1]
    taken = torch.stack(reveals)
    order = (taken == 0).int().argsort(dim=0, stable=True)
    return taken.gather(0, order)


def dream_schedule(num_masked: Tensor, steps: int) -> Tensor:
    """Return reveals per step, (S, B): Dream's, the floor of n (1 - s / t), the rest at the end."""
    times = torch.linspace(1, _EPS, steps + 1)
    shares = 1 - times[1:] / times[:-1]  # (S,)
    shares[-1] = 1
    left, reveals = num_masked, []
    for share in shares.to(num_masked.device):
        reveals.append((left * share).long())
        left = left - reveals[-1]
    return torch.stack(reveals)


def origin_schedule(num_masked: Tensor, steps: int, *, draws: Tensor) -> Tensor:
    """Return reveals per step, (S, B), where every token goes by itself, with chance 1 - s / t.

    A token is then still masked at time t with probability t: it goes when the time falls below
    its uniform draw, one of `draws` (B, C). Counted beforehand, and with the places in random
    order, this is Dream's `origin`.
    """
    times = torch.linspace(1, _EPS, steps + 1, device=draws.device)
    times[-1] = 0
    used = torch.arange(draws.shape[1], device=draws.device) < num_masked[:, None]  # (B, C)
    left = ((draws < times[:, None, None]) & used).sum(2)  # (S + 1, B)
    return left[:-1] - left[1:]


def num_due(confidence: Tensor, masked: Tensor, left: Tensor, threshold: float | None) -> Tensor:
    """Return how many to reveal now, (B,), so that at most `left` (B,) stay masked.

    With a threshold it is also all from there up, and at least one: the schedule has become the
    slowest that is allowed.
    """
    due = masked.sum(1) - left
    if threshold is None:
        return due
    sure = (masked & (confidence >= threshold)).sum(1)
    return torch.maximum(sure, due).clamp(min=1)


def pick(confidence: Tensor, masked: Tensor, num_reveal: Tensor) -> Tensor:
    """Return the most confident `num_reveal` masked positions of each row, (B, L) bool.

    Ties go to the earlier position, so a row's choice does not depend on its neighbours.
    """
    ranked = confidence.masked_fill(~masked, -torch.inf)
    order = ranked.argsort(dim=1, descending=True, stable=True)  # (B, L)
    rank = torch.empty_like(order)
    rank.scatter_(1, order, torch.arange(order.shape[1], device=order.device).expand_as(order))
    return masked & (rank < num_reveal[:, None])


def certainty(order: Order, logits: Tensor, tokens: Tensor, last: Sequence[int] = ()) -> Tensor:
    """Return the confidence in `tokens` (M,) under `logits` (M, V), (M,); higher goes first.

    Tokens of `last` come last, and the others are compared as if there were no such tokens.
    """
    if not last:
        return _sureness(order, logits.softmax(1), tokens)
    others, late = logits.clone(), torch.zeros_like(tokens, dtype=torch.bool)
    for token in last:  # one by one: a list of ids would have to travel to the device
        others[:, token] = -torch.inf
        late |= tokens == token
    return _sureness(order, others.softmax(1), tokens).masked_fill(late, LAST)


def _sureness(order: Order, probs: Tensor, tokens: Tensor) -> Tensor:
    if order == "topk_margin":
        first, second = probs.topk(2, dim=1).values.unbind(1)
        return first - second
    if order == "entropy":
        return (probs * (probs + 1e-10).log()).sum(1)  # Dream's guard against log 0
    return probs.gather(1, tokens[:, None])[:, 0]


def filtered(logits: Tensor, top_p: float | None, top_k: int | None) -> Tensor:
    """Return which tokens of each row may be drawn, (M, V) bool: those that pass both filters."""
    allowed = torch.ones_like(logits, dtype=torch.bool)
    if top_p is not None and top_p < 1:
        allowed &= logits >= _least_of_mass(logits, top_p)
    if top_k is not None:
        allowed &= logits >= logits.topk(min(top_k, logits.shape[1]), dim=1).values[:, -1:]
    return allowed


def _least_of_mass(logits: Tensor, top_p: float) -> Tensor:
    """Return the last logit that is kept, (M, 1): that of the token that crosses `top_p`."""
    ranked = logits.sort(dim=1, descending=True).values
    likelier = ranked.softmax(1).cumsum(1).roll(1, dims=1)  # mass before each token
    likelier[:, 0] = 0
    return ranked.masked_fill(likelier > top_p, torch.inf).amin(1, keepdim=True)
