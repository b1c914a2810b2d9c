"""What goes wrong, as a client reads it: one sentence in OpenAI's shape, never a stack trace."""

import json
import logging
from typing import Any

from pydantic import BaseModel

from remask.errors import DenoiserError, InputError, MissingExtra, SettingsError, TaskError
from remask.serve.openai_schema import CANNOT

log = logging.getLogger("remask.serve")
_QUOTED = 60  # characters of a client's own words that an error repeats
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    504: "timeout_error",
}


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None
    request_id: str


class ErrorResponse(BaseModel):
    """Every response other than 200."""

    error: ErrorDetail


class ApiError(Exception):
    """A response other than 200."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = headers or {}

    def response(self, request_id: str) -> ErrorResponse:
        """Return the body of the response."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        detail = ErrorDetail(
            message=self.message,
            type=_TYPES.get(self.status, kind),
            param=self.param,
            code=self.code,
            request_id=request_id,
        )
        return ErrorResponse(error=detail)


class InvalidValue(ApiError):
    """A value in the request that cannot be used."""

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(400, message, param=param, code=code)


def api_error(error: BaseException, request_id: str) -> ApiError:
    """Return what a client reads of an error; a defect of the server goes to the log whole."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, InputError | SettingsError | TaskError):
        return InvalidValue(str(error))
    if isinstance(error, MissingExtra):
        return InvalidValue(str(error), "remask.metrics", "missing_extra")
    if is_out_of_memory(error):
        return ApiError(
            503, "out of memory even for this request alone; shorten it, or ask for fewer trips.",
            code="out_of_memory",
        )  # fmt: skip
    if isinstance(error, DenoiserError):
        return ApiError(500, str(error), code="model_error")
    log.error("%s failed", request_id, exc_info=error)
    return ApiError(
        500, "the server failed; its log has the cause under this request id.", code="defect"
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a device, or the machine, had no more memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # What the allocator of the CPU raises has no class of its own.
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


def unsupported(param: str) -> ApiError:
    """Return the error for a parameter that does not exist."""
    name = param[:_QUOTED] if param else "a parameter without a name"
    return InvalidValue(f"{name} is not supported here; remove it.", param, "unsupported_parameter")


def not_an_object() -> ApiError:
    """Return the error for a body that cannot be read at all."""
    return InvalidValue(
        "the body is not a JSON object; send one, with Content-Type: application/json.",
        "body",
        "invalid_json",
    )


def validation_error(errors: list[Any], body: Any) -> ApiError:
    """Return the error for a body that does not fit the schema: the first field that does not."""
    if errors[0]["type"] == "json_invalid" or not isinstance(body, dict):
        return not_an_object()
    alike = _of_first_field(errors, body)
    first = alike[0]
    param = ".".join(_path(first, body)) or None
    if first["type"] == "extra_forbidden":
        return unsupported(param or "")  # a field may have no name, and is named by that
    name, param = param or "the body", "body" if param is None else param
    if first["type"] == "missing":
        return InvalidValue(f"{name} is missing; give it.", param, "missing")
    if param in CANNOT or param.partition(".")[0] in CANNOT:
        return InvalidValue(
            f"{param} asks for what this server cannot do; leave it out.",
            param,
            "unsupported_value",
        )
    return InvalidValue(f"{name} is {_shown(first.get('input'))}; {_reasons(alike)}.", param)


def _of_first_field(errors: list[Any], body: Any) -> list[Any]:
    """Return what is wrong with the first field, of those types that its value comes closest to.

    A field of several types has errors of each of them. The closest is the one that was followed
    furthest into the value, and of these one that has its type, with another fault.
    """
    place = _path(errors[0], body)
    if not place:
        return errors[:1]
    paths = [(error, _path(error, body)) for error in errors]
    inside = [(error, path) for error, path in paths if path[: len(place)] == place]
    deepest = max((path for _, path in inside), key=len)
    alike = [error for error, path in inside if path == deepest]
    return [error for error in alike if not _is_mismatch(error)][:1] or alike


def _is_mismatch(error: Any) -> bool:
    """Return whether a value is of another type altogether."""
    kind = str(error["type"])
    return kind.endswith("_type") or kind in ("literal_error", "none_required")


def _reasons(errors: list[Any]) -> str:
    """Return what was expected, by any of the types."""
    first, *others = (str(error["msg"]).removeprefix("Value error, ") for error in errors)
    reasons = dict.fromkeys([first, *(other.removeprefix("Input should be ") for other in others)])
    reason = " or ".join(reasons).rstrip(".")
    return reason[:1].lower() + reason[1:]


def _shown(value: Any) -> str:
    """Return a value as JSON has it, short, without signs that would not be seen."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text if len(text) <= _QUOTED else text[:_QUOTED] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _path(error: Any, body: Any) -> tuple[str, ...]:
    """Return the names on the way to a field, without those of alternatives in a type."""
    names: list[str] = []
    steps = error["loc"][1:]
    for number, step in enumerate(steps):
        inside = (isinstance(body, dict) and step in body) or (
            isinstance(body, list) and isinstance(step, int) and step < len(body)
        )
        if inside:
            body = body[step]
        # A field that is missing is named too, though it is not there.
        if inside or (error["type"] == "missing" and number == len(steps) - 1):
            names.append(str(step)[:_QUOTED])
    return tuple(names)
