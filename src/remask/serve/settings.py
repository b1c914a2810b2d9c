"""How a model is served, and how much one request may ask for; no torch and no web framework."""

from dataclasses import dataclass

from remask.consistency.settings import MetricSet
from remask.errors import SettingsError

# Lower than the library's own limits: a request must end before its time is up.
MAX_TRIPS, MAX_REBUILD_STEPS, MAX_BUDGET, MAX_TEMPERATURE = 64, 256, 32, 2.0
MAX_EXAMPLES = 20  # problems to try
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANYWHERE = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """How a model is served."""

    model: str  # as it was named to `load`: in responses and in commands
    preset: str = ""
    dtype: str = "auto"
    metrics: MetricSet = "paper"
    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    key: str | None = None
    max_queue: int = 64  # requests that run or wait
    max_tokens: int = 4_096  # of prompt and canvas together
    body_bytes: int = 2**20
    seconds: float = 120.0  # from arrival to response
    body_seconds: float = 30.0  # for a body to arrive
    drain_seconds: float = 30.0  # for requests to end when the server stops
    last_seconds: float = 5.0  # then, for those that did not end to be answered
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
