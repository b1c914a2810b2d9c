"""The bodies of requests. Types are strict, and unknown fields are refused by name."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from remask.consistency.settings import (
    ConsistencySettings,
    MaskDesign,
    Metrics,
    RebuildSteps,
    RebuildTemperature,
    Trips,
)
from remask.decide.settings import Budget
from remask.errors import InputError
from remask.sampling.settings import Temperature as AnyTemperature
from remask.serve.errors import InvalidValue
from remask.serve.settings import (
    MAX_BUDGET,
    MAX_REBUILD_STEPS,
    MAX_STOPS,
    MAX_TEMPERATURE,
    MAX_TOP_LOGPROBS,
    MAX_TRIPS,
)
from remask.settings import Seed
from remask.tasks.settings import AnswerKind
from remask.turns import SYSTEM_ROLES, AskedChat, read_turns

GeneratedTask = Literal["wordmath", "countdown", "choice", "pycode"]
RequestSeed = Annotated[Seed, Field(ge=0, lt=2**63)]
Temperature = Annotated[AnyTemperature, Field(le=MAX_TEMPERATURE)]
DrawBudget = Annotated[Budget, Field(le=MAX_BUDGET)]
Tokens = Annotated[int, Field(ge=1, lt=2**31)]
Label = Annotated[str, Field(max_length=1_000)]
Zero = Annotated[float, Field(ge=0, le=0)]
EmptyList = Annotated[list[Any], Field(max_length=0)]
NumTop = Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)]
_USUAL = ConsistencySettings()
_SEEDS = 2**63
_MIN_TOP_P = 1e-6  # keeps only the most probable token, whatever the vocabulary


class RequestPart(BaseModel):
    """A part of a request."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class TripSettings(RequestPart):
    """The field `remask`: how to verify."""

    trips: Annotated[Trips, Field(le=MAX_TRIPS)] = _USUAL.trips
    rebuild_steps: Annotated[RebuildSteps, Field(le=MAX_REBUILD_STEPS)] = _USUAL.rebuild_steps
    mask_ratio: Annotated[float, Field(ge=0, le=1)] | Literal["uniform"] = _USUAL.mask_ratio
    mask_design: MaskDesign = _USUAL.mask_design
    rebuild_temperature: Annotated[RebuildTemperature, Field(le=MAX_TEMPERATURE)] = (
        _USUAL.rebuild_temperature
    )
    metrics: Metrics | None = None
    scorer: str | None = None
    threshold: float | None = None
    trace: bool = False
    item: str | None = Field(default=None, min_length=1, max_length=200)


class VerifySettings(TripSettings):
    """How to verify an answer, and whether the served model wrote it."""

    own: bool = False


class SolveSettings(TripSettings):
    """How to verify, and the largest number of samples."""

    budget: DrawBudget = 10


class ChatSettings(TripSettings):
    """How to verify the answers of a chat."""

    budget: DrawBudget = 1
    kind: AnswerKind = "number"


class TextPart(RequestPart):
    """A part of a message."""

    type: Literal["text"]
    text: str


class Message(RequestPart):
    """One turn. Fields that clients send back with an answer are accepted if they are neutral."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None  # null: an empty answer
    name: str | None = None  # ignored: no chat template has names
    refusal: None = None
    audio: None = None
    function_call: None = None
    tool_calls: EmptyList | None = None
    annotations: list[Any] | None = None
    provider_specific_fields: dict[str, Any] | None = None
    reasoning_content: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """Drop unknown fields that are null: every client sends its own."""
        if not isinstance(given, dict):
            return given
        known = cls.model_fields
        return {name: v for name, v in given.items() if v is not None or name in known}

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content or ())


Messages = Annotated[list[Message], Field(min_length=1)]


class PromptRequest(RequestPart):
    """A question: exactly one of prompt, messages and task."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    task: GeneratedTask | None = None
    level: str | None = None
    kind: AnswerKind | None = None
    seed: RequestSeed = 0


class VerifyRequest(PromptRequest):
    """Body of POST /v1/verify."""

    answer: str
    remask: VerifySettings = VerifySettings()


class SolveRequest(PromptRequest):
    """Body of POST /v1/solve."""

    temperature: Temperature | None = None
    max_tokens: Tokens | None = None
    stream: bool = False
    remask: SolveSettings = SolveSettings()


