"""config.json of every family: each key is obeyed, known to change nothing, or refused by name."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from standin_checkpoints import STANDINS
from standin_checkpoints.vocabulary import number

from remask.denoisers.config import IGNORED, Llama3Rotary
from remask.denoisers.llada2 import LLaDA2, LLaDA2Config
from remask.denoisers.load import FAMILIES, outline
from remask.denoisers.qwen import QwenConfig
from remask.denoisers.transformer import rotary_tables
from remask.errors import CheckpointError

CPU = torch.device("cpu")
# One checkpoint of each family, with the keys of the authors' own file.
STANDIN_CONFIGS: dict[str, dict[str, Any]] = {
    config["architectures"][0]: config
    for config in (
        standin.config(number(standin.vocabulary, true_ids=False), 16)
        for standin in STANDINS.values()
    )
}
# Keys of other networks. A key that the family obeys or checks itself is not in its list below.
EXTRA: dict[str, Any] = {
    "expert_capacity": 48, "routing_strategy": "expert_choice", "logit_softcap": 30.0,
    "attn_logit_softcapping": 50.0, "attention_sink": True, "num_sink_tokens": 4,
    "query_pre_attn_scalar": 256, "n_group": 8, "topk_method": "noaux_tc", "q_lora_rank": 512,
    "sliding_window_pattern": 6, "no_rope_layers": [1, 0], "residual_multiplier": 0.22,
    "embedding_multiplier": 12.0, "num_nextn_predict_layers": 1, "rope_local_base_freq": 1e4,
    "mlp_activation": "relu2", "parallel_residual": True, "is_decoder": True,
}  # fmt: skip


LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 100,
}  # fmt: skip


def build(config: dict[str, Any]) -> Any:
    return outline(config, Path("model"))


@pytest.mark.parametrize("architecture", sorted(STANDIN_CONFIGS))
@pytest.mark.parametrize("key", EXTRA)
def test_a_key_that_the_network_does_not_obey_is_refused_with_its_value(
    architecture: str, key: str
) -> None:
    config = STANDIN_CONFIGS[architecture]
    build(config)
    if key in config:
        return  # LLaDA2's own
    with pytest.raises(CheckpointError) as caught:
        build({**config, key: EXTRA[key]})
    assert f"config.json sets {key} to {EXTRA[key]!r}; " in str(caught.value)
    build({**config, key: None})  # says nothing


# Keys of a family, with values that its network does not implement.
REFUSED: dict[str, dict[str, Any]] = {
    "LLaDAModelLM": {
        "alibi": True, "attention_layer_norm": True, "include_bias": True,
        "include_qkv_bias": True, "input_emb_norm": True, "scale_logits": True,
        "layer_norm_type": "default", "block_type": "sequential", "activation_type": "swiglu",
        "rope": False, "bias_for_layer_norm": True, "clip_qkv": 8.0,
    },
    "DreamModel": {
        "hidden_act": "gelu", "rope_scaling": {"type": "yarn", "factor": 4.0},
        "use_sliding_window": True, "attention_bias": True,
    },
    "A2DQwen3LMHeadModel": {
        "rope_parameters": {"rope_theta": 100.0, "rope_type": "yarn"}, "attention_bias": True,
    },
    "ILLaDAForCausalLM": {
        "layer_norm_eps": 1e-5, "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu",
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    },
    "LLaDAMoEModelLM": {
        "attention_bias": True, "clip_qkv": 8.0, "hidden_act": "gelu",
        "partial_rotary_factor": 0.5, "qk_layernorm": False,
        "rope_scaling": {"type": "linear", "factor": 2.0}, "shared_expert_intermediate_size": 16,
        "tie_word_embeddings": True, "moe_layer_freq": [0, 1],
    },
    "LLaDA2MoeModelLM": {
        "hidden_act": "gelu", "moe_router_enable_expert_bias": False, "norm_head": True,
        "norm_topk_prob": False, "rope_scaling": {"type": "yarn", "factor": 2.0},
        "score_function": "softmax", "tie_word_embeddings": True, "use_qk_norm": False,
        "use_qkv_bias": True, "use_sliding_window": True,
    },
}  # fmt: skip
SIZES = {"d_model", "n_layers", "mlp_hidden_size", "max_sequence_length"} | {
    "hidden_size", "num_hidden_layers", "vocab_size", "max_position_embeddings", "num_experts",
    "expert_intermediate_size", "moe_intermediate_size",
}  # fmt: skip


@pytest.mark.parametrize(
    ("architecture", "key"), [(name, key) for name, keys in REFUSED.items() for key in keys]
)
def test_a_value_that_the_network_does_not_implement_is_refused(
    architecture: str, key: str
) -> None:
    with pytest.raises(CheckpointError, match=f"^config.json sets {key} to "):
        build({**STANDIN_CONFIGS[architecture], key: REFUSED[architecture][key]})


@pytest.mark.parametrize(
    ("architecture", "key"),
    [(name, key) for name, config in STANDIN_CONFIGS.items() for key in sorted(SIZES & {*config})],
)
@pytest.mark.parametrize("value", [None, 0, -1, "many", True])
def test_a_size_that_is_missing_or_invalid_is_named(
    architecture: str, key: str, value: object
) -> None:
    config = {**STANDIN_CONFIGS[architecture], "embedding_size": None, key: value}
    with pytest.raises(CheckpointError, match=f"config.json gives .*{value!r}"):
        build(config)


@given(
    config=st.sampled_from(sorted(STANDIN_CONFIGS)).map(STANDIN_CONFIGS.__getitem__),
    key=st.text(min_size=1, max_size=12),
    value=st.booleans() | st.integers() | st.text() | st.lists(st.integers()) | st.just({}),
)
def test_a_key_that_nobody_knows_is_refused_in_one_line(
    config: dict[str, Any], key: str, value: Any
) -> None:
    known = {*IGNORED, *config, "chat", "shifted", "block_size", "mlp_bias"}
    if key in known:
        return
    with pytest.raises(CheckpointError, match="does not support this key") as caught:
        build({**config, key: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("architecture", sorted(STANDIN_CONFIGS))
@pytest.mark.parametrize(
    "key", ["use_cache", "attention_dropout", "bos_token_id", "initializer_range", "top_p", "dtype"]
)
def test_a_key_that_changes_nothing_may_have_any_value(architecture: str, key: str) -> None:
    build({**STANDIN_CONFIGS[architecture], key: 0.3})


@pytest.mark.parametrize(
    ("architecture", "key"),
    [
        ("LLaDA2MoeModelLM", "use_qk_norm"), ("LLaDA2MoeModelLM", "norm_topk_prob"),
        ("LLaDAMoEModelLM", "qk_layernorm"), ("LLaDAModelLM", "rope"),
    ],
)  # fmt: skip
def test_null_for_a_flag_that_must_be_true_is_refused(architecture: str, key: str) -> None:
    """The authors' code reads null as false."""
    with pytest.raises(CheckpointError, match=f"config.json sets {key} to None; "):
        build({**STANDIN_CONFIGS[architecture], key: None})


