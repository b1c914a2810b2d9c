"""Reads the body of a request: JSON within limits, as the model that the route declares.

Validating 1 MiB with 60,000 fields takes seconds. So a helper thread reads bodies, and checks the
limits before it validates anything.
"""

import json
import re
from collections.abc import Callable, Coroutine, Iterator
from email.message import Message
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from remask.serve.errors import QUOTED, ApiError, InvalidValue, unsupported
from remask.serve.inputs import most_tokens
from remask.serve.request import ClientRequest
from remask.serve.requests import CANNOT

if TYPE_CHECKING:
    from fastapi.routing import APIRoute

    from remask.serve.service import Service

MAX_DEPTH = 16  # levels of nesting
MAX_VALUES = 10_000  # fields and items, all levels together
MAX_ITEMS = 1_000  # fields or items of one object or list
_CHARACTERS = 16  # of a text, for each token that the server allows
_ERRORS = 100  # of pydantic's, at most
_SUBJECT = re.compile(r"^(?:Input|String|List|Dictionary|Object) should ")
_JSON_WORDS = {
    "valid dictionary": "object",
    "finite number": "number",
    "valid ": "",
    "None": "null",
}
_Body = TypeVar("_Body", bound=BaseModel)


def body_route(service: "Service") -> "type[APIRoute]":
    """Return a class of routes whose endpoints are called with (body, request).

    FastAPI documents such a route, but would validate the body in the event loop. A request that
    would be late anyway is refused before its body is read.
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
    """Raise for a query parameter that the route does not have."""
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in known:
            raise unsupported(name)


def _check_encoding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        message = f"Content-Encoding must be identity, got {encoding[:QUOTED]!r}."
        raise InvalidValue(message, "Content-Encoding")


def _is_json(request: Request) -> bool:
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    subtype = header.get_content_subtype()
    return header.get_content_maintype() == "application" and subtype.split("+")[-1] == "json"


def read_body(kind: type[_Body], content: bytes, most_characters: int) -> _Body:
    """Return a body as a model, or raise an `ApiError` that names the invalid field."""
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
        errors = misfit.errors(include_url=False)[:_ERRORS]
        raise validation_error([{**e, "loc": ("body", *e["loc"])} for e in errors], body) from None


def check_limits(body: dict[str, Any], most_characters: int) -> None:
    """Raise for a body that would take too long to validate."""
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
        waiting += [((*path, name[:QUOTED]), inner) for name, inner in _named_values(value)]


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


def unreadable(cause: BaseException | None = None) -> ApiError:
    """Return the error for a body that cannot be parsed."""
    message = "The body must be a JSON object, sent with Content-Type: application/json."
    if type(cause) is ValueError:  # Python's limit; the errors of the parser are subclasses
        message = "Integers must have at most 4300 digits."
    elif isinstance(cause, RecursionError):
        message = f"The body must have at most {MAX_DEPTH} levels of nesting."
    return InvalidValue(message, "body", "invalid_json")


def validation_error(errors: list[Any], body: Any) -> ApiError:
    """Return the error for the first invalid field of a body or a query, from pydantic's errors."""
    if errors[0]["type"] == "json_invalid" or not isinstance(body, dict):
        return unreadable()
    closest = _closest(errors, body)
    first, param = closest[0], ".".join(_path(closest[0], body))
    if first["type"] == "extra_forbidden":
        return unsupported(param)
    if first["type"] == "missing":
        return InvalidValue(f"{param} is missing.", param, "missing")
    if param in CANNOT or param.partition(".")[0] in CANNOT:
        message = f"{param} must be left out: this server cannot do what it asks for."
        return InvalidValue(message, param, "unsupported_value")
    wanted = " or ".join(dict.fromkeys(map(_wanted, closest))).replace(" or be ", " or ")
    message = f"{param or 'The body'} must {wanted}, got {_quoted(first.get('input'))}."
    return InvalidValue(message, param or "body")


def _closest(errors: list[Any], body: Any) -> list[Any]:
    """Return the errors of the first invalid field.

    A field with alternative types has errors of each of them. Those that go deepest into the value
    count, and of these one that is not about the type of the value.
    """
    field = _path(errors[0], body)
    inside = [error for error in errors if field and _path(error, body)[: len(field)] == field]
    if not inside:
        return errors[:1]
    deepest = max((_path(error, body) for error in inside), key=len)
    alike = [error for error in inside if _path(error, body) == deepest]
    kinds = ("_type", "literal_error", "none_required")
    return [error for error in alike if not error["type"].endswith(kinds)][:1] or alike


def _wanted(error: Any) -> str:
    """Return pydantic's message as the words after "must", in the terms of JSON."""
    if error["type"] in ("model_type", "model_attributes_type"):
        return "be an object"
    if error["type"] == "too_long" and error["ctx"]["max_length"] == 0:
        return "be an empty list"
    words = _SUBJECT.sub("", error["msg"]).partition(" after validation")[0]
    for theirs, ours in _JSON_WORDS.items():
        words = words.replace(theirs, ours)
    return re.sub(r"\ba (?=[aeio])", "an ", words)


def _quoted(value: Any) -> str:
    """Return a value as short JSON with invisible characters escaped."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text if len(text) <= QUOTED else text[:QUOTED] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _path(error: Any, body: Any) -> tuple[str, ...]:
    """Return the names on the way to a field, without pydantic's names of alternative types."""
    names: list[str] = []
    is_missing = error["type"] == "missing"
    for step in error["loc"][1:]:
        inside = (isinstance(body, dict) and step in body) or (
            isinstance(body, list) and isinstance(step, int) and step < len(body)
        )
        # A key may have the name of an alternative; the path ends at the refused value.
        if inside and (is_missing or body is not error.get("input")):
            body = body[step]
            names.append(str(step)[:QUOTED])
    if is_missing:
        names.append(str(error["loc"][-1])[:QUOTED])
    return tuple(names)
