"""HTTP/1.1 as uvicorn speaks it, with our errors and a time limit for the head of a request.

Without the limit, a client that never ends its headers keeps its connection forever. Bytes that
arrive in time do not extend the limit. Bodies have a limit of their own (`middleware`); so has an
idle connection (uvicorn). Invalid HTTP never reaches the middleware, so it is answered here.
"""

import asyncio
import logging
import sys
from contextlib import suppress

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from remask.serve.errors import ApiError
from remask.serve.middleware import HEADERS
from remask.serve.responses import new_id

log = logging.getLogger("remask.serve")
_QUOTED = 80  # characters of the parser's reason


def protocol(seconds: float) -> type[H11Protocol]:
    """Return the protocol of a server with this time limit for heads."""

    class Protocol(_HeadLimited):
        head_seconds = seconds

    return Protocol


class _HeadLimited(H11Protocol):
    """One connection."""

    head_seconds: float
    _timer: asyncio.TimerHandle | None = None
    _has_begun = False  # whether any byte of the head has arrived

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._has_begun = not self._is_answering
        if self._is_answering:
            self._stop_timer()
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        """Close the connection; answer with 408 if a request has begun."""
        self._timer = None
        if self._is_answering or self.transport.is_closing():
            return
        if self._has_begun and self.conn.our_state is h11.IDLE:
            message = f"The head of the request did not arrive within {self.head_seconds:g} s."
            self._refuse(ApiError(408, message, param="headers", code="timeout"))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP; uvicorn calls this while it handles the parser's error."""
        reason = ascii(str(sys.exc_info()[1] or msg))[1:-1][:_QUOTED]
        param = "body" if self._is_answering else "headers"
        message = f"The request must be valid HTTP ({reason})."
        self._refuse(ApiError(400, message, param=param, code="invalid_http"))
        self.transport.close()

    def _refuse(self, error: ApiError) -> None:
        """Send an error, unless a response has begun."""
        name = new_id("req")
        log.info("%s %d %s", name, error.status, error.message)
        body = error.response(name).model_dump_json().encode()
        own = {"content-type": "application/json", "content-length": str(len(body))}
        headers = {**own, "connection": "close", "x-request-id": name, **HEADERS}
        response = h11.Response(
            status_code=error.status,
            headers=list(headers.items()),
            reason=STATUS_PHRASES[error.status],
        )
        with suppress(h11.LocalProtocolError):
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
