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
        """Return what config.json of the hub's layout would say, or raise for what none could."""
        self._check_parts()
        heads, kv_heads, head_dim = self._check_heads()
        self._check_rotation(head_dim)
        known = {
            name: self.facts[f"{self.kind}.{key}"]
            for key, name in _KEYS.items()
            if f"{self.kind}.{key}" in self.facts
        }
        tokens = self.facts.get("tokenizer.ggml.tokens") or []
        num_ids = self._num_ids(len(tokens))
        self._check_ids(num_ids)
        return {
            "architectures": [ARCHITECTURES[self.kind]],
            "vocab_size": num_ids,
            "tie_word_embeddings": "output.weight" not in self.stored,
            "eos_token_id": self.facts.get("tokenizer.ggml.eos_token_id"),
            "pad_token_id": self.facts.get("tokenizer.ggml.padding_token_id"),
            **known,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
        }

    def _check_parts(self) -> None:
        """Raise where the file is one of several, or of a network with other parts."""
        if int(self.facts.get("split.count", 1)) > 1:
            raise self._wrong("split.count", "it is one file of several; join them (gguf-split)")
        if self.facts.get(f"{self.kind}.expert_count", 0):
            raise self._wrong(f"{self.kind}.expert_count", "models with experts are not adapted")
        window = self.facts.get(f"{self.kind}.attention.sliding_window", 0)
        if window and window < self._number("context_length"):
            raise self._wrong(
                f"{self.kind}.attention.sliding_window", "sliding windows are not supported"
            )

    def _check_heads(self) -> tuple[int, int, int]:
        """Return heads, heads of keys and values, and the width of one; raise where they clash."""
        for key in ("block_count", "context_length", "feed_forward_length"):
            self._number(key)
        heads, width = self._number("attention.head_count"), self._number("embedding_length")
        kv_heads = self._number("attention.head_count_kv", heads)  # where unsaid, as many
        head_dim = self._number("attention.key_length", width // heads)
        if self._number("attention.value_length", head_dim) != head_dim:
            raise self._wrong(
                f"{self.kind}.attention.value_length", f"keys and values must both be {head_dim}"
            )
        if heads % kv_heads or head_dim % 2:
            raise CheckpointError(
                f"{self.path} gives {self.kind}.attention.head_count {heads}, head_count_kv "
                f"{kv_heads} and a width of {head_dim} for each; kv heads must divide the heads "
                "evenly, and the width must be even."
            )
        return heads, kv_heads, head_dim

    def _check_rotation(self, head_dim: int) -> None:
        """Raise where positions are told otherwise than by the frequencies of rope.freq_base."""
        if _SCALED in self.stored:
            raise CheckpointError(
                f"{self.path} holds {_SCALED}; stretched rotary embeddings are not supported."
            )
        usual: dict[str, tuple[Any, ...]] = {
            "rope.scaling.type": ("none",),
            "rope.scaling.factor": (0, 1),
            "rope.scale_linear": (0, 1),
            "rope.dimension_count": (head_dim,),
        }
        for key, allowed in usual.items():
            name = f"{self.kind}.{key}"
            if self.facts.get(name, allowed[0]) not in allowed:
                raise self._wrong(name, f"only {allowed[-1]} is supported")

    def _check_ids(self, num_ids: int) -> None:
        """Raise where a special token is none of the embedding's, or nothing can end an answer."""
        names = [f"tokenizer.ggml.{role}_token_id" for role in ("eos", "padding", "bos")]
        for name in names:
            value = self.facts.get(name, 0)
            if not isinstance(value, int) or not 0 <= value < num_ids:
                raise self._wrong(name, f"it must be an id below {num_ids}")
        if not self.facts.keys() & set(names[:2]):
            raise CheckpointError(f"{self.path} lacks {names[0]}; download another file.")

    def _number(self, key: str, default: int | None = None) -> int:
        name = f"{self.kind}.{key}"
        value = self.facts.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self._wrong(name, "it must be a whole number above 0")
        return value

    def _wrong(self, name: str, why: str) -> CheckpointError:
        return CheckpointError(f"{self.path} gives {name} as {self.facts.get(name)!r}; {why}.")

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
