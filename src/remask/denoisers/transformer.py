"""Layers that the model families share. Everything is bidirectional: no causal mask anywhere.

Normalisation and rotary embedding are computed in float32 and cast back, as LLaDA's own code does;
in bfloat16 the difference is visible in the logits.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Root-mean-square norm: in float32, cast back, then scaled."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Return x of the same shape and dtype."""
        # Without a weight the kernel computes in float32 and casts back; the scale comes after.
        return self.weight * F.rms_norm(x, x.shape[-1:], eps=self.eps)


def rotary_tables(
    length: int, head_dim: int, theta: float, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return cos and sin, each (length, 1, head_dim / 2) float32."""
    power = torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim
    angles = torch.outer(torch.arange(length, device=device, dtype=torch.float32), theta**-power)
    return angles.cos()[:, None], angles.sin()[:, None]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return x (B, L, heads, head_dim) with its two halves rotated; cos and sin (L, 1, half)."""
    left, right = x.float().chunk(2, -1)
    turned = (
        torch.addcmul(left * cos, right, sin, value=-1),
        torch.addcmul(right * cos, left, sin),
    )
    return torch.cat(turned, -1).to(x.dtype)


class Attention(nn.Module):
    """Full attention with grouped keys; one fused projection, rows q | k | v."""

    def __init__(self, width: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = width // num_heads
        self.qkv = nn.Linear(width, (num_heads + 2 * num_kv_heads) * self.head_dim, bias=False)
        self.out = nn.Linear(num_heads * self.head_dim, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Tensor | None) -> Tensor:
        """Return (B, L, width); attend is (B, 1, 1, L) bool or None."""
        batch, length, _ = x.shape
        heads = self.qkv(x).view(batch, length, -1, self.head_dim)  # (B, L, q | k | v, head_dim)
        turning = self.num_heads + self.num_kv_heads
        qk, v = heads[:, :, :turning], heads[:, :, turning:]
        q, k = rotate(qk, cos, sin).tensor_split([self.num_heads], dim=2)
        mixed = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            attn_mask=attend,
            enable_gqa=self.num_kv_heads != self.num_heads,
        )
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        return out


class GatedMLP(nn.Module):
    """silu(gate x) * up x, projected back; one fused projection, rows gate | up."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return x of the same shape."""
        gate, up = self.gate_up(x).chunk(2, -1)
        out: Tensor = self.down(F.silu(gate) * up)
        return out


class Block(nn.Module):
    """Pre-norm attention and MLP with residual connections."""

    def __init__(
        self, width: int, num_heads: int, num_kv_heads: int, inner: int, eps: float
    ) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(width, eps)
        self.attention = Attention(width, num_heads, num_kv_heads)
        self.mlp_norm = RMSNorm(width, eps)
        self.mlp = GatedMLP(width, inner)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Tensor | None) -> Tensor:
        """Return (B, L, width)."""
        x = x + self.attention(self.attention_norm(x), cos, sin, attend)
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out
