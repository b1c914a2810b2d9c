"""What keeps SPG from running away. All are off by default: the published loss has none of them.

    never_down       the advantage of a right answer is not below 0. Under a reward that tells right
                     answers apart, the worse of them are pushed down like wrong ones.
    negative_floor   a completion below the mean whose bound is under the floor is left alone: its
                     term has no end, and goes on to spoil what it shares with others.
    ratio_clip       with r_j = exp(l_j - l_j at the rollout) the gain A_j l_j becomes
                     min(r_j A_j, clip(r_j, 1 - e, 1 + e) A_j), as in PPO: several updates on the
                     same completions cannot go further than one may.
    start_kl         adds this times the divergence from the model before the first update: the mean
                     over counted tokens of exp(q) - q - 1, with q = log p at the start - log p

l_j is what stands in SPG's loss for the likelihood of completion j, in nats per token.
"""

import torch
from torch import Tensor

from remask.align.bounds import elbo
from remask.align.method_settings import SpgSettings


def never_down(advantages: Tensor, right: Tensor) -> Tensor:
    """Return the advantages, those of right answers not below 0."""
    return torch.where(right, advantages.clamp(min=0.0), advantages)


def gains(now: Tensor, before: Tensor | None, advantages: Tensor, settings: SpgSettings) -> Tensor:
    """Return what the loss is to raise, (B,): A_j l_j, with the floor and the clip.

    Args:
        now: (B,) l_j.
        before: (B,) l_j at the rollout, on the same masks; None: the two models are the same.
        advantages: (B,).
        settings: which restraints.
    """
    if settings.negative_floor is not None:
        low = (advantages < 0) & (now < settings.negative_floor)
        now = now.masked_fill(low, settings.negative_floor)  # and so without a gradient
    if settings.ratio_clip is None:
        return advantages * now
    ratio = (now - (now if before is None else before).detach()).exp()
    bounded = ratio.clamp(1 - settings.ratio_clip, 1 + settings.ratio_clip)
    return torch.minimum(ratio * advantages, bounded * advantages)


def divergence(logp: Tensor, start_logp: Tensor, counted: Tensor) -> Tensor:
    """Return how far each row is from the start, (B,), in nats per token.

    Args:
        logp: (M, B, L) log-probabilities of the true tokens, looked at where counted.
        start_logp: (M, B, L) of the model before the first update, under the same masks.
        counted: (M, B, L) bool.
    """
    apart = (start_logp.detach() - logp).masked_fill(~counted, 0.0)
    return elbo(apart.exp() - apart - 1, counted)  # the mean over counted tokens, then over copies
