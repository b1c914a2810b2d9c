"""The contract of a model: `Denoiser` and `BlockCausalDenoiser`.

A denoiser maps tokens, some of them masked, to logits. Logits are *position-aligned*: row i
predicts token i, even if the network itself predicts token i + 1 in row i, like Dream. `hidden` and
`head` are separate because logits of all positions would be the largest tensor of the computation;
callers pass only the rows that they need to `head`.
"""

from typing import Protocol, cast

import torch
from torch import Tensor

from remask.denoisers.kv_cache import KVCache
from remask.denoisers.preset import Preset as Preset
from remask.denoisers.tokenizer import Tokenizer
from remask.errors import DenoiserError
from remask.values import Canvas


class Denoiser(Protocol):
    """A masked diffusion language model."""

    @property
    def name(self) -> str:
        """The name, folder or hub id it was loaded from."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to ids and back, with the special ids and the chat template."""
        ...

    @property
    def preset(self) -> Preset:
        """Default sampling settings and acceptance thresholds."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        ...

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        ...

    @property
    def max_length(self) -> int:
        """Longest prompt + canvas, in tokens."""
        ...

    @property
    def forwards_per_call(self) -> int:
        """Forward passes that one call of `hidden` costs per row."""
        ...

    @property
    def block_size(self) -> int | None:
        """Tokens per block, or None for full attention.

        With blocks, a position attends to its own block and to earlier ones. The model is a
        `BlockCausalDenoiser` and is sampled block by block.
        """
        ...

    def hidden(self, canvas: Canvas) -> Tensor:
        """Return hidden states from which `head` predicts every position, (B, L, H)."""
        ...

    def head(self, rows: Tensor) -> Tensor:
        """Return float32 logits (M, V) of rows (M, H) of `hidden`."""
        ...

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the input embeddings of `tokens`, (..., E) float32."""
        ...


class BlockCausalDenoiser(Denoiser, Protocol):
    """A denoiser with block-causal attention: blocks do not attend to later blocks.

    If its attribute `answer_apart` is true, blocks are counted from the first token of the answer,
    in both directions; otherwise from the first token of the row.
    """

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        """Return hidden states (B, L, H) of `canvas`, the columns after the cache."""
        ...

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        """Return the cache extended by the columns of `canvas`, in one forward pass.

        The columns are whole blocks or reach the end of the row. `cache` must not be used again.
        Without a cache, `canvas` is the beginning of the row. Without columns, no pass is needed.
        """
        ...

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        """Return hidden states (B, L, H) of each block after the earlier blocks of `clean` (B, L).

        All blocks are computed in one forward pass over at most twice the length of the row. Rows
        with the same text may share the pass over the clean tokens.
        """
        ...


def block_causal(denoiser: Denoiser) -> BlockCausalDenoiser:
    """Return the denoiser as a block-causal one, or raise if it has full attention."""
    if not hasattr(denoiser, "extend_cache"):
        raise DenoiserError(
            f"{denoiser.name} has full attention and no cache; call hidden(canvas)."
        )
    return cast(BlockCausalDenoiser, denoiser)


def starts_apart(denoiser: Denoiser) -> bool:
    """Return whether blocks are counted from the first token of the answer."""
    return bool(getattr(denoiser, "answer_apart", False))
