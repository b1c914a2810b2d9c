"""The routes of remask's own: verify and solve; what they and the chat share."""

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
from remask.serve.inputs import (
    Inputs,
    draft_of,
    read_inputs,
    sample_of,
    scorer_of,
)
from remask.serve.programs import Plan, draw_needs, verify_needs
from remask.serve.request import ClientLeft, ClientRequest
from remask.serve.responses import Responder, Response, Solution, Verification
from remask.serve.schema import SolveRequest, VerifyRequest
from remask.serve.service import Service

if TYPE_CHECKING:
    from fastapi import APIRouter

log = logging.getLogger("remask.serve")
SYSTEM_HEADER = "x-remask-system"
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


def add_own_routes(router: "APIRouter", service: Service) -> None:
    """Add verify and solve."""

    @router.post("/v1/verify", response_model=Verification)
    async def verify(body: VerifyRequest, request: Request) -> HttpResponse:
        """Say how far to trust an answer."""
        return await _verify(service, body, request)

    @router.post("/v1/solve", response_model=Solution, responses=STREAMED)
    async def solve(body: SolveRequest, request: Request) -> HttpResponse:
        """Draw answers until one is to be trusted."""
        return await _solve(service, body, request)


async def _verify(service: Service, body: VerifyRequest, request: Request) -> HttpResponse:
    client = ClientRequest(service, request)

    def prepare() -> tuple[Inputs, Plan]:
        inputs = read_inputs(service, body)
        samples = [sample_of(service, inputs, body.answer)]
        scorer = scorer_of(service, inputs)
        program = programs.verify(samples, scorer, inputs.kind)
        return inputs, Plan(program, verify_needs(samples, scorer), scorer)

    inputs, plan = await client.in_thread(prepare)
    log_texts(client, inputs.prompt, body.answer)
    await client.start(plan)
    (verified,) = await client.run()
    responder = Responder(service=service, inputs=inputs, client=client)
    response = await respond(client, lambda: responder.verification(verified))
    return say_system(service, inputs, response)


async def _solve(service: Service, body: SolveRequest, request: Request) -> HttpResponse:
    client = ClientRequest(service, request)

    def prepare() -> tuple[Responder, Plan]:
        inputs = read_inputs(service, body)
        responder = Responder(service=service, inputs=inputs, client=client)
        return responder, solve_plan(responder)

    responder, plan = await client.in_thread(prepare)
    log_texts(client, responder.inputs.prompt)
    await client.start(plan)
    if body.stream:
        stream = event_stream(client, _events(responder), "error")
        return say_system(service, responder.inputs, stream)
    decided, attempts = await client.run()
    response = await respond(client, lambda: responder.solution(decided, attempts))
    return say_system(service, responder.inputs, response)


def solve_plan(responder: Responder) -> Plan:
    """Return the program that draws answers until one is accepted; it needs one attempt."""
    service, inputs = responder.service, responder.inputs
    assert inputs.threshold.value is not None
    draft, scorer = draft_of(service, inputs), scorer_of(service, inputs)
    program = programs.solve(
        service.denoiser, draft, scorer, inputs.kind, threshold=inputs.threshold.value,
        budget=inputs.budget, emit=responder.client.emit,
    )  # fmt: skip
    return Plan(program, draw_needs([draft]) + verify_needs([draft], scorer), scorer)


async def _events(responder: Responder) -> AsyncGenerator[str, None]:
    client = responder.client

    def written(name: str, value: Any) -> str:
        return event(responder.event(name, value), name)

    async with client.events() as events:
        async for name, value in events:
            yield await client.in_thread(partial(written, name, value))
    yield event(responder.decision(client.result[0]), "decision")


def system_place(service: Service) -> str:
    """Return where a system turn goes: a turn of its own, or into the user's first one."""
    return "turn" if service.denoiser.tokenizer.system else "folded"


def say_system(service: Service, inputs: Inputs, response: HttpResponse) -> HttpResponse:
    """Return a response that says where the system turn went, where the request has one."""
    if inputs.system:
        response.headers[SYSTEM_HEADER] = system_place(service)
    return response


def log_texts(client: ClientRequest, *texts: str) -> None:
    """Write what a client sent to the log, where that is wanted."""
    if client.service.settings.log_prompts:
        log.info("%s %s", client.id, " ".join(ascii(text) for text in texts))


async def respond(client: ClientRequest, make: Callable[[], Response]) -> HttpResponse:
    """Return a document that is made, and written as JSON, in another thread."""
    return await client.in_thread(lambda: json_response(make()))


def json_response(document: BaseModel) -> HttpResponse:
    """Return a document as an HTTP response."""
    return HttpResponse(_json(document), media_type="application/json")


def event(document: BaseModel | dict[str, Any], name: str = "") -> str:
    """Return a server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {_json(document)}\n\n"


def _json(document: Any) -> str:
    """Return JSON in ASCII, valid whatever the model wrote."""
    return json.dumps(document, default=_fields, allow_nan=False)


def _fields(document: BaseModel) -> dict[str, Any]:
    """Return the fields that were set; one with a default is left out where it was not."""
    return document.model_dump(exclude_unset=True)


def event_stream(
    client: ClientRequest, events: AsyncGenerator[str, None], error_name: str = ""
) -> HttpResponse:
    """Return a response of server-sent events; an error is the last of them."""

    async def stream() -> AsyncIterator[str]:
        try:
            async with contextlib.aclosing(events):
                async for text in events:
                    yield text
        except ClientLeft:
            return
        except Exception as error:
            yield event(api_error(error, client.id).response(client.id), error_name)

    return StreamingResponse(stream(), media_type="text/event-stream")
