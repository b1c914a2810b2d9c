"""OpenAI's route: chat completions, whole or as a stream of finished blocks."""

import math
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from remask.sampling.drafts import Draft
from remask.serve import programs
from remask.serve.errors import InvalidValue
from remask.serve.inputs import draft_of, read_chat, scorer_of
from remask.serve.programs import Program, Verified
from remask.serve.request import ClientRequest
from remask.serve.responses import (
    FinishReason,
    Responder,
    Response,
    SolveDecision,
    Verification,
    drawn,
    new_id,
)
from remask.serve.routes import STREAMED, event, event_stream, log_texts, respond, solve_program
from remask.serve.schema import ChatRequest
from remask.serve.service import Service
from remask.values import Sample

if TYPE_CHECKING:
    from fastapi import APIRouter

END_OF_STREAM = "data: [DONE]\n\n"
_LEAST = -9999.0  # OpenAI's least logarithm


class LogprobToken(Response):
    """OpenAI's, with the step that revealed the token."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[Any]
    step: int


class Logprobs(Response):
    """OpenAI's; what the numbers mean is in docs/server.md."""

    content: list[LogprobToken]
    refusal: None


class AssistantMessage(Response):
    """OpenAI's."""

    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(Response):
    """OpenAI's, with its verification where the request has `remask`."""

    index: int
    message: AssistantMessage
    finish_reason: FinishReason
    logprobs: Logprobs | None
    remask: Verification | None = None


class ChatUsage(Response):
    """OpenAI's."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(Response):
    """OpenAI's, with the decision where `remask.budget` is above 1."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    remask: SolveDecision | None = None


def add_chat_route(router: "APIRouter", service: Service) -> None:
    """Add the route."""

    @router.post("/v1/chat/completions", response_model=ChatCompletion, responses=STREAMED)
    async def chat(body: ChatRequest, request: Request) -> HttpResponse:
        """Answer a chat, in OpenAI's shape."""
        return await _chat(service, body, request)


async def _chat(service: Service, body: ChatRequest, request: Request) -> HttpResponse:
    client = ClientRequest(service, request)
    _check(body)

    def prepare() -> tuple[ChatResponder, Program[Any]]:
        inputs = read_chat(service, body)
        responder = ChatResponder(service=service, inputs=inputs, client=client, body=body)
        return responder, responder.program()

    responder, program = await client.in_thread(prepare)
    log_texts(client, *(message.text for message in body.messages))
    client.start(program)
    if body.stream:
        return event_stream(client, responder.stream())
    result = await client.run()
    return await respond(client, lambda: responder.completion(result))


