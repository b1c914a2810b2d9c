"""Qwen's decoder, the base of most families: configuration, network and tensor names.

Attention is bidirectional, in the whole row or up to the end of a block. Unsupported settings, such
as sliding windows, raise.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import nn

from remask.denoisers.config import Llama3Rotary, head_dim, read_block, read_fields
from remask.denoisers.native import Network, TensorMap
from remask.denoisers.transformer import Attention, Block, GatedMLP
from remask.errors import CheckpointError

SUPPORTED: Mapping[str, Any] = {
    "hidden_act": "silu",
    "use_sliding_window": False,
    "attention_bias": False,
    "partial_rotary_factor": 1,
    "mlp_bias": False,
    "rope_interleaved": False,
    "use_mrope": False,
}
# Qwen's chat template, without a system turn and with Qwen2's default one.
CHAT = "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
SYSTEM_TURN = "<|im_start|>system\n{system}<|im_end|>\n"
ASSISTANT_CHAT = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" + CHAT
END_OF_TURN = "<|im_end|>"
_WHOLE = "full_attention"


@dataclass(frozen=True, kw_only=True)
class QwenConfig:
    """Keys of config.json."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    rope_theta: float = 10_000.0  # this and the following defaults are those of transformers
    rope_scaling: Llama3Rotary | None = None
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False

    @classmethod
    def read(
        cls,
        config: Mapping[str, Any],
        *,
        supported: Mapping[str, Any] = SUPPORTED,
        family: str = "Qwen",
        ignored: Collection[str] = (),
    ) -> Self:
        """Return the configuration, or raise naming the key that does not fit."""
        _refuse_windows(config, family)
        changed = {
            "num_key_value_heads": config.get("num_key_value_heads")
            or config.get("num_attention_heads"),
            "head_dim": config.get("head_dim") or head_dim(config),
        }
        known = read_fields(
            cls,
            {**config, **changed},
            supported=supported,
            family=family,
            ignored=("layer_types", *ignored),
        )
        return cls(**known).checked()

    def checked(self) -> Self:
        if self.num_attention_heads % self.num_key_value_heads or self.head_dim % 2:
            raise CheckpointError(
                f"config.json gives num_attention_heads {self.num_attention_heads}, "
                f"num_key_value_heads {self.num_key_value_heads} and head_dim {self.head_dim}; "
                "kv heads must divide the heads evenly, and head_dim must be even."
            )
        return self


@dataclass(frozen=True, kw_only=True)
class QwenMoeConfig(QwenConfig):
    """Keys of config.json for networks with experts in every layer."""

    num_experts: int
    num_experts_per_tok: int

    def checked(self) -> Self:
        if self.num_experts_per_tok > self.num_experts:
            raise CheckpointError(
                f"config.json gives num_experts_per_tok {self.num_experts_per_tok}, "
                f"more than num_experts {self.num_experts}."
            )
        return super().checked()


def _refuse_windows(config: Mapping[str, Any], family: str) -> None:
    """Raise unless all layers have full attention."""
    kinds = config.get("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or {*map(str, kinds)} != {_WHOLE}):
        raise CheckpointError(
            f"config.json sets layer_types to {kinds!r}; "
            f"this {family} implementation supports {_WHOLE!r} in every layer only."
        )


class Qwen(Network):
    """The network. Qwen2 has biases on q, k and v; Qwen3 norms q and k; Llama does neither.

    Families override the class attributes.
    """

    family = "Qwen"  # name in errors
    qkv_bias = False
    qk_norm = False
    supported = SUPPORTED  # keys of config.json with the supported value
    ignored: Collection[str] = ()  # keys that the authors' code ignores
    block_key = ""  # key of the block size; "": full attention
    usual_block: int | None = None  # default of the block size

    def __init__(self, config: QwenConfig, block_size: int | None = None) -> None:
        c = self.config = config
        blocks = (
            Block(
                Attention(
                    c.hidden_size,
                    c.num_attention_heads,
                    c.num_key_value_heads,
                    head_dim=c.head_dim,
                    qkv_bias=self.qkv_bias,
                    qk_norm_eps=c.rms_norm_eps if self.qk_norm else None,
                ),
                self.mlp(),
                c.hidden_size,
                c.rms_norm_eps,
            )
            for _ in range(c.num_hidden_layers)
        )
        super().__init__(
            blocks,
            vocab_size=c.vocab_size,
            width=c.hidden_size,
            eps=c.rms_norm_eps,
            tied=c.tie_word_embeddings,
            max_length=c.max_position_embeddings,
            rotated=c.head_dim,
            theta=c.rope_theta,
            stretched=c.rope_scaling,
        )
        self.block_size = block_size

    @classmethod
    def build(cls, config: Mapping[str, Any]) -> Self:
        block = read_block(config, cls.block_key, cls.usual_block) if cls.block_key else None
        return cls(cls.read(config), block)

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> QwenConfig:
        return QwenConfig.read(config, **cls.keys())

    @classmethod
    def keys(cls) -> dict[str, Any]:
        """Return the arguments of `QwenConfig.read` for this family."""
        return {
            "supported": cls.supported,
            "family": cls.family,
            "ignored": {cls.block_key, *cls.ignored} - {""},
        }

    def mlp(self) -> nn.Module:
        return GatedMLP(self.config.hidden_size, self.config.intermediate_size)

    def mlp_map(self, ours: str, hub: str) -> TensorMap:
        c = self.config
        halves = [(f"{hub}{n}_proj.weight", c.intermediate_size) for n in ("gate", "up")]
        yield f"{ours}gate_up.weight", halves
        yield f"{ours}down.weight", [(f"{hub}down_proj.weight", c.hidden_size)]


def tensor_map(network: Qwen) -> TensorMap:
    """Yield each parameter of a `Qwen` with the hub tensors stacked into it."""
    c = network.config
    heads = {"q": c.num_attention_heads, "k": c.num_key_value_heads, "v": c.num_key_value_heads}
    yield "embedding.weight", [("model.embed_tokens.weight", c.vocab_size)]
    for i in range(c.num_hidden_layers):
        ours, hub = f"blocks.{i}.", f"model.layers.{i}."
        yield f"{ours}attention_norm.weight", [(f"{hub}input_layernorm.weight", c.hidden_size)]
        for kind in ("weight", "bias") if network.qkv_bias else ("weight",):
            yield (
                f"{ours}attention.qkv.{kind}",
                [(f"{hub}self_attn.{n}_proj.{kind}", heads[n] * c.head_dim) for n in heads],
            )
        for n in "qk" if network.qk_norm else "":
            norm = f"{hub}self_attn.{n}_norm.weight"
            yield f"{ours}attention.qk_norm.{n}.weight", [(norm, c.head_dim)]
        yield f"{ours}attention.out.weight", [(f"{hub}self_attn.o_proj.weight", c.hidden_size)]
        yield f"{ours}mlp_norm.weight", [(f"{hub}post_attention_layernorm.weight", c.hidden_size)]
        yield from network.mlp_map(f"{ours}mlp.", f"{hub}mlp.")
    yield "norm.weight", [("model.norm.weight", c.hidden_size)]
    if not c.tie_word_embeddings:
        yield "unembedding.weight", [("lm_head.weight", c.vocab_size)]
