"""Denoisers around a denoiser: options that would otherwise be branches in every loop."""

from dataclasses import dataclass, field, replace
from operator import attrgetter

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser, block_causal, starts_apart
from remask.denoisers.kv_cache import KVCache
from remask.values import Canvas


@dataclass(frozen=True, eq=False)
class Wrapped:
    """Everything of the inner denoiser that a wrapper leaves as it is."""

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
class Guided(Wrapped):
    """Classifier-free guidance, LLaDA's form: l = u + (scale + 1) (c - u), u without the prompt.

    Its cache is two in one: layers of the conditional side, then of the blind one; what is said
    behind them, side by side.
    """

    scale: float = 0.0

    @property
    def forwards_per_call(self) -> int:
        return 2 * self.inner.forwards_per_call

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        """Return the conditional and the unconditional states side by side, (B, L, 2 H)."""
        seen, unseen = _halves(cache)
        both = super().hidden(canvas, seen), super().hidden(self._blind(canvas), unseen)
        return torch.cat(both, -1)

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        seen, unseen = _halves(cache)
        known = block_causal(self.inner).extend_cache(canvas, seen)
        blind = block_causal(self.inner).extend_cache(self._blind(canvas), unseen)
        last = None
        if known.last is not None and blind.last is not None:
            last = torch.cat((known.last, blind.last), -1)
        return replace(known, layers=(*known.layers, *blind.layers), last=last)

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        blind = self._blind(replace(canvas, tokens=clean)).tokens
        states = block_causal(self.inner).hidden_noisy_given_clean
        return torch.cat((states(canvas, clean), states(self._blind(canvas), blind)), -1)

    def _blind(self, canvas: Canvas) -> Canvas:
        prompt = ~canvas.canvas if canvas.attend is None else canvas.attend & ~canvas.canvas
        tokens = canvas.tokens.masked_fill(prompt, self.tokenizer.mask_id)
        return replace(canvas, tokens=tokens)

    def head(self, rows: Tensor) -> Tensor:
        """Return guided logits (M, V)."""
        conditional, blind = (self.inner.head(half) for half in rows.chunk(2, -1))
        guided = blind + (self.scale + 1) * (conditional - blind)
        suppressed = (conditional == -torch.inf) | (blind == -torch.inf)  # by a wrapper inside
        return guided.masked_fill(suppressed, -torch.inf)


def _halves(cache: KVCache | None) -> tuple[KVCache | None, KVCache | None]:
    if cache is None:
        return None, None
    middle = len(cache.layers) // 2
    first, second = cache.layers[:middle], cache.layers[middle:]
    seen, unseen = (None, None) if cache.last is None else cache.last.chunk(2, -1)
    return replace(cache, layers=first, last=seen), replace(cache, layers=second, last=unseen)


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
    """The same model on several devices; alone it is the first, `sampling.batches` uses all."""

    others: tuple[Denoiser, ...] = ()

    @property
    def all(self) -> tuple[Denoiser, ...]:
        """Every replica, one per device."""
        return (self.inner, *self.others)
