"""Settings of the server and limits of one request; imports neither torch nor FastAPI."""

from dataclasses import dataclass
from typing import Annotated

from remask.consistency.settings import Metrics
from remask.errors import SettingsError
from remask.settings import Setting, check
from remask.values import ROUNDTRIPS
from remask.verifier.settings import FittedFile, MaxForwards

# Limits of one request, below the limits of the library, so that requests end in time.
MAX_TRIPS, MAX_REBUILD_STEPS, MAX_BUDGET, MAX_TEMPERATURE = 64, 256, 32, 2.0
MAX_STOPS, MAX_TOP_LOGPROBS = 16, 20
MAX_EXAMPLES = 20
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANYWHERE = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Settings of one server."""

    model: str  # its name in responses
    scorer: Annotated[str, Setting("What scores answers; remask verify --help names them.")] = (
        ROUNDTRIPS
    )
    metrics: Metrics = "paper"
    fitted: FittedFile = None
    max_forwards: MaxForwards = None
    host: Annotated[
        str, Setting("Address to listen at; any other than loopback requires a key.")
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
        check(self)
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise SettingsError("The key must be printable ASCII.")
        if self.key is None and self.host not in LOOPBACK:
            raise SettingsError(
                f"host {self.host} requires a key: other machines can reach it. Set "
                "REMASK_API_KEY, or pass --key-file."
            )

    @property
    def hosts(self) -> frozenset[str] | None:
        """Allowed Host headers; None allows any, because a key is required then."""
        if self.host in ANYWHERE and not self.allowed_hosts:
            return None
        return LOOPBACK | {self.host.lower(), *(name.lower() for name in self.allowed_hosts)}
