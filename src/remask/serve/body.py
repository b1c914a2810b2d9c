"""Reading the body of a request: JSON within limits, as the model that its route declares.

A body of 1 MiB can hold 60,000 fields, which take seconds to validate. So a helper thread reads
bodies, and checks limits before it validates anything.
"""

import json
from collections.abc import Callable, Coroutine, Iterator
from email.message import Message
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from remask.serve.errors import InvalidValue, unreadable, unsupported, validation_error
from remask.serve.inputs import most_tokens
from remask.serve.request import ClientRequest

if TYPE_CHECKING:
    from fastapi.routing import APIRoute

    from remask.serve.service import Service

MAX_DEPTH = 16  # levels of nesting
MAX_VALUES = 10_000  # fields and items, all levels together
MAX_ITEMS = 1_000  # fields or items of one object or list
_CHARACTERS = 16  # of a text, for each token that the server allows
_ERRORS = 100  # that are looked at
_QUOTED = 60  # characters of a name that an error repeats
_Body = TypeVar("_Body", bound=BaseModel)


def body_route(service: "Service") -> "type[APIRoute]":
    """Return a class of routes whose endpoints with a `body` are called with (body, request).

    FastAPI documents such a route, but it would validate the body in the event loop. A request
    that would be late anyway is refused before its body is read.
    """
    from fastapi.routing import APIRoute

    most_characters = _CHARACTERS * most_tokens(service)

    class BodyRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            endpoint, kind = self.endpoint, get_type_hints(self.endpoint).get("body")
            if kind is None:
                return super().get_route_handler()

            async def handle(request: Request) -> Response:
                client = ClientRequest(service, request)
                service.batcher.check_room(client.deadline)
                check_query(request)
                _check_encoding(request)
                content = await request.body() if _is_json(request) else b""
                read = partial(read_body, kind, content, most_characters)
                response: Response = await endpoint(await client.in_thread(read), request)
                return response

            return handle

    return BodyRoute


def check_query(request: Request) -> None:
    """Refuse a parameter of the query that its route does not have."""
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in known:
            raise unsupported(name)


def _check_encoding(request: Request) -> None:
    name, encoding = "Content-Encoding", request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        message = f"{name} must be identity, got {encoding[:_QUOTED]!r}; do not compress the body."
        raise InvalidValue(message, name)


def _is_json(request: Request) -> bool:
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    subtype = header.get_content_subtype()
    return header.get_content_maintype() == "application" and subtype.split("+")[-1] == "json"


def read_body(kind: type[_Body], content: bytes, most_characters: int) -> _Body:
    """Return a body as a model, or raise an `ApiError` that names what does not fit."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise unreadable(error) from None
    if not isinstance(body, dict):
        raise unreadable()
    check_limits(body, most_characters)
    try:
        return kind.model_validate(body)
    except ValidationError as misfit:
        errors = misfit.errors(include_url=False)[:_ERRORS]  # those of the first field are first
        raise validation_error([{**e, "loc": ("body", *e["loc"])} for e in errors], body) from None


def check_limits(body: dict[str, Any], most_characters: int) -> None:
    """Raise for a body that would take long to validate."""
    num_values, waiting = 0, [((), body)]  # type: tuple[int, list[tuple[tuple[str, ...], Any]]]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str) and len(value) > most_characters:
            raise _too_large(path, f"at most {most_characters} characters", len(value))
        if not isinstance(value, dict | list):
            continue
        num_values += len(value)
        if len(value) > MAX_ITEMS:
            unit = "fields" if isinstance(value, dict) else "items"
            raise _too_large(path, f"at most {MAX_ITEMS} {unit}", len(value))
        if num_values > MAX_VALUES:
            raise _too_large((), f"at most {MAX_VALUES} fields and items in all", "more")
        if value and len(path) >= MAX_DEPTH:
            raise _too_large((), f"at most {MAX_DEPTH} levels of nesting", "more")
        waiting += [((*path, name[:_QUOTED]), inner) for name, inner in _named_values(value)]


def _named_values(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        return iter(value.items())
    return ((str(place), inner) for place, inner in enumerate(value))


def _too_large(path: tuple[str, ...], limit: str, got: int | str) -> InvalidValue:
    param = ".".join(path)
    code = "too_many_tokens" if "characters" in limit else "too_large"
    return InvalidValue(
        f"{param or 'The body'} must have {limit}, got {got}.", param or "body", code
    )
