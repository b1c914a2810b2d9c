"""The model, its limits, and who may ask: what all routes share."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from remask.consistency.settings import MetricSet
from remask.errors import SettingsError
from remask.serve.batcher import Batcher
from remask.serve.errors import Fault

if TYPE_CHECKING:
    from remask.denoisers.base import Denoiser
    from remask.serve.metrics import Meters

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_LONGEST = 16  # characters that a token may have on average
ANYWHERE = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """How a model is served."""

    model: str  # as it was named to `load`: in answers and in commands
    preset: str = ""
    dtype: str = "auto"
    metrics: MetricSet = "paper"
    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    key: str | None = None
    max_queue: int = 64  # requests that run or wait
    max_tokens: int = 4_096  # of prompt and canvas together
    body_bytes: int = 2**20
    seconds: float = 120.0  # from arrival to answer
    body_seconds: float = 30.0  # for a body to arrive
    drain_seconds: float = 30.0
    log_prompts: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot work, and what would be open to everyone."""
        for name in ("max_queue", "max_tokens", "body_bytes", "seconds"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be above 0.")
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise SettingsError("the key has characters that no header can hold; use ASCII.")
        if self.key is None and self.host not in LOOPBACK:
            raise SettingsError(
                f"host {self.host} can be reached from elsewhere, so a key is needed; set "
                "REMASK_API_KEY, or give --key-file."
            )

    @property
    def hosts(self) -> frozenset[str] | None:
        """Names that a request's Host may have; None: any, where the key alone decides."""
        if self.host in ANYWHERE and not self.allowed_hosts:
            return None
        return LOOPBACK | {self.host.lower(), *(name.lower() for name in self.allowed_hosts)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Service:
    """A model at work."""

    denoiser: "Denoiser"
    settings: ServeSettings
    meters: "Meters"
    batcher: Batcher
    # Few: what is done here (tokens, documents) is short, and each thread keeps memory for itself.
    helpers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))
    started: int = field(default_factory=lambda: int(time.time()))

    def check_model(self, name: str | None) -> None:
        """Refuse another model than the one that is served."""
        if name not in (None, self.settings.model):
            raise Fault(
                404, f"model {name!r} is not served here; use {self.settings.model!r}.",
                param="model", code="model_not_found",
            )  # fmt: skip

    def check_text(self, *texts: str) -> None:
        """Refuse what is too long beyond doubt, before it is cut into tokens."""
        most = _LONGEST * self.settings.max_tokens
        if any(len(text) > most for text in texts):
            raise Fault(
                400, f"a text is longer than {most} characters; shorten it.",
                code="too_many_tokens",
            )  # fmt: skip

    def check_tokens(self, num_prompt: int, num_canvas: int) -> None:
        """Refuse a row beyond the limit."""
        if num_prompt + num_canvas > self.settings.max_tokens:
            raise Fault(
                400,
                f"the prompt has {num_prompt} tokens and the canvas {num_canvas}, more than the "
                f"{self.settings.max_tokens} that a request may have; shorten one of them.",
                code="too_many_tokens",
            )

    def limits(self) -> dict[str, Any]:
        """Return what a request may not exceed, as /v1/models tells it."""
        from remask.serve import schema

        s = self.settings
        return {
            "body_bytes": s.body_bytes, "max_tokens": s.max_tokens, "trips": schema.MAX_TRIPS,
            "rebuild_steps": schema.MAX_REBUILD_STEPS, "budget": schema.MAX_BUDGET,
            "queue": s.max_queue, "seconds": s.seconds,
        }  # fmt: skip
