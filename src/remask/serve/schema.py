"""The bodies of requests; OpenAI's are in `openai_schema`. What is not here is refused by name.

Types are strict: "4" is no number.
"""

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
from remask.sampling.settings import Temperature as AnyTemperature
from remask.serve.settings import MAX_BUDGET, MAX_REBUILD_STEPS, MAX_TEMPERATURE, MAX_TRIPS
from remask.settings import Seed
from remask.tasks.settings import AnswerKind

GeneratedTask = Literal["wordmath", "countdown", "choice", "pycode"]
RequestSeed = Annotated[Seed, Field(ge=0, lt=2**63)]
Temperature = Annotated[AnyTemperature, Field(le=MAX_TEMPERATURE)]
_USUAL = ConsistencySettings()
DrawBudget = Annotated[Budget, Field(le=MAX_BUDGET)]
Tokens = Annotated[int, Field(ge=1, lt=2**31)]


class RequestPart(BaseModel):
    """A part of a request."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class TripSettings(RequestPart):
    """How to verify: the field `remask`."""

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
    """How to verify an answer, and who wrote it."""

    own: bool = False  # this model, so that thresholds for its own answers apply


class SolveSettings(TripSettings):
    """How to verify, and how often to draw."""

    budget: DrawBudget = 10


class ChatSettings(TripSettings):
    """How to verify a chat's answers."""

    budget: DrawBudget = 1
    kind: AnswerKind = "number"


class TextPart(RequestPart):
    """A part of a message."""

    type: Literal["text"]
    text: str


class Message(RequestPart):
    """One turn."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None  # null: an empty answer that is sent back
    name: str | None = None  # no template has names
    # What clients send back of an answer: no part of the conversation, and nothing else is taken.
    refusal: None = None
    audio: None = None
    function_call: None = None
    tool_calls: Annotated[list[Any], Field(max_length=0)] | None = None
    annotations: list[Any] | None = None
    provider_specific_fields: dict[str, Any] | None = None
    reasoning_content: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """Leave out fields of any name that hold nothing: every client has its own."""
        if not isinstance(given, dict):
            return given
        known = cls.model_fields
        return {name: v for name, v in given.items() if v is not None or name in known}

    @property
    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content or ())


Messages = Annotated[list[Message], Field(min_length=1)]


class PromptRequest(RequestPart):
    """What is to be answered: exactly one of prompt, messages and task."""

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
