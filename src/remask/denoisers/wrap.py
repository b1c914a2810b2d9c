"""Wrappers around a denoiser: suppressed ids, counted forward passes, replicas."""

from dataclasses import dataclass, field
from operator import attrgetter

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser, block_causal, starts_apart
from remask.denoisers.kv_cache import KVCache
from remask.values import Canvas


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A denoiser that forwards everything to the inner one; wrappers override parts of it."""

    inner: Denoiser

    name = property(attrgetter("inner.name"))
    tokenizer = property(attrgetter("inner.tokenizer"))
    preset = property(attrgetter("inner.preset"))
    device = property(attrgetter("inner.device"))
    vocab_size = property(attrgetter("inner.vocab_size"))
    max_length = property(attrgetter("inner.max_length"))
    forwards_per_call = property(attrgetter("inner.forwards_per_call"))
    block_size = property(attrgetter("inner.block_size"))

    @property
    def answer_apart(self) -> bool:
        return starts_apart(self.inner)

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        if cache is None:
            return self.inner.hidden(canvas)
        return block_causal(self.inner).hidden(canvas, cache)

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        return block_causal(self.inner).extend_cache(canvas, cache)

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        return block_causal(self.inner).hidden_noisy_given_clean(canvas, clean)

    def head(self, rows: Tensor) -> Tensor:
        return self.inner.head(rows)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.inner.embed(tokens)


@dataclass(frozen=True, eq=False)
class Suppressed(Wrapped):
    """Never predicts the given ids, such as EOS while a model ends too early."""

    ids: tuple[int, ...] = ()

    def head(self, rows: Tensor) -> Tensor:
        logits = self.inner.head(rows)
        logits[:, list(self.ids)] = -torch.inf
        return logits


@dataclass(frozen=True, eq=False)
class Counted(Wrapped):
    """Counts forward passes, one per row and call, however many columns it computes."""

    by_call: list[int] = field(default_factory=list)  # rows x passes of each call

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        self._count(canvas)
        return super().hidden(canvas, cache)

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        self._count(canvas)
        return block_causal(self.inner).extend_cache(canvas, cache)

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        self._count(canvas)
        return block_causal(self.inner).hidden_noisy_given_clean(canvas, clean)

    def _count(self, canvas: Canvas) -> None:
        if canvas.tokens.shape[1] > 0:  # no columns, no pass
            self.by_call.append(len(canvas.tokens) * self.inner.forwards_per_call)

    @property
    def forwards(self) -> int:
        """Forward passes so far."""
        return sum(self.by_call)


@dataclass(frozen=True, eq=False)
class Replicas(Wrapped):
    """The same model on several devices; `sampling.batches` spreads batches over `all`."""

    others: tuple[Denoiser, ...] = ()

    @property
    def all(self) -> tuple[Denoiser, ...]:
        """Every replica, one per device."""
        return (self.inner, *self.others)
