"""The routes verify and solve, and the way from any request to its response."""

import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.responses import StreamingResponse

from remask.serve import programs
from remask.serve.errors import api_error
from remask.serve.inputs import Inputs, draft_of, read_inputs, sample_of, scorer_of
from remask.serve.programs import Plan, draw_needs, verify_needs
from remask.serve.request import ClientLeft, ClientRequest
from remask.serve.requests import SolveRequest, VerifyRequest
from remask.serve.responses import Responder, Response, Solution, Verification
from remask.serve.service import Service

if TYPE_CHECKING:
    from fastapi import APIRouter

log = logging.getLogger("remask.serve")
SYSTEM_HEADER = "x-remask-system"
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


def add_own_routes(router: "APIRouter", service: Service) -> None:
    @router.post("/v1/verify", response_model=Verification)
    async def verify(body: VerifyRequest, request: Request) -> HttpResponse:
        """Score an answer."""
        return await answer(service, request, body, lambda: [read_inputs(service, body)], Verify)

    @router.post("/v1/solve", response_model=Solution, responses=STREAMED)
    async def solve(body: SolveRequest, request: Request) -> HttpResponse:
        """Draw answers until one is accepted."""
        return await answer(service, request, body, lambda: [read_inputs(service, body)], Solve)


async def answer(
    service: Service,
    request: Request,
    body: Any,
    read: Callable[[], list[Inputs]],
    kind: type[Responder],
) -> HttpResponse:
    """Read a request, run its program, and return its document or its events."""
    client = ClientRequest(service, request)

    def prepare() -> tuple[Responder, Plan]:
        reply = kind(service=service, client=client, body=body, prompts=read())
        return reply, reply.plan()

    reply, plan = await client.in_thread(prepare)
    if service.settings.log_prompts:
        log.info("%s %s", client.id, " ".join(map(ascii, reply.texts)))
    await client.start(plan)
    if getattr(body, "stream", False):
        response = _event_stream(client, reply)
    else:
        result = await client.run()
        response = await client.in_thread(lambda: json_response(reply.document(result)))
    if reply.inputs.system:
        response.headers[SYSTEM_HEADER] = system_place(service)
    return response


class Verify(Responder):
    """Response of POST /v1/verify."""

    @property
    def texts(self) -> list[str]:
        return [*super().texts, self.body.answer]

    def plan(self) -> Plan:
        samples = [sample_of(self.service, self.inputs, self.body.answer)]
        scorer = scorer_of(self.service, self.inputs)
        program = programs.verify(samples, scorer, self.inputs.kind)
        return Plan(program, verify_needs(samples, scorer), scorer)

    def document(self, result: Any) -> Response:
        (verified,) = result
        return self.verification(verified)


class Solve(Responder):
    """Response of POST /v1/solve."""

    error_event = "error"

    def plan(self) -> Plan:
        return solve_plan(self)

    def document(self, result: Any) -> Response:
        return self.solution(*result)

    async def events(self) -> AsyncGenerator[str, None]:
        def written(name: str, value: Any) -> str:
            return event(self.event(name, value), name)

        async with self.client.events() as events:
            async for name, value in events:
                yield await self.client.in_thread(partial(written, name, value))
        yield event(self.decision(self.client.result[0]), "decision")


def solve_plan(responder: Responder) -> Plan:
    """Return the program that draws answers until one is accepted; it needs one attempt."""
    service, inputs = responder.service, responder.inputs
    assert inputs.threshold.value is not None
    draft, scorer = draft_of(service, inputs), scorer_of(service, inputs)
    program = programs.solve(
        service.denoiser,
        draft,
        scorer,
        inputs.kind,
        threshold=inputs.threshold.value,
        budget=inputs.budget,
        emit=responder.client.emit,
    )
    return Plan(program, draw_needs([draft]) + verify_needs([draft], scorer), scorer)


def system_place(service: Service) -> str:
    """Return where a system message goes: into a turn of its own, or into the first user turn."""
    return "turn" if service.denoiser.tokenizer.system else "folded"


def json_response(document: BaseModel) -> HttpResponse:
    return HttpResponse(_json(document), media_type="application/json")


def event(document: BaseModel | dict[str, Any], name: str = "") -> str:
    """Return a server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {_json(document)}\n\n"


def _json(document: Any) -> str:
    """Return JSON in ASCII, without NaN and without fields that were not set."""

    def fields(part: BaseModel) -> dict[str, Any]:
        return part.model_dump(exclude_unset=True)

    return json.dumps(document, default=fields, allow_nan=False)


def _event_stream(client: ClientRequest, reply: Responder) -> HttpResponse:
    """Return a response of server-sent events; an error is the last event."""

    async def stream() -> AsyncIterator[str]:
        try:
            async with contextlib.aclosing(reply.events()) as events:
                async for text in events:
                    yield text
        except ClientLeft:
            return
        except Exception as error:
            yield event(api_error(error, client.id).response(client.id), reply.error_event)

    return StreamingResponse(stream(), media_type="text/event-stream")