def _check(body: ChatRequest) -> None:
    """Refuse parameters that contradict each other."""
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise InvalidValue(
            "max_tokens is the old name of max_completion_tokens; give one of them.", "max_tokens"
        )
    if body.stream_options is not None and not body.stream:
        raise InvalidValue("stream_options needs stream; leave it out.", "stream_options")
    if body.remask is not None and body.remask.budget > 1 and (body.n or 1) > 1:
        raise InvalidValue(
            "n must be 1 where remask.budget is above 1: one answer is decided on.", "n"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ChatResponder(Responder):
    """What makes the documents of one chat.

    With a budget above 1 answers are drawn until one is accepted; else `n` are drawn, and verified
    where the field `remask` is there.
    """

    body: ChatRequest

    @property
    def decides(self) -> bool:
        """Whether answers are drawn until one is accepted."""
        return self.inputs.budget > 1

    def program(self) -> Program[Any]:
        """Return the program that answers the chat, or raise where none can."""
        if self.decides:
            return solve_program(self)
        service, emit = self.service, self.client.emit
        drafts = [draft_of(service, self.inputs, number) for number in range(self.body.n or 1)]
        if self.body.remask is None:
            return programs.draw(service.denoiser, drafts, emit)
        scorer = scorer_of(service, self.inputs)
        return programs.draw_and_verify(service.denoiser, drafts, scorer, self.inputs.kind, emit)

    def completion(self, result: Any) -> ChatCompletion:
        """Return the response as one document."""
        answers = self._answers(result)
        choices = [
            ChatChoice(
                **self._end(index, *answer),
                message=AssistantMessage(role="assistant", content=answer[0].text, refusal=None),
            )
            for index, answer in enumerate(answers)
        ]
        head, decision = self._head("chat.completion"), self._decision(result)
        return ChatCompletion(**head, **decision, choices=choices, usage=_usage(answers))

    async def stream(self) -> AsyncGenerator[str, None]:
        """Yield the response as events."""
        head = self._head("chat.completion.chunk")
        written: dict[int, str] = {}
        async with self.client.events() as events:
            async for name, value in events:
                if name == "block" and not self.decides:
                    for delta in self._deltas(value, written):
                        yield event(head | _unfinished(value.number, delta))
        result = self.client.result
        for chunk in await self.client.in_thread(lambda: list(self._last(result, written))):
            yield event(head | chunk)
        yield END_OF_STREAM

    def _answers(self, result: Any) -> list[tuple[Sample, Verified | None]]:
        """Return what was drawn, and its verification where there is one."""
        if self.decides:
            decision, attempts = result
            chosen = attempts[decision.sample.number]
            return [(chosen.sample, chosen)]
        return [(r.sample, r) if isinstance(r, Verified) else (r, None) for r in result]

    def _deltas(self, draft: Draft, written: dict[int, str]) -> Iterator[dict[str, str]]:
        """Yield what a finished block adds to a choice."""
        text = self.written(draft)
        if draft.number not in written:
            yield {"role": "assistant", "content": ""}
        added = text[len(written.get(draft.number, "")) :]
        written[draft.number] = text
        if added:
            yield {"content": added}

    def _last(self, result: Any, written: dict[int, str]) -> Iterator[dict[str, Any]]:
        """Yield what follows the blocks: an answer held back, the ends, the decision, the usage."""
        answers = self._answers(result)
        for index, (sample, verified) in enumerate(answers):
            if index not in written:
                yield _unfinished(index, {"role": "assistant", "content": sample.text})
            end = self._end(index, sample, verified) | {"delta": {}}
            yield {"choices": [end], **self._decision(result)}
        if self.body.stream_options is not None and self.body.stream_options.include_usage:
            yield {"choices": [], "usage": _usage(answers)}

    def _head(self, kind: str) -> dict[str, Any]:
        model, now = self.service.settings.model, int(time.time())
        return {"id": new_id("chatcmpl"), "object": kind, "created": now, "model": model}

    def _end(self, index: int, sample: Sample, verified: Verified | None) -> dict[str, Any]:
        end: dict[str, Any] = {
            "index": index,
            "finish_reason": self.finish_reason(sample),
            "logprobs": self._logprobs(sample) if self.body.logprobs else None,
        }
        return end if verified is None else end | {"remask": self.verification(verified)}

    def _decision(self, result: Any) -> dict[str, Any]:
        return {"remask": self.decision(result[0])} if self.decides else {}

    def _logprobs(self, sample: Sample) -> Logprobs:
        texts = self.service.denoiser.tokenizer.texts(sample.canvas[: sample.num_response])
        tokens = [
            LogprobToken(
                token=text,
                logprob=max(_LEAST, math.log(prob)) if prob > 0 else _LEAST,
                bytes=list(text.encode("utf-8", "replace")),
                top_logprobs=[],
                step=step,
            )
            for text, prob, step in zip(texts, *drawn(sample), strict=True)
        ]
        return Logprobs(content=tokens, refusal=None)


def _unfinished(index: int, delta: dict[str, str]) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": None, "logprobs": None}
    return {"choices": [choice]}


def _usage(answers: list[tuple[Sample, Verified | None]]) -> ChatUsage:
    prompt = len(answers[0][0].prompt)
    completion = sum(sample.num_response for sample, _ in answers)
    return ChatUsage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
    )
