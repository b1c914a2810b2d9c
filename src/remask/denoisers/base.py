"""The contract between models and everything else.

A denoiser maps tokens, some of them the mask token, to logits. Logits are *position-aligned*: row i
predicts token i, whatever the network does inside (Dream predicts i + 1: the shift ends in its
adapter). Trunk and head are apart because the vocabulary times all positions is the largest tensor
of the whole computation and most of it would be thrown away: callers project only the rows they
still need.
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
        """How it likes to be sampled."""
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
        """None: every position sees every other one.

        A number: positions see their own block of so many and the blocks before it. Such a model
        is a `BlockCausalDenoiser`, and is written, and rebuilt, block by block.
        """
        ...

    def hidden(self, canvas: Canvas) -> Tensor:
        """Return what the head needs to predict every position, (B, L, H)."""
        ...

    def head(self, rows: Tensor) -> Tensor:
        """Return float32 logits (M, V) of rows (M, H) gathered from `hidden`."""
        ...

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the input embeddings of `tokens`, (..., E) float32."""
        ...


class BlockCausalDenoiser(Denoiser, Protocol):
    """A denoiser with blocks of its own, whose `block_size` is a number: no block sees a later one.

    If it has an attribute `answer_apart` that is true, blocks are counted from the first token of
    the answer, in both directions (see `starts_apart`); else from the first token of the row.
    """

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        """Return what the head needs, (B, L, H); `canvas` holds the columns behind the cache."""
        ...

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        """Return the cache with the columns of `canvas`, which follow it, added; one forward pass.

        They are whole blocks, or go to the end of the row, and will not change any more: `cache`
        itself must not be used again. Without one `canvas` begins with the row; without columns
        no pass is needed.
        """
        ...

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        """Return what `hidden` would of each block behind blocks of `clean` (B, L), (B, L, H).

        All blocks are computed in one forward pass, at most twice as long as the row: rows over
        the same text may share the pass over its clean copy.
        """
        ...


def block_causal(denoiser: Denoiser) -> BlockCausalDenoiser:
    """Return a denoiser as one with blocks of its own, or raise where it sees every position."""
    if not hasattr(denoiser, "extend_cache"):
        raise DenoiserError(
            f"{denoiser.name} sees every position at once, and has no cache; call hidden(canvas)."
        )
    return cast(BlockCausalDenoiser, denoiser)


def starts_apart(denoiser: Denoiser) -> bool:
    """Return whether a block-causal model's answers begin with a block; most do not ask for it."""
    return bool(getattr(denoiser, "answer_apart", False))
