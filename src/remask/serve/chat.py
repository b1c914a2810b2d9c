"""OpenAI's route: chat completions, whole or as a stream of finished blocks."""

import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from remask.serve import programs
from remask.serve.errors import InvalidValue
from remask.serve.inputs import draft_of, read_chat, scorer_of
from remask.serve.openai_schema import ChatRequest, OpenAIRequest
from remask.serve.programs import Plan, Verified, draw_needs, verify_needs
from remask.serve.request import ClientRequest
from remask.serve.responses import (
    FinishReason,
    Responder,
    Response,
    SolveDecision,
    Verification,
    new_id,
)
from remask.serve.routes import (
    STREAMED,
    event,
    event_stream,
    log_texts,
    respond,
    say_system,
    solve_plan,
)
from remask.serve.sent import SentAnswer, SentSoFar, ends_at, sent_answer, token_logs
from remask.serve.service import Service

if TYPE_CHECKING:
    from fastapi import APIRouter

END_OF_STREAM = "data: [DONE]\n\n"


class LikelyToken(Response):
    """OpenAI's."""

    token: str
    logprob: float
    bytes: list[int]


class LogprobToken(LikelyToken):
    """OpenAI's, with the step that revealed the token."""

    top_logprobs: list[LikelyToken]
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


class TokenUsage(Response):
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
    usage: TokenUsage
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

    def prepare() -> tuple[ChatResponder, Plan]:
        inputs = read_chat(service, body)
        responder = ChatResponder(service=service, inputs=inputs, client=client, body=body)
        return responder, responder.plan()

    responder, plan = await client.in_thread(prepare)
    log_texts(client, *(message.text for message in body.messages))
    await client.start(plan)
    if body.stream:
        response = event_stream(client, responder.stream())
    else:
        result = await client.run()
        response = await respond(client, lambda: responder.completion(result))
    return say_system(service, responder.inputs, response)


def _check(body: ChatRequest) -> None:
    """Refuse parameters that contradict each other."""
    most, same = body.max_tokens, body.max_completion_tokens
    if most is not None and same is not None and most != same:
        raise InvalidValue(
            "max_tokens is the old name of max_completion_tokens; give one of them.", "max_tokens"
        )
    if body.top_logprobs and not body.logprobs:
        raise InvalidValue("top_logprobs needs logprobs; set it to true.", "top_logprobs")
    check_stream(body)
    if body.remask is not None and body.remask.budget > 1 and body.num_choices > 1:
        raise InvalidValue(
            "n must be 1 where remask.budget is above 1: one answer is decided on.", "n"
        )


