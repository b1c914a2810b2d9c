"""A GGUF file of a Llama, Qwen2 or Qwen3 -> config.json and tensors of the hub's layout.

Quantised tensors are brought back to numbers by the format's own functions. The converter that
writes such files turns the rows of q and k of a Llama, head by head, from halves to pairs, because
its rotary embedding turns neighbours; here they are turned back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remask.errors import CheckpointError, MissingExtra

# The architecture of config.json by that of the file.
ARCHITECTURES = {
    "llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"
}  # fmt: skip
_KEYS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
}
_WHOLE = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"
}  # fmt: skip
_PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_SCALED = "rope_freqs.weight"  # frequencies that are not those of rope.freq_base


@dataclass(frozen=True, kw_only=True, eq=False)
class GgufFile:
    """A file that was opened: its metadata, and its tensors where they lie."""

    path: Path
    facts: Mapping[str, Any]
    stored: Mapping[str, Any]  # gguf's own readers of tensors, by the file's names

    @staticmethod
    def open(path: Path) -> "GgufFile":
        """Return the file, or raise where it is none, or of another architecture."""
        try:
            from gguf import GGUFReader
        except ImportError:
            raise MissingExtra("gguf", "gguf", "name a folder in the hub's layout") from None
        try:
            reader = GGUFReader(path)
            facts = {name: field.contents() for name, field in reader.fields.items()}
        except Exception as error:  # whatever a damaged file makes the reader raise
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise CheckpointError(
                f"{path} cannot be read as GGUF ({reason[0]:.120}); download it again."
            ) from None
        if facts.get("general.architecture") not in ARCHITECTURES:
            raise CheckpointError(
                f"{path} declares the architecture {facts.get('general.architecture')!r}; "
                f"known are {', '.join(ARCHITECTURES)}."
            )
        stored = {tensor.name: tensor for tensor in reader.tensors}
        return GgufFile(path=path, facts=facts, stored=stored)

    @property
    def kind(self) -> str:
        """The architecture by the file's name for it."""
        return str(self.facts["general.architecture"])

    def config(self) -> dict[str, Any]:
        """Return what config.json of the hub's layout would say."""
        known = {
            name: self.facts[f"{self.kind}.{key}"]
            for key, name in _KEYS.items()
            if f"{self.kind}.{key}" in self.facts
        }
        scaling = self.facts.get(f"{self.kind}.rope.scaling.type", "none")
        if scaling != "none" or _SCALED in self.stored:
            known["rope_scaling"] = {"rope_type": scaling if scaling != "none" else "llama3"}
        tokens = self.facts.get("tokenizer.ggml.tokens") or []
        return {
            "architectures": [ARCHITECTURES[self.kind]],
            "vocab_size": self._num_ids(len(tokens)),
            "tie_word_embeddings": "output.weight" not in self.stored,
            "eos_token_id": self.facts.get("tokenizer.ggml.eos_token_id"),
            "pad_token_id": self.facts.get("tokenizer.ggml.padding_token_id"),
            **known,
        }

    def _num_ids(self, num_tokens: int) -> int:
        embedding = self.stored.get("token_embd.weight")
        return num_tokens if embedding is None else int(embedding.shape[-1])  # innermost first

    def tensors(self, heads: int, kv_heads: int) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor in float32, by the hub's name for it."""
        from gguf.quants import dequantize

        for name, stored in self.stored.items():
            try:
                array = dequantize(stored.data, stored.tensor_type).astype(np.float32)
            except NotImplementedError:
                raise CheckpointError(
                    f"{self.path} stores {name} as {stored.tensor_type.name}, which the package "
                    "gguf cannot read; name a file with other quantisation."
                ) from None
            hub = hub_name(name)
            if self.kind == "llama" and hub.endswith(("q_proj.weight", "k_proj.weight")):
                array = unpermuted(array, heads if "q_proj" in hub else kv_heads)
            yield hub, torch.from_numpy(np.ascontiguousarray(array))


def hub_name(name: str) -> str:
    """Return the hub's name of a tensor; an unknown one stays as it is."""
    stem, _, end = name.rpartition(".")
    if stem in _WHOLE:
        return f"{_WHOLE[stem]}.{end}"
    block, _, part = stem.removeprefix("blk.").partition(".")
    if stem.startswith("blk.") and part in _PARTS:
        return f"model.layers.{block}.{_PARTS[part]}.{end}"
    return name


def unpermuted(array: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Return rows (heads x head_dim, width) with each head's pairs as two halves again."""
    rows, width = array.shape
    return array.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)