class StreamOptions(RequestPart):
    """Options of a stream."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class TextFormat(RequestPart):
    """The only response format."""

    type: Literal["text"]


class OpenAIRequest(RequestPart):
    """Fields of both of OpenAI's routes."""

    model: str
    n: int | None = Field(default=None, ge=1, le=MAX_BUDGET)
    temperature: Temperature | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Tokens | None = None
    seed: Annotated[int, Field(ge=-_SEEDS, lt=_SEEDS)] | None = None
    stop: str | Annotated[list[str], Field(max_length=MAX_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Label | None = None  # ignored
    # Only neutral values, see `CANNOT`.
    frequency_penalty: Zero | None = None
    presence_penalty: Zero | None = None
    logit_bias: dict[str, Zero] | None = None

    @property
    def num_choices(self) -> int:
        """Number of answers to each prompt."""
        return self.n or 1

    @property
    def stops(self) -> tuple[str, ...]:
        """Non-empty texts that end an answer."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(filter(None, given))

    @property
    def draw_seed(self) -> int:
        """The seed, made non-negative."""
        return (self.seed or 0) % _SEEDS

    @property
    def nucleus(self) -> float | None:
        """`top_p` above 0, or None for the preset's."""
        return None if self.top_p is None else max(self.top_p, _MIN_TOP_P)

    @property
    def has_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def check(self) -> None:
        """Raise if fields contradict each other."""
        if self.has_usage and not self.stream:
            raise InvalidValue("stream_options requires stream true.", "stream_options")


class NeutralChatFields(RequestPart):
    """Fields of a chat that this server cannot honour: only their neutral values are accepted."""

    audio: None = None
    function_call: Literal["none", "auto"] | None = None
    functions: EmptyList | None = None
    modalities: list[Literal["text"]] | None = None
    moderation: None = None
    prediction: None = None
    prompt_cache_options: None = None
    prompt_cache_retention: Literal["in_memory"] | None = None
    reasoning_effort: Literal["none"] | None = None
    response_format: TextFormat | None = None
    service_tier: Literal["auto", "default"] | None = None
    store: Literal[False] | None = None
    tool_choice: Literal["none", "auto"] | None = None
    tools: EmptyList | None = None
    verbosity: Literal["medium"] | None = None
    web_search_options: None = None


class ChatRequest(OpenAIRequest, NeutralChatFields):
    """Body of POST /v1/chat/completions."""

    messages: Messages
    max_completion_tokens: Tokens | None = None
    logprobs: bool | None = None
    top_logprobs: NumTop | None = None
    remask: ChatSettings | None = None
    # Accepted and ignored.
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_key: Label | None = None
    safety_identifier: Label | None = None

    def check(self) -> None:
        super().check()
        most, same = self.max_tokens, self.max_completion_tokens
        if None not in (most, same) and most != same:
            message = f"max_tokens must be max_completion_tokens ({same}), got {most}."
            raise InvalidValue(message, "max_tokens")
        if self.top_logprobs and not self.logprobs:
            raise InvalidValue("top_logprobs requires logprobs true.", "top_logprobs")
        if self.remask is not None and self.remask.budget > 1 and self.num_choices > 1:
            message = f"n must be 1 if remask.budget is above 1, got {self.num_choices}."
            raise InvalidValue(message, "n")


class CompletionRequest(OpenAIRequest):
    """Body of POST /v1/completions."""

    prompt: str | Annotated[list[str], Field(min_length=1, max_length=MAX_BUDGET)]
    echo: bool | None = None
    logprobs: NumTop | None = None
    best_of: int | None = None
    suffix: Literal[""] | None = None  # only a neutral value

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    def check(self) -> None:
        super().check()
        if self.best_of not in (None, self.num_choices):
            message = f"best_of must be n ({self.num_choices}), got {self.best_of}."
            raise InvalidValue(message, "best_of")
        if self.echo and self.logprobs is not None:
            raise InvalidValue("echo must be false with logprobs, got true.", "echo")
        num = len(self.prompts) * self.num_choices
        if num > MAX_BUDGET:
            message = f"Prompts times n must be at most {MAX_BUDGET}, got {num}."
            raise InvalidValue(message, "prompt")


# Fields whose refusal says that the server cannot honour them.
CANNOT = frozenset(NeutralChatFields.model_fields) | {
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "suffix",
    "stream_options.include_obfuscation",
}


def split_turns(messages: Sequence[Message]) -> AskedChat:
    """Return the conversation, or raise if the messages are not one.

    Empty system messages are dropped; empty answers are kept.
    """
    for number, message in enumerate(messages):
        if message.role == "user" and not message.text.strip():
            raise InvalidValue(
                "content of a user message must be a non-empty string.",
                f"messages.{number}.content",
            )
    turns = [(m.role, m.text) for m in messages if m.role not in SYSTEM_ROLES or m.text.strip()]
    try:
        return read_turns(turns)
    except InputError as error:
        raise InvalidValue(str(error), "messages") from None