def check_stream(body: OpenAIRequest) -> None:
    """Refuse options of a stream where there is none."""
    if body.tells_usage and not body.stream:
        raise InvalidValue("stream_options needs stream; leave it out.", "stream_options")


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

    def plan(self) -> Plan:
        """Return the program that answers the chat, or raise if there is none."""
        if self.decides:
            return solve_plan(self)
        denoiser, inputs, emit = self.service.denoiser, self.inputs, self.client.emit
        drafts = [draft_of(self.service, inputs, i) for i in range(self.body.num_choices)]
        ends = ends_at(denoiser.tokenizer, inputs.stops)
        if self.body.remask is None:
            return Plan(programs.draw(denoiser, drafts, emit, ends), draw_needs(drafts))
        scorer = scorer_of(self.service, inputs)
        program = programs.draw_and_verify(denoiser, drafts, scorer, inputs.kind, emit, ends)
        return Plan(program, draw_needs(drafts) + verify_needs(drafts, scorer), scorer)

    def completion(self, result: Any) -> ChatCompletion:
        """Return the response as one document."""
        answers = self._answers(result)
        choices = [
            ChatChoice(
                **self._end(index, answer),
                message=AssistantMessage(role="assistant", content=answer.text, refusal=None),
            )
            for index, answer in enumerate(answers)
        ]
        head = openai_head(self.service, "chatcmpl", "chat.completion")
        return ChatCompletion(
            **head, **self._decision(result), choices=choices, usage=token_usage(answers)
        )

    async def stream(self) -> AsyncGenerator[str, None]:
        """Yield the response as events."""
        head = openai_head(self.service, "chatcmpl", "chat.completion.chunk")
        sent = SentSoFar(self.service.denoiser.tokenizer, self.inputs.stops)
        async with self.client.events() as events:
            async for name, value in events:
                if name != "block" or self.decides:
                    continue
                if value.number not in sent.texts:
                    yield event(head | _unfinished(value.number, "", role="assistant"))
                if added := sent.add(value.number, value):
                    yield event(head | _unfinished(value.number, added))
        result = self.client.result
        for chunk in await self.client.in_thread(lambda: list(self._last(result, sent))):
            yield event(head | chunk)
        yield END_OF_STREAM

    def _answers(self, result: Any) -> list[SentAnswer]:
        """Return what was drawn, and its verification where there is one."""
        if self.decides:
            decision, attempts = result
            result = [attempts[decision.sample.number]]
        tokenizer = self.service.denoiser.tokenizer
        return [
            sent_answer(tokenizer, self.inputs, r.sample, r)
            if isinstance(r, Verified)
            else sent_answer(tokenizer, self.inputs, r)
            for r in result
        ]

    def _last(self, result: Any, sent: SentSoFar) -> Iterator[dict[str, Any]]:
        """Yield what follows the blocks: an answer held back, the ends, the decision, the usage."""
        answers = self._answers(result)
        for index, answer in enumerate(answers):
            if index not in sent.texts:
                yield _unfinished(index, answer.text, role="assistant")
            end = self._end(index, answer) | {"delta": {}}
            yield {"choices": [end], **self._decision(result)}
        if self.body.tells_usage:
            yield {"choices": [], "usage": token_usage(answers)}

    def _end(self, index: int, answer: SentAnswer) -> dict[str, Any]:
        end: dict[str, Any] = {
            "index": index,
            "finish_reason": answer.finish_reason,
            "logprobs": self._logprobs(answer) if self.body.logprobs else None,
        }
        if answer.verified is None:
            return end
        return end | {"remask": self.verification(answer.verified)}

    def _decision(self, result: Any) -> dict[str, Any]:
        return {"remask": self.decision(result[0])} if self.decides else {}

    def _logprobs(self, answer: SentAnswer) -> Logprobs:
        content = [
            LogprobToken(
                **_token(log.text, log.logp),
                top_logprobs=[LikelyToken(**_token(*likely)) for likely in log.likeliest],
                step=log.step,
            )
            for log in token_logs(self.service.denoiser.tokenizer, answer)
        ]
        return Logprobs(content=content, refusal=None)


def _token(text: str, logp: float) -> dict[str, Any]:
    return {"token": text, "logprob": logp, "bytes": list(text.encode("utf-8", "replace"))}


def _unfinished(index: int, content: str, **role: str) -> dict[str, Any]:
    delta = {**role, "content": content}
    choice = {"index": index, "delta": delta, "finish_reason": None, "logprobs": None}
    return {"choices": [choice]}


def openai_head(service: Service, prefix: str, kind: str) -> dict[str, Any]:
    """Return what every document of OpenAI's begins with."""
    now = int(time.time())
    return {
        "id": new_id(prefix), "object": kind, "created": now, "model": service.settings.model
    }  # fmt: skip


def token_usage(answers: list[SentAnswer], num_prompts: int = 1) -> TokenUsage:
    """Return the tokens of answers to so many prompts, as many to each."""
    prompts = answers[:: len(answers) // num_prompts]
    prompt = sum(len(answer.sample.prompt) for answer in prompts)
    completion = sum(answer.num_tokens for answer in answers)
    return TokenUsage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
    )
