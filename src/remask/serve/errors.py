"""Errors as responses in OpenAI's shape, with one sentence and never a stack trace."""

import logging

from pydantic import BaseModel

from remask.errors import DenoiserError, InputError, MissingExtra, SettingsError, TaskError

log = logging.getLogger("remask.serve")
QUOTED = 60  # characters of a client's value that an error repeats
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    504: "timeout_error",
}


class ErrorDetail(BaseModel):
    """The field `error` of a response."""

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
    """A value of a request that is refused."""

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(400, message, param=param, code=code)


def api_error(error: BaseException, request_id: str) -> ApiError:
    """Return an exception as a response; the stack trace of a defect goes to the log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, InputError | SettingsError | TaskError):
        return InvalidValue(str(error))
    if isinstance(error, MissingExtra):
        return InvalidValue(str(error), "remask.metrics", "missing_extra")
    if is_out_of_memory(error):
        message = "Out of memory for this request alone; shorten it, or ask for fewer trips."
        return ApiError(503, message, code="out_of_memory")
    if isinstance(error, DenoiserError):
        return ApiError(500, str(error), code="model_error")
    log.error("%s failed", request_id, exc_info=error)
    message = "The server failed; its log has the cause under this request id."
    return ApiError(500, message, code="defect")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a device, or the machine, ran out of memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # The CPU allocator raises a plain RuntimeError.
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


def unsupported(param: str) -> ApiError:
    """Return the error for a parameter that does not exist."""
    name = param[:QUOTED] or "A parameter without a name"
    return InvalidValue(f"{name} is not supported; remove it.", param, "unsupported_parameter")
