"""The loss of d1 (diffu-GRPO, arXiv:2504.12216): a clipped policy gradient, tokens one by one.

    r_i = exp(log p_i - log p_i at the rollout),   d_i = log p_i of the reference - log p_i
    l_i = - min(r_i A, clip(r_i, 1 - e, 1 + e) A) + k (exp(d_i) - d_i - 1)
    loss = mean of l_i over the response tokens of the batch

Each log p_i comes from one forward pass over the prompt, some of its tokens masked, and a response
masked whole (`MaskSettings(mask_sampler="full", copies=1)`). The three passes must see the *same*
masks: draw them with the same `mask_keys`, or the ratio is mostly noise. As in the public code the
advantage is the reward minus its group's mean, and the mean runs over the tokens of the batch.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from remask.align.method_settings import GrpoSettings
from remask.errors import SettingsError


class GrpoLoss(NamedTuple):
    """The loss of a batch, and what the log shows of it."""

    loss: Tensor  # ()
    kl: Tensor  # () mean over tokens; 0 without a reference
    clip_ratio: Tensor  # () share of tokens whose gradient the clip has stopped


def diffu_grpo_loss(
    logp: Tensor,
    old_logp: Tensor,
    reference_logp: Tensor | None,
    response: Tensor,
    advantages: Tensor,
    settings: GrpoSettings,
    *,
    num_tokens: Tensor | int | None = None,
) -> GrpoLoss:
    """Return the loss, to be minimised; gradients flow through `logp` alone.

    Args:
        logp: (B, L) log-probabilities of the true tokens, looked at in the response.
        old_logp: (B, L) of the policy that wrote the completions, under the same masks.
        reference_logp: (B, L) of the reference, under the same masks; None where kl_weight is 0.
        response: (B, L) bool.
        advantages: (B,).
        settings: clip and penalty.
        num_tokens: response tokens of the whole batch of which these rows are a part; None: they
            are the whole.
    """
    if reference_logp is None and settings.kl_weight > 0:
        raise SettingsError(
            f"kl_weight {settings.kl_weight} needs a reference model; give one, or set kl_weight 0."
        )
    total = response.sum() if num_tokens is None else num_tokens
    gain = advantages[:, None]
    ratio = (logp - old_logp.detach()).masked_fill(~response, 0.0).exp()  # (B, L)
    bounded = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    penalty = torch.zeros_like(ratio)
    if reference_logp is not None:
        apart = (reference_logp.detach() - logp).masked_fill(~response, 0.0)
        penalty = apart.exp() - apart - 1
    tokens = settings.kl_weight * penalty - torch.minimum(ratio * gain, bounded * gain)
    stopped = (bounded * gain < ratio * gain) & response
    return GrpoLoss(
        loss=tokens.masked_fill(~response, 0.0).sum() / total,
        kl=penalty.detach().sum() / total,
        clip_ratio=stopped.sum() / total,
    )
