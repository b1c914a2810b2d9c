"""What the native families share: the frame of a network, its denoiser, and what `load` must know.

A family is one short file: a configuration read from config.json, a `Network` with the family's own
blocks, and a `Family` that names its architecture, its tensors and its chat template.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remask.denoisers.base import Preset
from remask.denoisers.tokenizer import Tokenizer
from remask.denoisers.transformer import RMSNorm
from remask.values import Canvas

# Each parameter of a network with the hub tensors, and their rows, that are stacked into it.
TensorMap = Iterator[tuple[str, list[tuple[str, int]]]]


class Network(nn.Module, ABC):
    """Embedding, blocks, final norm, head; a family brings its blocks and its rotary tables."""

    block_size: int | None = None  # of block-causal attention, in tokens; None: full attention

    def __init__(
        self,
        blocks: Iterable[nn.Module],
        *,
        vocab_size: int,
        width: int,
        eps: float,
        tied: bool,
        max_length: int,
    ) -> None:
        super().__init__()
        self.vocab_size, self.max_length = vocab_size, max_length
        self.embedding = nn.Embedding(vocab_size, width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = RMSNorm(width, eps)
        self.unembedding = None if tied else nn.Linear(width, vocab_size, bias=False)

    @abstractmethod
    def rotary(self, length: int) -> tuple[Tensor, Tensor]:
        """Return cos and sin for `length` positions, each (length, 1, rotated / 2)."""

    def visible(self, length: int, attend: Tensor | None) -> Tensor | None:
        """Return who sees whom, broadcast to (B, heads, L, L); None: everybody sees everybody."""
        return None if attend is None else attend[:, None, None, :]

    def forward(self, tokens: Tensor, attend: Tensor | None = None) -> Tensor:
        """Return the normed last hidden states, (B, L, width); row i predicts token i."""
        length = tokens.shape[1]
        cos, sin = self.rotary(length)
        seen = self.visible(length, attend)
        x = self.embedding(tokens)  # (B, L, width)
        for block in self.blocks:
            x = block(x, cos, sin, seen)
        out: Tensor = self.norm(x)
        return out

    def project(self, rows: Tensor) -> Tensor:
        """Return logits (..., V) of hidden rows (..., width)."""
        head = self.embedding if self.unembedding is None else self.unembedding
        return F.linear(rows, head.weight)

    def compile_blocks(self) -> None:
        """Compile block by block: all share one compilation, the whole trunk would be unrolled."""
        for block in self.blocks:
            block.compile(dynamic=False)


@dataclass(frozen=True, kw_only=True)
class Family:
    """What `load` must know about an architecture."""

    architecture: str  # architectures[0] of config.json
    build: Callable[[Mapping[str, Any]], Network]  # config.json -> the empty network
    tensor_map: Callable[[Any], TensorMap]  # of such a network
    template: str  # of the chat, with one field, {prompt}
    ends: tuple[str, ...]  # tokens that end a turn, beside EOS


@dataclass(frozen=True, kw_only=True, eq=False)
class NativeDenoiser:
    """A loaded network behind the `Denoiser` contract."""

    name: str
    model: Network
    tokenizer: Tokenizer
    preset: Preset
    forwards_per_call: int = 1

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.embedding.weight.device

    @property
    def vocab_size(self) -> int:
        """Width of the logits: rows of the embedding."""
        return self.model.vocab_size

    @property
    def max_length(self) -> int:
        """The trained context."""
        return self.model.max_length

    @property
    def block_size(self) -> int | None:
        """Positions of a block, where attention is block-causal."""
        return self.model.block_size

    @torch.no_grad()
    def hidden(self, canvas: Canvas) -> Tensor:
        """Return normed hidden states, (B, L, width)."""
        out: Tensor = self.model(canvas.tokens, canvas.attend)
        return out

    @torch.no_grad()
    def head(self, rows: Tensor) -> Tensor:
        """Return float32 logits (M, V)."""
        return self.model.project(rows).float()

    @torch.no_grad()
    def embed(self, tokens: Tensor) -> Tensor:
        """Return input embeddings, (..., width) float32."""
        out: Tensor = self.model.embedding(tokens)
        return out.float()


def stacked(network: Network, tensor_map: TensorMap) -> dict[str, Tensor]:
    """Return, by hub name, the place of each tensor of a checkpoint inside the network."""
    ours = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    places: dict[str, Tensor] = {}
    for name, parts in tensor_map:
        whole = ours[name].detach()
        rows = whole if whole.dim() == 1 else whole.flatten(0, -2)  # experts: one below the other
        start = 0
        for hub, num in parts:
            places[hub] = rows[start : start + num]
            start += num
        if start != len(rows):
            raise ValueError(f"{name} has {len(rows)} rows, its hub tensors {start}.")
    return places
