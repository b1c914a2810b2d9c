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
# What is wanted instead, by pydantic's name for an error, with its numbers.
_WANTED = {
    "string_type": "a text", "bool_type": "true or false", "int_type": "a whole number",
    "float_type": "a number", "finite_number": "a number", "list_type": "a list",
    "dict_type": "an object", "model_type": "an object", "model_attributes_type": "an object",
    "none_required": "null", "literal_error": "{expected}",
    "greater_than": "more than {gt}", "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}", "less_than_equal": "at most {le}",
    "string_too_short": "a text of {min_length} or more characters",
    "string_too_long": "a text of at most {max_length} characters",
    "too_short": "a list of {min_length} or more", "too_long": "a list of at most {max_length}",
}  # fmt: skip


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


def unreadable(cause: BaseException | None = None) -> ApiError:
    """Return the error for a body that cannot be read at all."""
    message = "the body is not a JSON object; send one, with Content-Type: application/json."
    if type(cause) is ValueError:  # Python's, of its limit; text that is no JSON has classes
        message = "the body has a whole number of thousands of digits; shorten it."
    elif isinstance(cause, RecursionError):
        message = "the body has too many brackets inside one another; send it without them."
    return InvalidValue(message, "body", "invalid_json")


def validation_error(errors: list[Any], body: Any) -> ApiError:
    """Return the error for a body that does not fit the schema: the first field that does not."""
    if errors[0]["type"] == "json_invalid" or not isinstance(body, dict):
        return unreadable()
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
    return InvalidValue(f"{name} is {_shown(first.get('input'))}; give {_wanted(alike)}.", param)


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


def _wanted(errors: list[Any]) -> str:
    """Return what any of the types would have taken."""
    return " or ".join(dict.fromkeys(_wanted_by_one(error) for error in errors))


def _wanted_by_one(error: Any) -> str:
    numbers = error.get("ctx", {})
    limits = {n: int(v) if isinstance(v, float) and v == v // 1 else v for n, v in numbers.items()}
    if error["type"] == "too_long" and limits["max_length"] == 0:
        return "an empty list"
    return _WANTED.get(error["type"], "another value").format_map(limits)


def _shown(value: Any) -> str:
    """Return a value as JSON has it, short, without signs that would not be seen."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text if len(text) <= _QUOTED else text[:_QUOTED] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _path(error: Any, body: Any) -> tuple[str, ...]:
    """Return the names on the way to a field, without those of alternatives in a type."""
    names: list[str] = []
    is_missing = error["type"] == "missing"
    for step in error["loc"][1:]:
        inside = (isinstance(body, dict) and step in body) or (
            isinstance(body, list) and isinstance(step, int) and step < len(body)
        )
        # A value may have a key that is called like an alternative: what was refused is no part.
        if inside and (is_missing or body is not error.get("input")):
            body = body[step]
            names.append(str(step)[:_QUOTED])
    if is_missing:  # named too, though it is not there
        names.append(str(error["loc"][-1])[:_QUOTED])
    return tuple(names)
