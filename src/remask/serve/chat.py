"""OpenAI's route: chat completions, whole or as a stream of finished blocks."""

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remask.sampling.drafts import Draft
from remask.sampling.settings import SamplerSettings
from remask.serve import response_models, responses, schema
from remask.serve.errors import Fault
from remask.serve.inputs import (
    Question,
    chat_question,
    drafted,
    require_variety,
    sampler_of,
)
from remask.serve.programs import Check, Verified, Work, answering
from remask.serve.request import Errand
from remask.serve.routes import (
    FAULTS,
    Solving,
    document,
    event,
    event_stream,
    log_texts,
    solving_of,
    told_error,
)
from remask.serve.service import Service
from remask.values import Sample

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

Document = responses.Document
END_OF_STREAM = "data: [DONE]\n\n"


def chat_routes(service: Service) -> "APIRouter":
    """Return the route."""
    from fastapi import APIRouter, Request
    from starlette.responses import Response

    router = APIRouter()
    shape = {"model": response_models.ChatCompletion, "content": {"text/event-stream": {}}}

    @router.post(
        "/v1/chat/completions", response_class=Response, operation_id="chat",
        responses={**FAULTS, 200: shape},
    )  # fmt: skip
    async def chat(body: schema.ChatRequest, request: Request) -> Response:
        """Answer a chat, in OpenAI's shape."""
        return await _chat(service, body, request)

    return router


async def _chat(service: Service, body: schema.ChatRequest, request: "Request") -> "Response":
    errand = Errand(service, request)
    service.check_model(body.model)
    _check(body)
    chat = await errand.prepare(lambda: _prepared(service, errand, body))
    log_texts(service, errand, *(message.text for message in body.messages))
    errand.start(chat.work)
    if body.stream:
        return event_stream(chat.chunks())
    result = await errand.run()
    return document(await errand.prepare(lambda: chat.completion(result)))


def _check(body: schema.ChatRequest) -> None:
    """Refuse parameters that contradict each other."""
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise Fault(
            400, "max_tokens is the old name of max_completion_tokens; give one of them.",
            param="max_tokens", code="invalid_value",
        )  # fmt: skip
    if body.stream_options is not None and not body.stream:
        raise Fault(
            400, "stream_options needs stream; leave it out.", param="stream_options",
            code="invalid_value",
        )  # fmt: skip
    if body.remask is not None and body.remask.budget > 1 and (body.n or 1) > 1:
        raise Fault(
            400, "n must be 1 where remask.budget is above 1: one answer is decided on.",
            param="n", code="invalid_value",
        )  # fmt: skip
    require_variety(body.temperature, body.n or 1, "n")
    if body.remask is not None:
        require_variety(body.temperature, body.remask.budget, "remask.budget")


