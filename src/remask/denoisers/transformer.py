"""Layers that the model families share. Attention is bidirectional, except in the autoregressive
base models of `remask adapt`.

Rounding is part of a model: in bfloat16 it changes the logits. Norms are computed in float32 and
cast back. The rotary embedding is computed in the dtype of its tables: float32 in LLaDA, the dtype
of the model in the families that descend from Qwen.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remask.denoisers.attention_kernels import attention
from remask.denoisers.config import Llama3Rotary
from remask.denoisers.levels import Levels


class RMSNorm(nn.Module):
    """Root-mean-square norm: in float32, cast back, then scaled."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        # Without a weight the kernel computes in float32 and casts back; then we scale.
        return self.weight * F.rms_norm(x, x.shape[-1:], eps=self.eps)


def rotary_tables(
    length: int,
    rotated: int,
    theta: float,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    stretched: Llama3Rotary | None = None,
) -> tuple[Tensor, Tensor]:
    """Return cos and sin, each (length, 1, rotated / 2), computed in float32 and then cast.

    Frequencies are 1 / power, as in training. A negative power differs in the last bit, which
    changes the cosine at large positions.
    """
    power = torch.arange(0, rotated, 2, device=device, dtype=torch.float32) / rotated
    places = torch.arange(length, device=device, dtype=torch.float32)
    frequencies = 1.0 / theta**power
    if stretched is not None:
        frequencies = _stretch(frequencies, stretched)
    angles = torch.outer(places, frequencies)
    return angles.cos()[:, None].to(dtype), angles.sin()[:, None].to(dtype)


