"""A request as the event loop sees it: its events, its end, and every way to end early.

    client = ClientRequest(service, request)   # raises where the queue is full
    client.start(program)
    async with client.events() as events:      # what the program emits, until it is done
        async for name, value in events: ...
    client.result                              # or, without the events: await client.run()

When the client leaves, or the time is up, the program is cancelled and nobody waits for it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from remask.serve.errors import ApiError

if TYPE_CHECKING:
    from starlette.requests import Request

    from remask.serve.programs import Program
    from remask.serve.service import Service

CLIENT_ID = "x-client-request-id"  # a name of the client's own, by which it asks for its place
_DONE, _LEFT, _LATE = "done", "left", "late"
_Made = TypeVar("_Made")


class ClientLeft(Exception):
    """The client has gone: there is nobody to answer."""


class ClientRequest:
    """One request and the program that answers it."""

    def __init__(self, service: "Service", request: "Request") -> None:
        self.service, self.request = service, request
        self.began = time.perf_counter()
        self.result: Any = None
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        service.batcher.check_room()

    @property
    def seconds(self) -> float:
        """Time since it arrived."""
        return time.perf_counter() - self.began

    @property
    def id(self) -> str:
        """The id of the request."""
        return str(self.request.scope["state"]["request_id"])

    def emit(self, name: str, value: Any) -> None:
        """Queue an event of the program; called in the model's thread."""
        # The loop may be gone when the server is: then nobody listens.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._queue.put_nowait, (name, value))

    def start(self, program: "Program[Any]") -> None:
        """Hand the program to the batcher, or raise where the queue is full."""
        name = self.request.headers.get(CLIENT_ID, "")
        self._job = self.service.batcher.submit(
            program, lambda result: self.emit(_DONE, result), name
        )

    def events(self) -> contextlib.aclosing[AsyncGenerator[tuple[str, Any], None]]:
        """Return the events to iterate over; an error, or an early end, is raised there."""
        return contextlib.aclosing(self._events())

    async def _events(self) -> AsyncGenerator[tuple[str, Any], None]:
        left = max(0.0, self.service.settings.seconds - self.seconds)
        timer = self._loop.call_later(left, self._stop, _LATE)
        watch = self._loop.create_task(self._watch())
        try:
            while True:
                name, value = await self._queue.get()
                if name == _DONE:
                    self.result = _raised_or_result(value)
                    return
                if name in (_LEFT, _LATE):
                    raise self._early_end(name)
                yield name, value
        finally:
            timer.cancel()
            watch.cancel()
            self.service.batcher.cancel(self._job)

    async def run(self) -> Any:
        """Return the result of the program, without its events."""
        async with self.events() as events:
            async for _ in events:
                pass
        return self.result

    async def in_thread(self, make: Callable[[], _Made]) -> _Made:
        """Return what `make` returns, called in another thread: long texts take time."""
        return await self._loop.run_in_executor(self.service.helpers, make)

    async def _watch(self) -> None:
        """Notice that the client leaves."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self._stop(_LEFT)

    def _stop(self, why: str) -> None:
        """End the program at once: the listener may be stuck with a client that does not read."""
        self.service.batcher.cancel(self._job)
        self._queue.put_nowait((why, None))

    def _early_end(self, name: str) -> Exception:
        if name == _LEFT:
            return ClientLeft()
        seconds = self.service.settings.seconds
        return ApiError(
            504, f"not finished within {seconds:g} s; ask for less, or try again later.",
            code="timeout",
        )  # fmt: skip


def _raised_or_result(value: Any) -> Any:
    if isinstance(value, BaseException):
        raise value
    return value