def _prepared(service: Service, errand: Errand, body: schema.ChatRequest) -> "Chat":
    """Return the chat ready for work, or raise where it cannot be."""
    question = chat_question(body)
    sampler = sampler_of(
        service,
        question,
        temperature=body.temperature,
        max_tokens=body.max_completion_tokens or body.max_tokens,
        top_p=body.top_p,
        param="max_tokens" if body.max_completion_tokens is None else "max_completion_tokens",
    )
    budget = 1 if body.remask is None else body.remask.budget
    solving, check, drafts = None, None, []
    if budget > 1:
        solving = solving_of(service, errand, question, sampler, budget)
    else:
        sampler = sampler.for_pool(body.n or 1, "n")
        drafts = [drafted(service, question, sampler, number) for number in range(body.n or 1)]
        check = None if body.remask is None else question.check(service)
    return Chat(
        service=service,
        errand=errand,
        body=body,
        question=question,
        sampler=sampler,
        solving=solving,
        drafts=drafts,
        check=check,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Chat:
    """A chat to be answered, and the documents of its way."""

    service: Service
    errand: Errand
    body: schema.ChatRequest
    question: Question
    sampler: SamplerSettings
    solving: Solving | None  # where answers are drawn until one is accepted
    drafts: list[Draft]  # otherwise
    check: Check | None  # of these

    @property
    def work(self) -> Work[Any]:
        """All of it, for the batcher."""
        if self.solving is not None:
            return self.solving.work
        return answering(self.service.denoiser, self.drafts, self.check, self.errand.tell)

    def answers(self, result: Any) -> list[tuple[Sample, Verified | None]]:
        """Return what was drawn, and verified."""
        if self.solving is not None:
            decision, attempts = result
            chosen = attempts[decision.sample.number]
            return [(chosen.sample, chosen)]
        return [(r.sample, r) if isinstance(r, Verified) else (r, None) for r in result]

    def completion(self, result: Any) -> Document:
        """Return the answer as one document."""
        answers = self.answers(result)
        choices = [
            self._choice(index, sample, verified)
            | {"message": {"role": "assistant", "content": sample.text, "refusal": None}}
            for index, (sample, verified) in enumerate(answers)
        ]
        told = {"choices": choices, "usage": self._usage([sample for sample, _ in answers])}
        return self._frame("chat.completion") | told | self._decided(result)

    async def chunks(self) -> AsyncIterator[str]:
        """Yield the answer as a stream; an error is the last thing in it."""
        frame = self._frame("chat.completion.chunk")
        written: dict[int, str] = {}
        try:
            async with self.errand.news() as news:
                async for name, value in news:
                    if name == "block" and self.solving is None:
                        for choice in self._delta(value, written):
                            yield event(frame | {"choices": [choice]})
            result = self.errand.result
            for chunk in await self.errand.prepare(lambda: list(self._last(result, written))):
                yield event(frame | chunk)
            yield END_OF_STREAM
        except Exception as error:
            told = told_error(self.errand, error)
            if told is not None:
                yield event(told)

    def _delta(self, draft: Draft, written: dict[int, str]) -> Iterator[Document]:
        """Yield what a finished block adds to a choice."""
        text = responses.written(self.service, draft)
        if draft.number not in written:
            yield _chunk(draft.number, {"role": "assistant", "content": ""})
        before = written.get(draft.number, "")
        written[draft.number] = text
        if text[len(before) :]:
            yield _chunk(draft.number, {"content": text[len(before) :]})

    def _last(self, result: Any, written: dict[int, str]) -> Iterator[Document]:
        """Yield what is left to tell: an answer held back, the ends, the decision, the usage."""
        answers = self.answers(result)
        for index, (sample, verified) in enumerate(answers):
            if index not in written:
                told = {"role": "assistant", "content": sample.text}
                yield {"choices": [_chunk(index, told)]}
            end = self._choice(index, sample, verified) | {"delta": {}}
            yield {"choices": [end], **self._decided(result)}
        if self.body.stream_options is not None and self.body.stream_options.include_usage:
            yield {"choices": [], "usage": self._usage([sample for sample, _ in answers])}

    def _choice(self, index: int, sample: Sample, verified: Verified | None) -> Document:
        told = {
            "index": index,
            "finish_reason": responses.finish_reason(self.service, sample),
            "logprobs": responses.logprobs(self.service, sample) if self.body.logprobs else None,
        }
        if verified is not None:
            told["remask"] = responses.verification(
                self.service, self.question, verified, self.errand.seconds, None
            )
        return told

    def _decided(self, result: Any) -> Document:
        return {} if self.solving is None else {"remask": self.solving.decision(result[0])}

    def _usage(self, samples: list[Sample]) -> Document:
        asked, told = len(samples[0].prompt), sum(sample.num_response for sample in samples)
        return {
            "prompt_tokens": asked, "completion_tokens": told, "total_tokens": asked + told,
        }  # fmt: skip

    def _frame(self, kind: str) -> Document:
        return {
            "id": responses.new_id("chatcmpl"), "object": kind, "created": int(time.time()),
            "model": self.service.settings.model,
        }  # fmt: skip


def _chunk(index: int, delta: Document) -> Document:
    return {"index": index, "delta": delta, "finish_reason": None, "logprobs": None}
