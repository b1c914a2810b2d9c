"""The router of LLaDA2 by hand: groups by their two best, a bias that only chooses."""

from typing import Any

import pytest
import torch

from remask.denoisers.llada2 import LLaDA2Config, Router

CONFIG: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 64, "first_k_dense_replace": 1, "num_experts": 16,
    "num_experts_per_tok": 4, "num_shared_experts": 1, "moe_intermediate_size": 16, "n_group": 4,
    "topk_group": 2, "vocab_size": 262, "rope_theta": 100.0, "max_position_embeddings": 64,
    "use_bias": False,
}  # fmt: skip


def test_groups_that_tie_are_kept_from_the_first() -> None:
    model = Router(LLaDA2Config.read({**CONFIG, "num_experts_per_tok": 8}))
    assert sorted(model.choose(torch.ones(1, 16))[0].tolist()) == [*range(8)]  # two groups of 4


def router(scores: list[float], bias: list[float], **changes: int) -> Router:
    """Return a router that scores its experts so for the row (1, 0, ...)."""
    config = {**CONFIG, "num_experts": len(scores), "num_experts_per_tok": 2, "n_group": 2}
    model = Router(LLaDA2Config.read({**config, "topk_group": 1, **changes})).requires_grad_(False)
    model.weight.zero_()
    model.weight[:, 0] = torch.tensor(scores).logit()
    model.expert_bias = torch.tensor(bias)
    return model


ONE = torch.eye(1, 32)


def test_a_group_is_judged_by_its_two_best_experts() -> None:
    """Groups (0.9, 0.1, 0.1) and (0.6, 0.5, 0.1): 1.0 against 1.1, so 0.9 is out of reach.

    The weights are 0.6 / 1.1 and 0.5 / 1.1, times 2.5: 1.3636 and 1.1364.
    """
    weights, chosen = router([0.9, 0.1, 0.1, 0.6, 0.5, 0.1], [0.0] * 6)(ONE)
    assert chosen.tolist() == [[3, 4]]
    assert weights[0].tolist() == pytest.approx([1.363636, 1.136364], abs=1e-5)


def test_with_every_group_kept_the_best_experts_win() -> None:
    model = router([0.9, 0.1, 0.1, 0.6, 0.5, 0.1], [0.0] * 6, topk_group=2)
    assert model(ONE)[1].tolist() == [[0, 3]]


def test_the_bias_counts_in_the_choice_and_not_in_the_weight() -> None:
    """0.1 + 1 and 0.2 + 1 win by their bias; weights are 0.2 / 0.3 and 0.1 / 0.3, times 2.5."""
    weights, chosen = router([0.1, 0.2, 0.3, 0.6, 0.5, 0.4], [1.0, 1.0, 0, 0, 0, 0])(ONE)
    assert chosen.tolist() == [[1, 0]]
    assert weights[0].tolist() == pytest.approx([1.666667, 0.833333], abs=1e-5)


def test_the_router_works_in_float32_whatever_the_dtype_of_the_model() -> None:
    model = router([0.9, 0.1, 0.1, 0.6, 0.5, 0.1], [0.0] * 6).bfloat16()
    assert model(ONE.bfloat16())[0].dtype == torch.float32
