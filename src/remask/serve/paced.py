"""A denoiser that says so before every pass: short requests need not wait for a long batch."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from remask.denoisers.kv_cache import KVCache
from remask.denoisers.wrap import Wrapped
from remask.values import Canvas


@dataclass(frozen=True, eq=False)
class PacedDenoiser(Wrapped):
    """Calls `before` with the number of tokens of every pass."""

    before: Callable[[int], None]

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        """Say so, then pass on."""
        self.before(canvas.tokens.numel())
        return super().hidden(canvas, cache)

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        """Say so, then pass on."""
        self.before(canvas.tokens.numel())
        return super().extend_cache(canvas, cache)
