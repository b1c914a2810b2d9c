"""The config.json of LLaDA2: what is read, what is assumed, what is refused by name."""

from typing import Any

import pytest
from llada2_config import CONFIG

from remask.denoisers.llada2 import LLaDA2Config
from remask.errors import CheckpointError

PUBLISHED: dict[str, Any] = {
    **CONFIG,
    "moe_router_enable_expert_bias": True,
    "norm_head": False,
    "norm_topk_prob": True,
    "partial_rotary_factor": 0.5,
    "rms_norm_eps": 1e-6,
    "routed_scaling_factor": 2.5,
    "score_function": "sigmoid",
    "use_qk_norm": True,
    "use_qkv_bias": False,
}


DEFAULTS = {  # of the authors' class
    "first_k_dense_replace": 0, "head_dim": 8, "n_group": 8, "num_shared_experts": 0,
    "rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "topk_group": 4, "use_bias": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (name, value)
        for name in sorted(CONFIG.keys() - {"use_bias", "block_size"})
        for value in (None, 0, -1, "many", True)
        if not (value is None and name in DEFAULTS) and not (value == 0 and DEFAULTS.get(name) == 0)
        if not (value == 0 and name == "head_dim")
    ],
)
def test_a_missing_or_senseless_key_is_named(name: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=rf"gives {name} as "):
        LLaDA2Config.read({**PUBLISHED, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_key_value_heads", 3),
        ("n_group", 3),
        ("topk_group", 0.5),
        ("num_experts_per_tok", 9),
        ("num_experts_per_tok", 1),
        ("use_bias", "no"),
        ("block_size", 0),
    ],
)
def test_sizes_that_do_not_fit_one_another_are_refused(name: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=rf"{name} (as )?{value!r}"):
        LLaDA2Config.read({**PUBLISHED, name: value})


@pytest.mark.parametrize("missing", [{}, dict.fromkeys(DEFAULTS)])
def test_a_missing_key_has_the_default_of_the_authors_class(missing: dict[str, None]) -> None:
    """head_dim is hidden_size / num_attention_heads, 32 / 4."""
    config = {name: value for name, value in PUBLISHED.items() if name not in DEFAULTS} | missing
    config["num_experts"] = 16
    read = LLaDA2Config.read({**config, "num_experts_per_tok": 2})
    assert {name: getattr(read, name) for name in DEFAULTS} == DEFAULTS