@pytest.mark.parametrize("architecture", sorted(STANDIN_CONFIGS))
def test_null_in_rope_parameters_says_nothing(architecture: str) -> None:
    config = STANDIN_CONFIGS[architecture]
    assert build({**config, "rope_parameters": {"rope_theta": None}}).config == build(config).config


@pytest.mark.parametrize("architecture", sorted(FAMILIES))
def test_every_family_has_its_authors_keys(architecture: str) -> None:
    if architecture == "A2DLlamaLMHeadModel":  # of one's own: none is published
        return
    assert architecture in STANDIN_CONFIGS


@pytest.mark.parametrize("architecture", ["DreamModel", "SDARForCausalLM", "LLaDA2MoeModelLM"])
def test_the_width_of_a_window_is_harmless_only_if_windows_are_off(architecture: str) -> None:
    config = {**STANDIN_CONFIGS[architecture], "sliding_window": 4096}
    build({**config, "use_sliding_window": False})
    without = {key: value for key, value in config.items() if key != "use_sliding_window"}
    with pytest.raises(CheckpointError, match="sets sliding_window to 4096"):
        build(without)
    with pytest.raises(CheckpointError, match="sets use_sliding_window to True"):
        build({**config, "use_sliding_window": True})


@pytest.mark.parametrize(
    ("rotary", "what"),
    [
        ({"rope_type": "default", "attention_factor": 1.2}, "attention_factor in rope"),
        ({"rope_type": "llama3"}, "gives factor as None"),
        ({"rope_type": "dynamic", "factor": 2.0}, "to 'dynamic'"),
        ({**LLAMA3, "mscale": 1.2}, "mscale in rope"),
        ({**LLAMA3, "factor": 0}, "gives factor as 0"),
        ({**LLAMA3, "low_freq_factor": 4.0}, r"must be above low_freq_factor \(4.0\), got 4.0"),
        ("default", "to 'default'"),
        ([1], r"to \[1\]"),
    ],
)
@pytest.mark.parametrize("key", ["rope_parameters", "rope_scaling"])
def test_rotary_settings_are_read_key_by_key(key: str, rotary: dict[str, Any], what: str) -> None:
    with pytest.raises(CheckpointError, match=what):
        build({**STANDIN_CONFIGS["A2DQwen3LMHeadModel"], key: rotary})


