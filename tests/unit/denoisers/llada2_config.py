"""A LLaDA2 of a few thousand weights, which its tests share."""

from typing import Any

CONFIG: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 64, "first_k_dense_replace": 1, "num_experts": 16,
    "num_experts_per_tok": 4, "num_shared_experts": 1, "moe_intermediate_size": 16, "n_group": 4,
    "topk_group": 2, "vocab_size": 262, "rope_theta": 100.0, "max_position_embeddings": 64,
    "use_bias": False, "block_size": 4, "rms_norm_eps": 1e-6,
}  # fmt: skip
