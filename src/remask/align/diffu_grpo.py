"""The loss of d1 (diffu-GRPO, arXiv:2504.12216): a clipped policy gradient per token.

    r_i = exp(log p_i - log p_i at the rollout),   d_i = log p_i of the reference - log p_i
    l_i = - min(r_i A, clip(r_i, 1 - e, 1 + e) A) + k (exp(d_i) - d_i - 1)
    loss = mean of l_i over the response tokens of the batch

All log p_i come from one forward pass over a partly masked prompt and a fully masked response
(`MaskSettings(mask_sampler="full", copies=1)`). The passes of the three models must have the same
masks, from the same `mask_keys`; otherwise the ratio is mostly noise. As in the public code, the
advantage is the reward minus the mean of its group, and the loss is a mean over tokens.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from remask.align.method_settings import GrpoSettings
from remask.errors import SettingsError


class GrpoLoss(NamedTuple):
    """The loss of a batch, and values for the log."""

    loss: Tensor  # ()
    kl: Tensor  # () mean over tokens; 0 without a reference
    clip_ratio: Tensor  # () share of clipped tokens, which have no gradient


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
    """Return the loss to minimise; gradients flow through `logp` only.

    Args:
        logp: (B, L) log-probabilities of the true tokens, used in the response.
        old_logp: (B, L) of the policy that generated the completions, with the same masks.
        reference_logp: (B, L) of the initial model, with the same masks; None if kl_weight is 0.
        response: (B, L) bool.
        advantages: (B,).
        settings: clip and penalty.
        num_tokens: response tokens of the whole batch; None: these rows are the whole batch.
    """
    if reference_logp is None and settings.kl_weight > 0:
        raise SettingsError(
            f"reference_logp is required with kl_weight {settings.kl_weight}, got None."
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
