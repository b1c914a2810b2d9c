"""Our own routes: verify and solve."""

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from remask.sampling.drafts import Draft
from remask.sampling.settings import SamplerSettings
from remask.serve import response_models, responses, schema
from remask.serve.errors import defect, fault_of
from remask.serve.inputs import (
    Question,
    brought,
    drafted,
    question_of,
    require_variety,
    sampler_of,
)
from remask.serve.programs import Check, Verified, Work, solving, verifying
from remask.serve.request import Errand, Left
from remask.serve.service import Service
from remask.values import Decision, Sample

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger("remask.serve")
FAULTS: dict[int | str, dict[str, Any]] = {
    status: {"model": response_models.ErrorDocument}
    for status in (400, 401, 403, 404, 405, 408, 413, 429, 500, 503, 504)
}


def document(value: Any) -> "Response":
    """Return a JSON answer; escapes keep it valid whatever the model wrote."""
    from starlette.responses import Response

    return Response(json.dumps(value, allow_nan=False), media_type="application/json")


def own_routes(service: Service) -> "APIRouter":
    """Return the routes."""
    from fastapi import APIRouter, Request
    from starlette.responses import Response

    router = APIRouter()

    @router.post(
        "/v1/verify", response_class=Response, operation_id="verify",
        responses={**FAULTS, 200: {"model": response_models.Verification}},
    )  # fmt: skip
    async def verify(body: schema.VerifyRequest, request: Request) -> Response:
        """Say how far to trust an answer."""
        return await _verify(service, body, request)

    @router.post(
        "/v1/solve", response_class=Response, operation_id="solve",
        responses={
            **FAULTS,
            200: {"model": response_models.Solution, "content": {"text/event-stream": {}}},
        },
    )  # fmt: skip
    async def solve(body: schema.SolveRequest, request: Request) -> Response:
        """Draw answers until one is to be trusted."""
        return await _solve(service, body, request)

    return router


async def _verify(service: Service, body: schema.VerifyRequest, request: "Request") -> "Response":
    errand = Errand(service, request)
    service.check_model(body.model)

    def prepare() -> tuple[Question, Sample, Check]:
        question = question_of(body, body.remask)
        return question, brought(service, question, body.answer), question.check(service)

    question, sample, check = await errand.prepare(prepare)
    log_texts(service, errand, question.prompt, body.answer)
    errand.start(verifying(service.denoiser, [sample], check))
    (verified,) = await errand.run()
    told = await errand.prepare(
        lambda: responses.verified_answer(service, question, verified, errand.seconds)
    )
    return document(told)


def log_texts(service: Service, errand: Errand, *texts: str) -> None:
    """Write what was asked to the log, where that is wanted."""
    if service.settings.log_prompts:
        log.info("%s %s", errand.id, " ".join(ascii(text) for text in texts))


@dataclass(frozen=True, kw_only=True, eq=False)
class Solving:
    """A question to be solved, and the documents of its way."""

    service: Service
    errand: Errand
    question: Question
    sampler: SamplerSettings
    budget: int
    check: Check
    draft: Draft

    @property
    def work(self) -> Work[Any]:
        """All of it, for the batcher."""
        return solving(
            self.service.denoiser, self.draft, self.check, budget=self.budget,
            threshold=self.question.threshold(self.service), tell=self.errand.tell,
        )  # fmt: skip

    def told(self, name: str, value: Any) -> responses.Document:
        """Return the data of an event."""
        if name == "block":
            return self._block(value)
        if name == "attempt":
            return responses.attempt(self.service, self.question, value)
        return {"number": value.sample.number, **self.verification(value)}

    def _block(self, draft: Draft) -> responses.Document:
        text = responses.written(self.service, draft)
        return {"number": draft.number, "text": text, "finished": draft.ended}

    def verification(self, verified: Verified) -> responses.Document:
        """Return the verification of an attempt; which is no command of its own."""
        return responses.verification(
            self.service, self.question, verified, self.errand.seconds, None
        )

    def decision(self, decided: Decision) -> responses.Document:
        """Return the event `decision`."""
        return responses.decision(
            self.service, self.question, self.sampler, decided, self.budget, self.errand.seconds
        )

    def solution(self, decided: Decision, attempts: list[Verified]) -> responses.Document:
        """Return the whole in one document."""
        listed = [
            responses.attempt(self.service, self.question, verified.sample)
            | {"verification": self.verification(verified)}
            for verified in attempts
        ]
        return self.decision(decided) | {"attempts": listed}


def solving_of(
    service: Service, errand: Errand, question: Question, sampler: SamplerSettings, budget: int
) -> Solving:
    """Return a question ready to be solved, or raise where it cannot be."""
    sampler = sampler.for_pool(budget)
    return Solving(
        service=service,
        errand=errand,
        question=question,
        sampler=sampler,
        budget=budget,
        check=question.check(service),
        draft=drafted(service, question, sampler),
    )


async def _solve(service: Service, body: schema.SolveRequest, request: "Request") -> "Response":
    errand = Errand(service, request)
    service.check_model(body.model)
    require_variety(body.temperature, body.remask.budget, "remask.budget")

    def prepare() -> Solving:
        question = question_of(body, body.remask)
        sampler = sampler_of(
            service, question, temperature=body.temperature, max_tokens=body.max_tokens
        )
        return solving_of(service, errand, question, sampler, body.remask.budget)

    solving = await errand.prepare(prepare)
    log_texts(service, errand, solving.question.prompt)
    errand.start(solving.work)
    if body.stream:
        return event_stream(_events(solving))
    decided, attempts = await errand.run()
    return document(await errand.prepare(lambda: solving.solution(decided, attempts)))


async def _events(solving: Solving) -> AsyncIterator[str]:
    """Yield the events of a solution; an error is the last of them."""
    errand = solving.errand
    try:
        async with errand.news() as news:
            async for name, value in news:
                yield event(await errand.prepare(partial(solving.told, name, value)), name)
        yield event(solving.decision(errand.result[0]), "decision")
    except Exception as error:
        told = told_error(errand, error)
        if told is not None:
            yield event(told, "error")


def told_error(errand: Errand, error: Exception) -> responses.Document | None:
    """Return what a stream says of an error; None where nobody listens."""
    if isinstance(error, Left):
        return None
    fault = fault_of(error)
    if fault is None:
        log.error("%s failed", errand.id, exc_info=error)
        fault = defect()
    return fault.document(errand.id)


def event(value: Any, name: str = "") -> str:
    """Return a server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, allow_nan=False)}\n\n"


def event_stream(events: AsyncIterator[str]) -> "Response":
    """Return an answer that is told bit by bit."""
    from starlette.responses import StreamingResponse

    return StreamingResponse(events, media_type="text/event-stream")
