"""What goes wrong, as a client reads it: one sentence in OpenAI's shape, never a stack trace."""

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


def unsupported(param: str | None) -> ApiError:
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
    """Return the error for a body that does not fit the schema: the first that pydantic lists."""
    first = errors[0]
    if first["type"] == "json_invalid" or not isinstance(body, dict):
        return not_an_object()
    param = _path(first["loc"][1:], body)
    if first["type"] == "extra_forbidden":
        return unsupported(param)
    name, param = param or "the body", "body" if param is None else param
    if first["type"] == "missing":
        return InvalidValue(f"{name} is missing; give it.", param, "missing")
    if param in CANNOT or param.partition(".")[0] in CANNOT:
        return InvalidValue(
            f"{param} asks for what this server cannot do; leave it out.",
            param,
            "unsupported_value",
        )
    reason = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    value = repr(first.get("input"))
    value = value if len(value) <= _QUOTED else value[:_QUOTED] + "..."
    return InvalidValue(f"{name} is {value}; {reason[:1].lower()}{reason[1:]}.", param)


def _path(steps: tuple[Any, ...], body: Any) -> str | None:
    """Return the dotted name of a field, without the names of alternatives in a type."""
    names: list[str] = []
    for number, step in enumerate(steps):
        inside = (isinstance(body, dict) and step in body) or (
            isinstance(body, list) and isinstance(step, int) and step < len(body)
        )
        last = number == len(steps) - 1
        if inside:
            body = body[step]
        if inside or (last and isinstance(body, dict)):
            names.append(str(step)[:_QUOTED])
    return ".".join(names) if names else None
