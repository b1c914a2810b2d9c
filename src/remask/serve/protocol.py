"""HTTP as uvicorn speaks it, with errors of our form and a limit on the time of a request's head.

Without a limit a client that sends a header now and then, and never the last, keeps its connection
for ever. It is that of the whole head: bytes that come in time do not extend it. A body has its own
(`middleware`), and so has the time between two requests, which is uvicorn's.

What is no HTTP never reaches the middleware, so it is answered here, as everything else is.
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
_QUOTED = 80  # characters of the reason that a parser gives


def protocol(seconds: float) -> type[H11Protocol]:
    """Return the protocol of a server that waits so long for the head of a request."""

    class Protocol(_HeadLimited):
        head_seconds = seconds

    return Protocol


class _HeadLimited(H11Protocol):
    """One connection."""

    head_seconds: float
    _timer: asyncio.TimerHandle | None = None
    _begun = False  # whether any byte of the head has come

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head, where it is not complete."""
        super().data_received(data)
        self._begun = not self._is_answering
        if self._is_answering:
            self._stop()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
        super().connection_lost(exc)

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self._end)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        """Close the connection: with an answer, where somebody has begun to ask."""
        self._timer = None
        if self._is_answering or self.transport.is_closing():
            return
        if self._begun and self.conn.our_state is h11.IDLE:
            self._refuse(ApiError(
                408, f"the head of the request did not arrive within {self.head_seconds:g} s; send "
                "it again.", param="headers", code="timeout",
            ))  # fmt: skip
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; called while the parser's error is handled."""
        reason = ascii(str(sys.exc_info()[1] or msg))[1:-1][:_QUOTED]
        self._refuse(ApiError(
            400, f"the request is not valid HTTP ({reason}); correct it.",
            param="body" if self._is_answering else "headers", code="invalid_http",
        ))  # fmt: skip
        self.transport.close()

    def _refuse(self, error: ApiError) -> None:
        """Answer with an error, unless another answer has begun."""
        name = new_id("req")
        log.info("%s %d %s", name, error.status, error.message)
        body = error.response(name).model_dump_json().encode()
        own = {"content-type": "application/json", "content-length": str(len(body))}
        headers = {**own, "connection": "close", "x-request-id": name, **HEADERS}
        events = (
            h11.Response(
                status_code=error.status,
                headers=list(headers.items()),
                reason=STATUS_PHRASES[error.status],
            ),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        with suppress(h11.LocalProtocolError):
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
