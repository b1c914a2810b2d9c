"""The shared layers, on numbers worked out by hand."""

import math

import pytest
import torch

from remask.denoisers.transformer import GatedMLP, RMSNorm, rotary_tables, rotate


def test_the_norm_divides_by_the_root_mean_square_and_scales() -> None:
    """(3, 4): mean square 12.5, root 3.5355; (0.8485, 1.1314), scaled by (1, 10)."""
    norm = RMSNorm(2, eps=0.0)
    norm.weight.data = torch.tensor([1.0, 10.0])
    out = norm(torch.tensor([3.0, 4.0])).tolist()
    assert out == pytest.approx([3 / math.sqrt(12.5), 40 / math.sqrt(12.5)], rel=1e-6)


def test_the_norm_of_half_precision_is_taken_in_float32() -> None:
    """300^2 = 90,000 overflows float16 (65,504); in float32 the result is 1."""
    norm = RMSNorm(4, eps=1e-5).half()
    out = norm(torch.full((4,), 300.0, dtype=torch.float16))
    assert out.dtype == torch.float16
    assert out.tolist() == [1.0] * 4


def test_rotation_turns_halves_against_each_other() -> None:
    """Width 2, position 1: the angle is 1 radian; (1, 0) becomes (cos 1, sin 1)."""
    cos, sin = rotary_tables(2, 2, 10000.0, torch.device("cpu"))
    x = torch.tensor([1.0, 0.0]).expand(1, 2, 1, 2)
    expected = [[1.0, 0.0], [math.cos(1), math.sin(1)]]
    assert rotate(x, cos, sin)[0, :, 0].tolist() == [pytest.approx(row) for row in expected]


def test_angles_fall_with_the_base() -> None:
    """Width 4, theta 100, position 3: angles 3 and 3 / sqrt(100) = 0.3."""
    cos, _ = rotary_tables(4, 4, 100.0, torch.device("cpu"))
    assert cos[3, 0].tolist() == pytest.approx([math.cos(3), math.cos(0.3)])


def test_the_gate_comes_before_the_up_projection() -> None:
    """x = 1, gate 2, up 3, down 1: silu(2) * 3 = 2 / (1 + e^-2) * 3 = 5.2848."""
    mlp = GatedMLP(1, 1)
    mlp.gate_up.weight.data = torch.tensor([[2.0], [3.0]])
    mlp.down.weight.data = torch.tensor([[1.0]])
    assert mlp(torch.tensor([1.0])).item() == pytest.approx(6 / (1 + math.exp(-2)))
