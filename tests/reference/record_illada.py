"""Record what the reference implementation of iLLaDA computes, on tiny random weights.

    python tests/reference/record_illada.py FOLDER

FOLDER holds modeling_illada.py of the checkpoint's repository, or a copy; transformers must be
installed. The configuration class is not needed: a plain holder of the keys takes its place. What
is drawn and written is as in record_dream.py, which stands beside this.
"""

import sys
import types
from pathlib import Path
from typing import Any

import record_dream  # first: it says what oneDNN may use, before torch is imported
import transformers

ILLADA: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "rope_theta": 1e4,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
    "pad_token_id": record_dream.PAD_ID,
}
# Keys that the reference asks for and that shape nothing here.
ASKED: dict[str, Any] = {
    "rope_scaling": None,
    "layer_norm_eps": None,
    "attention_bias": False,
    "mlp_bias": False,
    "hidden_act": "silu",
    "resid_pdrop": 0.0,
    "attention_dropout": 0.0,
}


class ILLaDAConfig(transformers.PretrainedConfig):
    """The keys of config.json, unchecked."""


def main(folder: Path) -> None:
    """Write illada.safetensors."""
    illada = record_dream.package("illada", folder)
    held = types.ModuleType("reference_illada.configuration_illada")
    held.ILLaDAConfig = ILLaDAConfig  # type: ignore[attr-defined]
    sys.modules[held.__name__] = held
    reference = illada("modeling_illada").ILLaDAForCausalLM
    # transformers 5 wants to know what the head is tied to.
    reference._tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    config = ILLaDAConfig(**ILLADA, **ASKED, attn_implementation="sdpa")
    config.rope_theta, config.rope_scaling = ILLADA["rope_theta"], None
    network = record_dream.drawn(reference(config))
    record_dream.record("illada", network, "ILLaDAForCausalLM", ILLADA)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
