"""The bodies of OpenAI's routes.

Three sorts of fields: those that the server honours; those that change no answer (labels, hints),
taken and not looked at; those that ask for what it cannot do, of which the neutral value is taken.
Any other is refused by name.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from remask.serve.schema import (
    ChatSettings,
    Messages,
    RequestPart,
    Temperature,
    Tokens,
)
from remask.serve.settings import MAX_BUDGET, MAX_STOPS, MAX_TOP_LOGPROBS

_SEEDS = 2**63
_NARROWEST = 1e-6  # a nucleus that holds the likeliest token of any vocabulary, and no other
Zero = Annotated[float, Field(ge=0, le=0)]
Nothing = Annotated[list[Any], Field(max_length=0)]
StopList = Annotated[list[str], Field(max_length=MAX_STOPS)]
SignedSeed = Annotated[int, Field(ge=-_SEEDS, lt=_SEEDS)]
Label = Annotated[str, Field(max_length=1_000)]


class StreamOptions(RequestPart):
    """OpenAI's."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class TextFormat(RequestPart):
    """The only format."""

    type: Literal["text"]


class OpenAIRequest(RequestPart):
    """What both routes have."""

    model: str
    n: int | None = Field(default=None, ge=1, le=MAX_BUDGET)
    temperature: Temperature | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Tokens | None = None
    seed: SignedSeed | None = None
    stop: str | StopList | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    frequency_penalty: Zero | None = None
    presence_penalty: Zero | None = None
    logit_bias: dict[str, Zero] | None = None
    user: Label | None = None

    @property
    def num_choices(self) -> int:
        """Answers to each prompt."""
        return self.n or 1

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts that an answer is cut at; an empty one stands nowhere."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(filter(None, given))

    @property
    def draw_seed(self) -> int:
        """The seed of the draws, which have no negative ones."""
        return (self.seed or 0) % _SEEDS

    @property
    def nucleus(self) -> float | None:
        """The share of probability that is drawn from; of 0 the likeliest token is left."""
        return None if self.top_p is None else max(self.top_p, _NARROWEST)

    @property
    def tells_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class ChatRequest(OpenAIRequest):
    """Body of POST /v1/chat/completions."""

    messages: Messages
    max_completion_tokens: Tokens | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    remask: ChatSettings | None = None
    # Taken, and nothing follows from them.
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_key: Label | None = None
    safety_identifier: Label | None = None
    # Only what asks for nothing.
    audio: None = None
    function_call: Literal["none", "auto"] | None = None
    functions: Nothing | None = None
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
    tools: Nothing | None = None
    verbosity: Literal["medium"] | None = None
    web_search_options: None = None


class CompletionRequest(OpenAIRequest):
    """Body of POST /v1/completions."""

    prompt: str | Annotated[list[str], Field(min_length=1, max_length=MAX_BUDGET)]
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    best_of: int | None = None
    suffix: Literal[""] | None = None

    @property
    def prompts(self) -> list[str]:
        """The prompts, one or more."""
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt


# Fields whose refusal says that the server cannot do what they ask for.
CANNOT = frozenset({
    "frequency_penalty", "presence_penalty", "logit_bias", "audio", "function_call", "functions",
    "modalities", "moderation", "prediction", "prompt_cache_options", "prompt_cache_retention",
    "reasoning_effort", "response_format", "service_tier", "store", "tool_choice", "tools",
    "verbosity", "web_search_options", "suffix", "stream_options.include_obfuscation",
})  # fmt: skip