def test_llama3_frequencies_by_hand() -> None:
    """Head size 8, theta 1e4: frequencies 1, 0.1, 0.01, 0.001.

    They fit 15.9, 1.59, 0.159 and 0.0159 times into 100 positions: the first is kept, the last two
    are divided by 8; of the second (1.5915 - 1) / (4 - 1) is kept.
    """
    config = QwenConfig.read({
        "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 8, "vocab_size": 8, "max_position_embeddings": 8,
        "rope_scaling": LLAMA3,
    })  # fmt: skip
    assert config.rope_scaling is not None
    cos, sin = rotary_tables(2, 8, 1e4, CPU, stretched=config.rope_scaling)
    share = (100 * 0.1 / (2 * math.pi) - 1) / 3
    middle = (1 - share) * 0.1 / 8 + share * 0.1
    expected = torch.tensor([1.0, middle, 0.01 / 8, 0.001 / 8])
    assert torch.allclose(torch.atan2(sin[1, 0], cos[1, 0]), expected)


@pytest.mark.parametrize("theta", [1e4, 5e5])
@pytest.mark.parametrize("length", [32, 8192])
def test_llama3_frequencies_equal_the_library(theta: float, length: int) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {**LLAMA3, "original_max_position_embeddings": length, "rope_theta": theta}
    config = transformers.LlamaConfig(
        hidden_size=64, num_attention_heads=1, rope_parameters=rope, max_position_embeddings=length
    )
    frequencies, scale = ROPE_INIT_FUNCTIONS["llama3"](config, CPU)
    stretched = Llama3Rotary(**{key: value for key, value in rope.items() if key != "rope_theta"})
    cos, sin = rotary_tables(2, 64, theta, CPU, stretched=stretched)
    assert scale == 1
    assert torch.allclose(torch.atan2(sin[1, 0], cos[1, 0]), frequencies, rtol=1e-6)


@pytest.mark.parametrize("architecture", sorted(STANDIN_CONFIGS))
def test_families_whose_authors_stretch_positions_take_llama3(architecture: str) -> None:
    config = {**STANDIN_CONFIGS[architecture], "rope_scaling": LLAMA3}
    if architecture in ("LLaDAModelLM", "ILLaDAForCausalLM"):
        with pytest.raises(CheckpointError, match="sets rope_scaling to 'llama3'"):
            build(config)
        return
    plain = build({**config, "rope_scaling": None})
    assert build(config).stretched == Llama3Rotary(**LLAMA3)
    assert plain.stretched is None


def test_a_llada2_may_have_experts_everywhere_and_none_that_is_shared() -> None:
    config = {
        **STANDIN_CONFIGS["LLaDA2MoeModelLM"], "first_k_dense_replace": 0, "num_shared_experts": 0,
        "head_dim": None,
    }  # fmt: skip
    assert LLaDA2Config.read(config).head_dim == 16 // 2
    network = build(config)
    assert isinstance(network, LLaDA2)
    assert not [name for name, _ in network.named_parameters() if "shared" in name]
    assert all("mlp.routed.gate_up" in dict(block.named_parameters()) for block in network.blocks)
