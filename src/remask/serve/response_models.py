"""What answers look like, for the OpenAPI document: `telling` makes them, tests compare the two."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A part of an answer; every field without a default is always there."""

    model_config = ConfigDict(extra="forbid")


class ErrorShape(Shape):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None
    request_id: str


class ErrorDocument(Shape):
    """Every answer other than 200."""

    error: ErrorShape


class Metric(Shape):
    """One part of the composite."""

    value: float | None
    weight: float
    by_trip: list[float | None]


class Token(Shape):
    """One token of an answer."""

    text: str
    drift: float | None
    confidence: float | None
    special: bool


class TripShape(Shape):
    """One round trip."""

    text: str
    masked: list[bool]
    rebuilt: list[str]
    steps: list[int | None]
    original: list[float | None]


class Cost(Shape):
    """What it took."""

    forwards: int
    seconds: float


class Grade(Shape):
    """What is known of the truth."""

    id: str
    gold: str
    right: bool
    process_ok: bool | None


class Verification(Shape):
    """How far to trust an answer."""

    id: str
    object: Literal["remask.verification"]
    model: str
    item: str
    text: str
    extracted: str | None
    score: float | None
    stderr: float | None
    threshold: float
    accepted: bool
    reason: str
    metrics: dict[str, Metric]
    tokens: list[Token]
    trips: list[TripShape]
    cost: Cost
    settings: dict[str, Any]
    graded: Grade | None
    command: str | None


class WrittenToken(Shape):
    """One token of an answer that was drawn."""

    text: str
    confidence: float
    step: int
    special: bool


class Attempt(Shape):
    """An answer that was drawn."""

    number: int
    text: str
    extracted: str | None
    tokens: list[WrittenToken]
    confidence: float
    finish_reason: Literal["stop", "length"]
    forwards: int
    verification: Verification


class Decided(Shape):
    """What rejection sampling settled on: the event `decision`."""

    id: str
    object: Literal["remask.solution"]
    model: str
    item: str
    prompt: str
    action: Literal["accept", "fallback"]
    accepted: int | None
    number: int
    text: str
    extracted: str | None
    score: float | None
    threshold: float
    budget: int
    reason: str
    num_attempts: int
    cost: Cost
    settings: dict[str, Any]
    graded: Grade | None
    command: str | None


class Solution(Decided):
    """The same with its attempts."""

    attempts: list[Attempt]


class LogprobToken(Shape):
    """OpenAI's, with the step that revealed the token."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[Any]
    step: int


class Logprobs(Shape):
    """OpenAI's."""

    content: list[LogprobToken]
    refusal: None


class AssistantMessage(Shape):
    """OpenAI's."""

    role: Literal["assistant"]
    content: str
    refusal: None


class Choice(Shape):
    """OpenAI's, with its verification where one was asked for."""

    index: int
    message: AssistantMessage
    finish_reason: Literal["stop", "length"]
    logprobs: Logprobs | None
    remask: Verification | None = None


class Usage(Shape):
    """OpenAI's."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(Shape):
    """OpenAI's, with the decision where one was asked for."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    remask: Decided | None = None


class ModelShape(Shape):
    """OpenAI's, with what can be asked of it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    remask: dict[str, Any]


class ModelList(Shape):
    """OpenAI's."""

    object: Literal["list"]
    data: list[ModelShape]


class ExampleAnswer(Shape):
    """An answer to try."""

    label: Literal["right", "flawed", "wrong"]
    text: str


class Example(Shape):
    """A problem to try."""

    id: str
    task: str
    level: str
    seed: int
    kind: str
    prompt: str
    gold: str
    answers: list[ExampleAnswer]


class ExampleList(Shape):
    """Problems to try."""

    object: Literal["list"]
    data: list[Example]


class Status(Shape):
    """Whether the server is well."""

    status: Literal["ok"]
