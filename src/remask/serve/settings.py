"""How a model is served, and how much one request may ask for; no torch and no web framework."""

from dataclasses import dataclass
from typing import Annotated

from remask.consistency.settings import Metrics
from remask.errors import SettingsError
from remask.settings import Setting, check
from remask.values import ROUNDTRIPS
from remask.verifier.settings import FittedFile, MaxForwards

# The most that one request may ask for: less than the library allows, so that it ends in time.
MAX_TRIPS, MAX_REBUILD_STEPS, MAX_BUDGET, MAX_TEMPERATURE = 64, 256, 32, 2.0
MAX_STOPS, MAX_TOP_LOGPROBS = 16, 20
MAX_EXAMPLES = 20  # problems to try
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANYWHERE = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """How a model is served."""

    model: str  # as it was named to `load`: in responses and in commands
    preset: str = ""
    dtype: str = "auto"
    weights: str = "full"
    scorer: Annotated[str, Setting("What scores answers; remask verify --help names them.")] = (
        ROUNDTRIPS
    )
    metrics: Metrics = "paper"
    fitted: FittedFile = None
    max_forwards: MaxForwards = None
    host: Annotated[
        str, Setting("Address to listen at; elsewhere than loopback a key is needed.")
    ] = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    key: str | None = None
    max_queue: Annotated[
        int, Setting("Most requests that run or wait; others get 429.", least=1)
    ] = 64
    max_tokens: Annotated[int, Setting("Most tokens of a prompt and its answer.", least=1)] = 4_096
    body_bytes: Annotated[int, Setting("Most bytes of a body.", least=1)] = 2**20
    seconds: Annotated[float, Setting("Time limit of a request.", above=0)] = 120.0
    head_seconds: Annotated[
        float, Setting("Time for the head of a request to arrive.", above=0)
    ] = 10.0
    body_seconds: Annotated[float, Setting("Time for a body to arrive.", above=0)] = 30.0
    drain_seconds: Annotated[
        float, Setting("Time for requests to end when the server stops.", least=0)
    ] = 30.0
    last_seconds: Annotated[
        float, Setting("Then, time to answer those that did not end.", least=0)
    ] = 5.0
    log_prompts: Annotated[bool, Setting("Write prompts and answers to the log.")] = False

    def __post_init__(self) -> None:
        """Refuse what cannot work, and what would be open to everyone."""
        check(self)
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
