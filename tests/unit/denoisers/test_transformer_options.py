"""What families ask of the shared layers beyond LLaDA's: casts, part of a head, norms, biases."""

import math

import pytest
import torch
from torch import Tensor

from remask.denoisers.transformer import (
    Attention,
    Block,
    GatedMLP,
    rotary_tables,
    rotate,
)

CPU = torch.device("cpu")


def halves_swapped(x: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return torch.cat((-right, left), -1)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tables_of_half_precision_round_after_every_operation(dtype: torch.dtype) -> None:
    x = drawn(2, 40, 3, 16).to(dtype)
    cos, sin = rotary_tables(40, 16, 1e4, CPU, x.dtype)
    wide_cos, wide_sin = (torch.cat((table, table), -1) for table in (cos, sin))
    product, other = x * wide_cos, halves_swapped(x) * wide_sin
    assert torch.equal(rotate(x, cos, sin), product + other)


def test_tables_of_float32_keep_half_precision_wide_until_the_end() -> None:
    x = drawn(2, 40, 3, 16).bfloat16()
    cos, sin = rotary_tables(40, 16, 1e4, CPU)
    wide_cos, wide_sin = (torch.cat((table, table), -1).double() for table in (cos, sin))
    exact = x.double() * wide_cos + halves_swapped(x.double()) * wide_sin
    assert torch.equal(rotate(x, cos, sin), exact.to(torch.bfloat16))
    cast = rotate(x, *rotary_tables(40, 16, 1e4, CPU, x.dtype))
    assert not torch.equal(rotate(x, cos, sin), cast)


def test_frequencies_are_one_over_the_power_to_the_last_bit() -> None:
    """Width 4: theta^(-2/4) is 1 / sqrt(theta); the angles of position 1 are the frequencies."""
    for theta in (1e4, 5e4, 6e5, 1e6):
        power = torch.tensor([0.0, 0.5])
        cos, sin = rotary_tables(2, 4, theta, CPU)
        frequencies = 1.0 / theta**power
        assert torch.equal(cos[1, 0], frequencies.cos())
        assert torch.equal(sin[1, 0], frequencies.sin())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_tables_rotate_the_first_dimensions_only(dtype: torch.dtype) -> None:
    x = drawn(2, 5, 3, 16).to(dtype)
    cos, sin = rotary_tables(5, 8, 1e4, CPU, x.dtype)
    turned = rotate(x, cos, sin)
    assert turned.dtype == dtype
    assert torch.equal(turned[..., 8:], x[..., 8:])
    assert torch.equal(turned[..., :8], rotate(x[..., :8], cos, sin))
    assert not torch.equal(turned[:, 1:, :, :8], x[:, 1:, :, :8])


@torch.no_grad()
def test_normed_heads_forget_the_length_of_q_and_k() -> None:
    """Ten times the weights of q and k leave normed attention as it was, and not the other."""
    x = drawn(1, 6, 8)
    cos, sin = rotary_tables(6, 4, 100.0, CPU)
    for eps, forgets in ((0.0, True), (None, False)):
        attention = Attention(8, 2, 1, qk_norm_eps=eps)
        attention.qkv.weight.copy_(drawn(16, 8))
        before = attention(x, cos, sin, None)
        attention.qkv.weight[:12] *= 10  # two query heads and a key head of 4 rows each
        after = attention(x, cos, sin, None)
        assert torch.allclose(before, after, atol=1e-5) == forgets


@torch.no_grad()
def test_q_and_k_have_a_norm_each() -> None:
    """q (3, 4) scaled by (1, 0) and k (3, 4) scaled by (0, 1), roots of 12.5: q k = 0."""
    attention = Attention(2, 1, 1, qk_norm_eps=0.0)
    attention.qk_norm.q.weight.copy_(torch.tensor([1.0, 0.0]))
    attention.qk_norm.k.weight.copy_(torch.tensor([0.0, 1.0]))
    q, k = attention.qk_norm(torch.tensor([3.0, 4.0]).expand(1, 1, 2, 2))[0, 0]
    root = math.sqrt(12.5)
    assert (q.tolist(), k.tolist()) == (pytest.approx([3 / root, 0]), pytest.approx([0, 4 / root]))


@torch.no_grad()
def test_the_bias_of_v_alone_reaches_the_output() -> None:
    """Weights 0: every value is the bias (1, 2) of its two heads; the output sums them: 3."""
    attention = Attention(1, 2, 2, head_dim=2, qkv_bias=True)
    attention.qkv.weight.zero_()
    attention.qkv.bias.copy_(torch.tensor([9.0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 2, 0]))
    attention.out.weight.fill_(1.0)
    out = attention(torch.zeros(1, 3, 1), *rotary_tables(3, 2, 100.0, CPU), None)
    assert out.flatten().tolist() == pytest.approx([3.0, 3.0, 3.0])


def test_heads_may_be_wider_together_than_the_stream() -> None:
    attention = Attention(6, 2, 1, head_dim=8)
    assert (attention.qkv.weight.shape, attention.out.weight.shape) == ((32, 6), (6, 16))
    out = attention(drawn(1, 3, 6), *rotary_tables(3, 8, 100.0, CPU), None)
    assert out.shape == (1, 3, 6)


def test_a_block_takes_the_mlp_it_is_given() -> None:
    """With its last matrix at zero the MLP adds nothing: the block is its attention alone."""
    attention = Attention(4, 2, 2)
    block = Block(attention, GatedMLP(4, 1), 4, 1e-5)
    block.mlp.down.weight.data.zero_()
    x, tables = drawn(1, 3, 4), rotary_tables(3, 2, 100.0, CPU)
    expected = x + attention(block.attention_norm(x), *tables, None)
    assert torch.equal(block(x, *tables, None), expected)
