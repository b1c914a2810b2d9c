"""Denoisers around a denoiser: options that would otherwise be branches in every loop."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.tokenizer import Tokenizer
from remask.values import Canvas


@dataclass(frozen=True, eq=False)
class _Wrapped:
    """Everything of the inner denoiser that a wrapper leaves as it is."""

    inner: Denoiser

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def tokenizer(self) -> Tokenizer:
        return self.inner.tokenizer

    @property
    def preset(self) -> Preset:
        return self.inner.preset

    @property
    def device(self) -> torch.device:
        return self.inner.device

    @property
    def vocab_size(self) -> int:
        return self.inner.vocab_size

    @property
    def max_length(self) -> int:
        return self.inner.max_length

    @property
    def forwards_per_call(self) -> int:
        return self.inner.forwards_per_call

    @property
    def block_size(self) -> int | None:
        return self.inner.block_size

    def hidden(self, canvas: Canvas) -> Tensor:
        return self.inner.hidden(canvas)

    def head(self, rows: Tensor) -> Tensor:
        return self.inner.head(rows)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.inner.embed(tokens)


@dataclass(frozen=True, eq=False)
class Guided(_Wrapped):
    """Classifier-free guidance, LLaDA's form: l = u + (scale + 1) (c - u), u without the prompt."""

    scale: float = 0.0

    @property
    def forwards_per_call(self) -> int:
        return 2 * self.inner.forwards_per_call

    def hidden(self, canvas: Canvas) -> Tensor:
        """Return the conditional and the unconditional states side by side, (B, L, 2 H)."""
        prompt = ~canvas.canvas if canvas.attend is None else canvas.attend & ~canvas.canvas
        blind = canvas.tokens.masked_fill(prompt, self.tokenizer.mask_id)
        both = (self.inner.hidden(canvas), self.inner.hidden(replace(canvas, tokens=blind)))
        return torch.cat(both, -1)

    def head(self, rows: Tensor) -> Tensor:
        """Return guided logits (M, V)."""
        conditional, blind = (self.inner.head(half) for half in rows.chunk(2, -1))
        guided = blind + (self.scale + 1) * (conditional - blind)
        suppressed = (conditional == -torch.inf) | (blind == -torch.inf)  # by a wrapper inside
        return guided.masked_fill(suppressed, -torch.inf)


@dataclass(frozen=True, eq=False)
class Suppressed(_Wrapped):
    """Never predicts the given ids, such as EOS while a model ends too early."""

    ids: tuple[int, ...] = ()

    def head(self, rows: Tensor) -> Tensor:
        """Return logits (M, V) with minus infinity at the suppressed ids."""
        logits = self.inner.head(rows)
        logits[:, list(self.ids)] = -torch.inf
        return logits


@dataclass(frozen=True, eq=False)
class Counted(_Wrapped):
    """Counts forward passes, one per row and call."""

    counts: list[int] = field(default_factory=list)  # rows x passes of each call

    def hidden(self, canvas: Canvas) -> Tensor:
        """Count, then pass on."""
        self.counts.append(len(canvas.tokens) * self.inner.forwards_per_call)
        return self.inner.hidden(canvas)

    @property
    def forwards(self) -> int:
        """Forward passes so far."""
        return sum(self.counts)
