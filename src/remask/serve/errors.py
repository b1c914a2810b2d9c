"""What goes wrong, told to a client: one sentence, in OpenAI's shape, and never a stack trace."""

from typing import Any

from remask.errors import DenoiserError, InputError, MissingExtra, SettingsError, TaskError

_MOST = 60  # characters of a client's own words that it is told again
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    504: "timeout_error",
}


class Fault(Exception):
    """An answer other than 200."""

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

    def document(self, request_id: str) -> dict[str, Any]:
        """Return the body of the answer."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {
            "error": {
                "message": self.message,
                "type": _TYPES.get(self.status, kind),
                "param": self.param,
                "code": self.code,
                "request_id": request_id,
            }
        }


def fault_of(error: BaseException) -> Fault | None:
    """Return what a client is told of an error; None where it is a defect of ours."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, InputError | SettingsError | TaskError):
        return Fault(400, str(error), code="invalid_value")
    if isinstance(error, MissingExtra):
        return Fault(400, str(error), param="remask.metrics", code="missing_extra")
    if out_of_memory(error):
        return Fault(
            503, "out of memory even for this request alone; shorten it, or ask for fewer trips.",
            code="out_of_memory",
        )  # fmt: skip
    if isinstance(error, DenoiserError):
        return Fault(500, str(error), code="model_error")
    return None


def defect() -> Fault:
    """Return what a client is told of a defect of ours."""
    return Fault(500, "the server failed; its log tells why under this request id.", code="defect")


def out_of_memory(error: BaseException) -> bool:
    """Say whether a device, or the machine, had no more memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # What the allocator of the CPU raises has no class of its own.
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


def unsupported(param: str | None) -> Fault:
    """Return what a client is told of a parameter that does not exist here."""
    shown = param[:_MOST] if param else "a parameter without a name"
    return Fault(
        400, f"{shown} is not supported here; remove it.", param=param,
        code="unsupported_parameter",
    )  # fmt: skip


def no_object() -> Fault:
    """Return what a client is told whose body cannot be read at all."""
    return Fault(
        400, "the body is not a JSON object; send one, with Content-Type: application/json.",
        code="invalid_json",
    )  # fmt: skip


def invalid(errors: list[Any], body: Any) -> Fault:
    """Return what a client is told of a body that does not fit the schema: its first error."""
    first = errors[0]
    if first["type"] == "json_invalid" or not isinstance(body, dict):
        return no_object()
    param = _path(first["loc"][1:], body)
    if first["type"] == "extra_forbidden":
        return unsupported(param)
    if first["type"] == "missing":
        name = param or "the body"
        return Fault(400, f"{name} is missing; give it.", param=param, code="missing")
    told = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    shown = repr(first.get("input"))
    shown = shown if len(shown) <= _MOST else shown[:_MOST] + "..."
    message = f"{param or 'the body'} is {shown}; {told[:1].lower()}{told[1:]}."
    return Fault(400, message, param=param, code="invalid_value")


def _path(places: tuple[Any, ...], body: Any) -> str | None:
    """Return the dotted name of a field: names of alternatives in a type are no part of it."""
    names: list[str] = []
    for number, place in enumerate(places):
        inside = (isinstance(body, dict) and place in body) or (
            isinstance(body, list) and isinstance(place, int) and place < len(body)
        )
        last = number == len(places) - 1
        if inside:
            body = body[place]
        if inside or (last and isinstance(body, dict)):
            names.append(str(place)[:_MOST])
    return ".".join(names) or None
