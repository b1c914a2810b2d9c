"""Arithmetic is counted as the formulas say, by hand-worked numbers."""

import torch
from lib.shapes import SHAPES, build
from lib.work import Pass, block_by_block, flops_of, up_to_each, work_of

from remask.denoisers import llada2, llada_moe


def test_arithmetic_is_counted_as_the_formula_says() -> None:
    """Toy: 2 layers of 4 x 32^2 = 4096 and an MLP of 3 x 32 x 64 = 6144, of which one is the last.

    Trunk 2 x 4096 + 6144 = 14336 weights; attention 2 x 4 x 28 x 32 = 7168; 10 positions:
    10 x (2 x 14336 + 7168) = 358400. Head 32 x 256 = 8192; 3 rows: 3 x 2 x (6144 + 8192) = 86016.
    """
    network = build(SHAPES["toy"], torch.device("cpu")).model
    assert flops_of(network, 28, 10, 3) == 358400 + 86016


def test_only_the_chosen_experts_are_counted() -> None:
    """One layer of width 8, one head of 8: q, k, v, out 4 x 64 = 256; 10 positions: 5120.

    Attention over 6 positions: 4 x 6 x 8 = 192 each, 1920. Router 4 x 8, 2 of 4 experts of
    3 x 8 x 5 = 120 weights, head 16 x 8: 32 + 240 + 128 = 400; 10 rows: 8000.
    """
    config = {
        "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
        "num_key_value_heads": 1, "num_experts": 4, "num_experts_per_tok": 2,
        "expert_intermediate_size": 5, "qk_layernorm": True, "rope_theta": 50000,
        "vocab_size": 16, "max_position_embeddings": 8,
    }  # fmt: skip
    network = llada_moe.FAMILY.build(config)
    assert flops_of(network, 6, 10, 10) == 5120 + 1920 + 8000


def test_a_dense_layer_a_shared_expert_and_a_router_are_counted_too() -> None:
    """Width 8, head of 8, 2 heads, 1 kv head: qkv 4 x 8 x 8 = 256, out 16 x 8 = 128, twice: 768.

    Dense 3 x 8 x 6 = 144: in all 912 weights, 1824 operations; attention over 6 positions:
    2 layers x 4 x 6 x 16 = 768. Router 4 x 8 = 32; 2 of 4 experts of 3 x 8 x 5 = 120: 240; shared
    120; head 16 x 8 = 128: 520 weights, 1040 operations.
    """
    config = {
        "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 6,
        "first_k_dense_replace": 1, "num_experts": 4, "num_experts_per_tok": 2,
        "num_shared_experts": 1, "moe_intermediate_size": 5, "n_group": 2, "topk_group": 1,
        "use_bias": False, "rope_theta": 600000, "vocab_size": 16, "max_position_embeddings": 8,
    }  # fmt: skip
    assert flops_of(llada2.FAMILY.build(config), 6, 1, 1) == 1824 + 768 + 1040


def test_a_block_needs_what_is_before_it_once_and_itself_once_more_but_for_the_last() -> None:
    """A canvas from 12 to 28 in blocks of 8: the first begins at 8, the last ends at 32."""
    parts = [slice(12, 16), slice(16, 24), slice(24, 32)]
    assert block_by_block(parts, [4, 4, 2], 8) == [
        Pass(8, 8, 1), Pass(8, 16, 5), Pass(8, 24, 5), Pass(8, 32, 2),
    ]  # fmt: skip
    assert up_to_each(parts, [4, 4, 2]) == [Pass(16, 16, 4), Pass(24, 24, 4), Pass(32, 32, 2)]


def test_every_position_is_asked_about_unless_told_otherwise() -> None:
    """Two rows, 3 passes of 5 positions: 30 positions; a row asked is 2 x (6144 + 8192) = 28672."""
    network = build(SHAPES["toy"], torch.device("cpu")).model
    trunk = flops_of(network, 5, 30, 0)
    all_rows = work_of(network, [Pass(5, 5, 3)], rows=2, forwards=6, head_rows=None)
    assert all_rows == (6, 30, trunk + 30 * 28672)
    few = work_of(network, [Pass(5, 5, 3)], rows=2, forwards=6, head_rows=7)
    assert few == (6, 30, trunk + 7 * 28672)
