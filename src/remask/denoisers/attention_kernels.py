"""The call of scaled dot-product attention that all networks share, and its kernels."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

# Kernels of passes that compute gradients. cuDNN's is left out: training Qwen2.5 (grouped-query
# attention without a mask) with it gave NaN gradients on an H200 with torch 2.11, and finite ones
# without it. benchmarks/finite_gradients.py checks these kernels for the head shapes of all models.
TRAINING = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def attention_kernels() -> str:
    """Return the names of the attention kernels that compute gradients, for error messages."""
    return ", ".join(kernel.name.lower() for kernel in TRAINING)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attend: Tensor | None = None,
    *,
    causal: bool = False,
    grouped: bool = False,
) -> Tensor:
    """Return attention over q (B, heads, L, head_dim) and k, v (B, kv_heads, L, head_dim)."""
    with sdpa_kernel(TRAINING) if torch.is_grad_enabled() else nullcontext():
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=attend, is_causal=causal, enable_gqa=grouped
        )