def _stretch(frequencies: Tensor, by: Llama3Rotary) -> Tensor:
    """Return Llama 3's frequencies: low ones are divided by `factor`, high ones kept, others mixed.

    The number of wavelengths in the original context decides which frequencies are low or high.
    """
    fits = by.original_max_position_embeddings / (2 * math.pi / frequencies)
    kept = (fits - by.low_freq_factor) / (by.high_freq_factor - by.low_freq_factor)
    kept = kept.clamp(0, 1)
    return (1 - kept) * frequencies / by.factor + kept * frequencies


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return x (B, L, heads, head_dim) with its two halves rotated.

    cos and sin are (L, 1, half), or (B, L, 1, half) if rows begin at different positions. Tables
    narrower than the head rotate only its first dimensions.
    """
    rotated = 2 * cos.shape[-1]
    left, right = x[..., :rotated].to(cos.dtype).chunk(2, -1)
    if cos.dtype == torch.float32:
        turned = (
            torch.addcmul(left * cos, right, sin, value=-1),
            torch.addcmul(right * cos, left, sin),
        )
    else:  # addcmul would round once where these families round three times
        turned = left * cos - right * sin, right * cos + left * sin
    return torch.cat((*turned, x[..., rotated:]), -1).to(x.dtype)


class HeadNorm(nn.Module):
    """Norms of the query heads and of the key heads."""

    def __init__(self, num_heads: int, head_dim: int, eps: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.q, self.k = RMSNorm(head_dim, eps), RMSNorm(head_dim, eps)

    def forward(self, qk: Tensor) -> Tensor:
        """Return qk, (B, L, q | k, head_dim), normed."""
        q, k = qk.tensor_split([self.num_heads], dim=2)
        return torch.cat((self.q(q), self.k(k)), 2)


class LayerCache(NamedTuple):
    """Keys and values of one layer, with room for the columns that are being computed."""

    heads: Tensor  # (B, room, k | v heads, head_dim)
    places: Tensor  # (B, L) columns that are being computed


class Attention(nn.Module):
    """Full attention with grouped keys; one fused projection, rows q | k | v.

    Args:
        width: of the residual stream.
        num_heads: query heads.
        num_kv_heads: key and value heads, each shared by a group of query heads.
        head_dim: default width / num_heads.
        qkv_bias: add biases to q, k and v.
        qk_norm_eps: norm q and k by head before the rotation.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        num_kv_heads: int,
        *,
        head_dim: int | None = None,
        qkv_bias: bool = False,
        qk_norm_eps: float | None = None,
    ) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = head_dim or width // num_heads
        num_rows = (num_heads + 2 * num_kv_heads) * self.head_dim
        self.qkv = nn.Linear(width, num_rows, bias=qkv_bias)
        self.qk_norm = (
            nn.Identity()
            if qk_norm_eps is None
            else HeadNorm(num_heads, self.head_dim, qk_norm_eps)
        )
        self.out = nn.Linear(num_heads * self.head_dim, width, bias=False)

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        attend: Tensor | None,
        cache: LayerCache | Levels | None = None,
    ) -> Tensor:
        """Return (B, L, width); attend is bool, broadcast to (B, heads, L, L), or None.

        With a cache it is (B, 1, L or 1, room). Levels have their own masks.
        """
        batch, length, _ = x.shape
        q, k, v = self.heads(x, cos, sin)
        if cache is None:
            mixed = self.full(q, k, v, attend)
        elif isinstance(cache, Levels):
            mixed = self._share(q, torch.cat((k, v), 2), cache)
        else:
            mixed = self._look_back(q, torch.cat((k, v), 2), attend, cache)
        out: Tensor = self.out(mixed.reshape(batch, length, -1))
        return out

    def heads(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k and v of every position, (B, L, heads, head_dim), the first two rotated."""
        heads = self.qkv(x).view(*x.shape[:2], -1, self.head_dim)  # (B, L, q | k | v, head_dim)
        turning = self.num_heads + self.num_kv_heads
        qk, v = self.qk_norm(heads[:, :, :turning]), heads[:, :, turning:]
        q, k = rotate(qk, cos, sin).tensor_split([self.num_heads], dim=2)
        return q, k, v

    def full(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attend: Tensor | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        """Return the attention of whole rows, (B, L, heads, head_dim)."""
        grouped = self.num_kv_heads != self.num_heads
        if grouped and attend is not None and torch.is_grad_enabled():
            # With groups and a mask, only the slow kernel computes gradients.
            return self._mix(q, torch.cat((k, v), 2), attend)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        return attention(q, k, v, attend, causal=causal, grouped=grouped).transpose(1, 2)

    def _look_back(self, q: Tensor, kv: Tensor, attend: Tensor | None, cache: LayerCache) -> Tensor:
        """Return the mixed values, (B, L, heads, head_dim), with `kv` put in its place."""
        rows = torch.arange(len(q), device=q.device)[:, None]
        cache.heads[rows, cache.places] = kv
        return self._mix(q, cache.heads, attend)

    def _share(self, q: Tensor, kv: Tensor, levels: Levels) -> Tensor:
        """Return the mixed values of packed levels, (1, N, heads, head_dim)."""
        mixed: list[Tensor] = []
        heads: Tensor | None = None
        for level, asking, own in zip(levels.each, levels.split(q), levels.split(kv), strict=True):
            heads = own if heads is None else torch.cat((heads[level.parents], own), 1)
            mixed.append(self._mix(asking, heads, level.seen).flatten(0, 1))
        return torch.cat(mixed)[None]

    def _mix(self, q: Tensor, heads: Tensor, attend: Tensor | None) -> Tensor:
        """Return the attention of q (B, L, heads, head_dim) over `heads`, stacked keys and values.

        Query heads that share keys are stacked as more positions of one head, because the fast
        kernels take a mask or groups, not both.
        """
        k, v = heads.transpose(1, 2).chunk(2, 1)  # (B, kv_heads, room, head_dim)
        batch, length, _, head_dim = q.shape
        group = self.num_heads // self.num_kv_heads
        shape = (batch, self.num_kv_heads, group, length, head_dim)
        stacked = q.transpose(1, 2).reshape(shape).flatten(2, 3)  # (B, kv_heads, group L, head_dim)
        if attend is not None and attend.shape[2] > 1:
            attend = attend.repeat(1, 1, group, 1)
        mixed = attention(stacked, k, v, attend)
        return mixed.reshape(shape).flatten(1, 2).transpose(1, 2)


class GatedMLP(nn.Module):
    """silu(gate x) * up x, projected back; one fused projection, rows gate | up."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, -1)
        out: Tensor = self.down(F.silu(gate) * up)
        return out


class Block(nn.Module):
    """Pre-norm attention and MLP with residual connections."""

    def __init__(self, attention: nn.Module, mlp: nn.Module, width: int, eps: float) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(width, eps)
        self.attention = attention
        self.mlp_norm = RMSNorm(width, eps)
        self.mlp = mlp

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        attend: Tensor | None,
        cache: LayerCache | Levels | None = None,
    ) -> Tensor:
        return self.feed_forward(self.attend(x, cos, sin, attend, cache))

    def attend(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        attend: Tensor | None,
        cache: LayerCache | Levels | None = None,
    ) -> Tensor:
        """Return the residual stream after attention, (B, L, width)."""
        out: Tensor = x + self.attention(self.attention_norm(x), cos, sin, attend, cache)
        return out

    def feed_forward(self, x: Tensor) -> Tensor:
        """Return the residual stream after the MLP, position by position, (..., width)."""
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out
