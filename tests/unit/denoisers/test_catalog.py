"""The catalogue of published checkpoints against the networks that load them."""

from pathlib import Path
from typing import Any

import pytest
import torch

from remask.denoisers import (
    a2d,
    catalog,
    dream,
    dreamreasoner,
    fast_dllm,
    illada,
    llada,
    llada2,
    llada_moe,
    sdar,
)
from remask.denoisers.catalog import Checkpoint
from remask.denoisers.devices import num_bytes, packed_bytes
from remask.denoisers.native import Family

QWEN3_8B = {
    "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
    "rope_theta": 1e6, "max_position_embeddings": 32768,
}  # fmt: skip
QWEN3_4B = {**QWEN3_8B, "hidden_size": 2560, "intermediate_size": 9728}
QWEN3_600M = {
    **QWEN3_8B, "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
    "intermediate_size": 3072, "max_position_embeddings": 40960, "tie_word_embeddings": True,
}  # fmt: skip
QWEN2_CODER = {
    "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
    "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936,
    "rope_theta": 1e6, "max_position_embeddings": 32768, "tie_word_embeddings": True,
}  # fmt: skip
# The shapes in the published config.json files, by family or by id; those of iLLaDA stand on the
# card of its Base, those of LLaDA2-flash in the repository that its authors train it with.
CONFIGS: dict[str, tuple[Family, dict[str, Any]]] = {
    "LLaDA": (
        llada.FAMILY,
        {
            "d_model": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 32,
            "mlp_hidden_size": 12288, "vocab_size": 126464, "max_sequence_length": 4096,
        },
    ),
    "iLLaDA": (
        illada.FAMILY,
        {
            "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 155136,
            "rope_theta": 1e4, "max_position_embeddings": 8192,
        },
    ),
    "Dream": (
        dream.FAMILY,
        {
            "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
            "rope_theta": 1e6, "max_position_embeddings": 131072,
        },
    ),
    "dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1": (a2d.FAMILY, QWEN3_600M),
    "dllm-hub/Qwen3-0.6B-diffusion-bd3lm-v0.1": (a2d.FAMILY, QWEN3_600M),
    "dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-v0.1": (a2d.QWEN2_FAMILY, QWEN2_CODER),
    "dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-bd3lm-v0.1": (a2d.QWEN2_FAMILY, QWEN2_CODER),
    "JetLM/SDAR-1.7B-Chat": (
        sdar.FAMILY,
        {
            **QWEN3_8B, "hidden_size": 2048, "num_hidden_layers": 28, "num_attention_heads": 16,
            "intermediate_size": 6144,
        },
    ),
    "JetLM/SDAR-4B-Chat": (sdar.FAMILY, QWEN3_4B),
    "JetLM/SDAR-8B-Chat": (sdar.FAMILY, QWEN3_8B),
    "JetLM/SDAR-30B-A3B-Chat": (
        sdar.MOE_FAMILY,
        {
            **QWEN3_8B, "hidden_size": 2048, "num_hidden_layers": 48, "num_key_value_heads": 4,
            "intermediate_size": 6144, "num_experts": 128, "num_experts_per_tok": 8,
            "moe_intermediate_size": 768, "norm_topk_prob": True, "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        },
    ),
    "Gen-Verse/TraDo-4B-Instruct": (sdar.FAMILY, QWEN3_4B),
    "Gen-Verse/TraDo-8B-Instruct": (sdar.FAMILY, QWEN3_8B),
    "DreamReasoner": (dreamreasoner.FAMILY, QWEN3_8B),
    "Efficient-Large-Model/Fast_dLLM_v2_1.5B": (
        fast_dllm.FAMILY,
        {
            "hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12,
            "num_key_value_heads": 2, "intermediate_size": 8960, "vocab_size": 151936,
            "rope_theta": 1e6, "max_position_embeddings": 32768, "tie_word_embeddings": True,
        },
    ),
    "Efficient-Large-Model/Fast_dLLM_v2_7B": (
        fast_dllm.FAMILY,
        {
            "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
            "rope_theta": 1e6, "max_position_embeddings": 32768,
        },
    ),
    "LLaDA-MoE": (
        llada_moe.FAMILY,
        {
            "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16,
            "num_key_value_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
            "expert_intermediate_size": 1024, "vocab_size": 157184, "rope_theta": 5e4,
            "max_position_embeddings": 8192,
        },
    ),
    "LLaDA2": (
        llada2.FAMILY,
        {
            "hidden_size": 2048, "num_hidden_layers": 20, "num_attention_heads": 16,
            "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 5120,
            "first_k_dense_replace": 1, "num_experts": 256, "num_experts_per_tok": 8,
            "num_shared_experts": 1, "moe_intermediate_size": 512, "n_group": 8,
            "topk_group": 4, "routed_scaling_factor": 2.5, "partial_rotary_factor": 0.5,
            "rope_theta": 6e5, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768,
            "vocab_size": 157184, "use_bias": False,
        },
    ),
}  # fmt: skip
for flash in ("LLaDA2.0-flash", "LLaDA2.0-flash-CAP", "LLaDA2.1-flash"):
    CONFIGS[f"inclusionAI/{flash}"] = (
        llada2.FAMILY,
        {
            **CONFIGS["LLaDA2"][1], "hidden_size": 4096, "num_hidden_layers": 32,
            "num_attention_heads": 32, "intermediate_size": 9216, "moe_intermediate_size": 1024,
            "max_position_embeddings": 16384,
        },
    )  # fmt: skip


@pytest.mark.parametrize("checkpoint", catalog.CHECKPOINTS, ids=lambda c: c.id)
def test_sizes_are_those_of_the_network(checkpoint: Checkpoint) -> None:
    family, config = CONFIGS.get(checkpoint.id) or CONFIGS[checkpoint.family]
    with torch.device("meta"):
        network = family.build({**family.named(checkpoint.id), **config})
    assert checkpoint.architecture == family.architecture
    assert checkpoint.num_parameters == sum(p.numel() for p in network.parameters())
    assert checkpoint.num_bytes() == num_bytes(network.to(torch.bfloat16))
    assert checkpoint.num_bytes(4) == num_bytes(network.to(torch.float32))
    assert (checkpoint.vocab_size, checkpoint.width) == tuple(network.embedding.weight.shape)
    assert checkpoint.context <= network.max_length
    assert checkpoint.experts_per_token == config.get("num_experts_per_tok", 0)
    assert checkpoint.num_kept == network.num_kept


@pytest.mark.parametrize("checkpoint", catalog.CHECKPOINTS, ids=lambda c: c.id)
def test_packed_sizes_are_nearly_those_of_the_network(checkpoint: Checkpoint) -> None:
    """Norms, biases, routers and the scales of int8 are left out of the estimate."""
    family, config = CONFIGS.get(checkpoint.id) or CONFIGS[checkpoint.family]
    with torch.device("meta"):
        network = family.build({**family.named(checkpoint.id), **config})
    sizes = packed_bytes(network.to(torch.bfloat16))
    assert checkpoint.packed_bytes() == pytest.approx(sizes, rel=0.005)
    assert sizes["nf4"] < sizes["int8"] < checkpoint.num_bytes()


def test_llada_8b_takes_less_than_7_gb_in_nf4() -> None:
    """Embedding and head: 2 x 126,464 x 4,096 x 2 bytes = 2,071,986,176. The other 6,979,588,096
    numbers take one byte each, or half a byte and a sixteenth: 3,926,018,304.
    """
    checkpoint = catalog.find("GSAI-ML/LLaDA-8B-Instruct")
    assert checkpoint is not None
    assert checkpoint.packed_bytes() == {"int8": 9_051_574_272, "nf4": 5_998_004_480}


@pytest.mark.parametrize(
    ("name", "total_size"),
    [
        ("GSAI-ML/LLaDA-8B-Instruct", 16_031_162_368),
        ("JetLM/SDAR-4B-Chat", 8_822_848_512),
        ("JetLM/SDAR-8B-Chat", 16_381_470_720),
        ("Efficient-Large-Model/Fast_dLLM_v2_7B", 15_231_233_024),
    ],
)
def test_bytes_are_those_of_the_published_index(name: str, total_size: int) -> None:
    """As model.safetensors.index.json gives them."""
    checkpoint = catalog.find(name)
    assert checkpoint is not None
    assert checkpoint.num_bytes() == total_size


def test_ids_are_found_in_any_case_and_only_whole() -> None:
    found = catalog.find("gsai-ml/llada-1.5")
    assert found is not None
    assert found.id == "GSAI-ML/LLaDA-1.5"
    assert catalog.find("LLaDA-1.5") is None
    assert len({c.id for c in catalog.CHECKPOINTS}) == len(catalog.CHECKPOINTS)


@pytest.mark.parametrize("checkpoint", catalog.CHECKPOINTS, ids=lambda c: c.id)
def test_every_checkpoint_stands_on_the_page_of_its_family(checkpoint: Checkpoint) -> None:
    pages = Path(__file__).resolve().parents[3] / "docs" / "models"
    page = (pages / f"{checkpoint.family.lower()}.md").read_text()
    assert f"`{checkpoint.id}`" in page
    assert f"`{checkpoint.architecture}`" in page
    assert f"{checkpoint.num_parameters:,} parameters" in page
    assert f"{checkpoint.context:,} tokens" in page
