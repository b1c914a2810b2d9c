"""Record what the reference implementation of LLaDA computes, on tiny random weights.

    python tests/reference/record_llada.py CHECKOUT

CHECKOUT is a folder with a copy of github.com/ZHZisZZ/dllm; transformers must be installed. The
file, llada.safetensors, is like those of record_dream.py.
"""

import sys
from pathlib import Path
from typing import Any

from record_dream import MASK_ID, PAD_ID, drawn, package, record

LLADA: dict[str, Any] = {
    "d_model": 32,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 2,
    "mlp_hidden_size": 64,
    "vocab_size": 128,
    "embedding_size": 128,
    "max_sequence_length": 64,
    "rope": True,
    "rope_theta": 5e5,
    "rope_full_precision": True,
    "rms_norm_eps": 1e-5,
    "layer_norm_type": "rms",
    "layer_norm_with_affine": True,
    "bias_for_layer_norm": False,
    "attention_layer_norm": False,
    "block_type": "llama",
    "activation_type": "silu",
    "include_bias": False,
    "include_qkv_bias": False,
    "weight_tying": False,
    "mask_token_id": MASK_ID,
    "eos_token_id": PAD_ID,
    "pad_token_id": PAD_ID,
}
DROPOUTS = {"attention_dropout": 0.0, "embedding_dropout": 0.0, "residual_dropout": 0.0}


def main(checkout: Path) -> None:
    """Write llada.safetensors."""
    reference = package("llada", checkout / "dllm" / "pipelines" / "llada" / "models")
    modeling = reference("modeling_llada")
    settings = reference("configuration_llada").LLaDAConfig(**LLADA, **DROPOUTS)
    inner = modeling.create_model_config_from_pretrained_config(settings)
    inner.init_device = "cpu"  # left to itself, the wrapper asks for a GPU
    network = modeling.LLaDAModelLM(settings, modeling.LLaDAModel(inner, init_params=True))
    record("llada", drawn(network), "LLaDAModelLM", LLADA)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
