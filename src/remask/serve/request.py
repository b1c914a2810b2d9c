"""A request in the event loop: the events of its program, and every way to end early.

    client = ClientRequest(service, request)
    await client.start(plan)                   # raises if the request would be late
    async with client.events() as events:      # emitted by the program until it ends
        async for name, value in events: ...
    client.result                              # or without events: await client.run()

The program is cancelled when the client leaves. At the deadline it ends with what it has.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from remask.serve.errors import ApiError, InvalidValue

if TYPE_CHECKING:
    from starlette.requests import Request

    from remask.serve.programs import Plan
    from remask.serve.service import Service

CLIENT_ID = "x-client-request-id"  # the client's name of a request, for /v1/queue
TIME_LIMIT = "x-remask-timeout"  # seconds, at most those of the server
# Programs end this much earlier than the time limit, so that the response arrives in time.
_RESERVE, _MOST_RESERVE = 0.05, 2.0  # share of the limit, seconds
_DONE, _LEFT = "done", "left"
_Made = TypeVar("_Made")


class ClientLeft(Exception):
    """The client has closed the connection."""


class ClientRequest:
    """One request and the program that answers it."""

    def __init__(self, service: "Service", request: "Request") -> None:
        self.service, self.request = service, request
        self.began: float = request.scope.get("state", {}).get("began", service.batcher.clock())
        self.result: Any = None
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    @property
    def seconds(self) -> float:
        """Seconds since the request arrived."""
        return self.service.batcher.clock() - self.began

    @property
    def limit(self) -> float:
        """Time limit in seconds: the server's, or the client's if it is lower."""
        most: float = self.service.settings.seconds
        given = self.request.headers.get(TIME_LIMIT)
        if given is None:
            return most
        try:
            seconds = float(given)
        except ValueError:
            seconds = math.nan
        if not seconds > 0:
            message = f"{TIME_LIMIT} must be a number of seconds above 0, got {given[:60]!r}."
            raise InvalidValue(message, TIME_LIMIT)
        return min(most, seconds)

    @property
    def deadline(self) -> float:
        """End of the program on the batcher's clock."""
        return self.began + self.limit - min(_MOST_RESERVE, _RESERVE * self.limit)

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self.deadline - self.service.batcher.clock())

    @property
    def id(self) -> str:
        return str(self.request.scope["state"]["request_id"])

    def emit(self, name: str, value: Any) -> None:
        """Queue an event of the program; called in the model's thread."""
        # The loop is closed if the server has stopped.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._queue.put_nowait, (name, value))

    async def start(self, plan: "Plan") -> None:
        """Hand the program to the batcher, or raise if there is no room or not enough time."""
        if plan.warm is not None:
            loading = self._loop.run_in_executor(self.service.loader, plan.warm)
            await asyncio.wait([loading], timeout=self.left)
            if loading.done():
                loading.result()  # raises if a package is missing
        name = self.request.headers.get(CLIENT_ID, "")
        self._job = self.service.batcher.submit(
            plan.program, lambda result: self.emit(_DONE, result), name, plan.needs, self.deadline
        )

    def events(self) -> contextlib.aclosing[AsyncGenerator[tuple[str, Any], None]]:
        """Return the events of the program; the iteration raises its error."""
        return contextlib.aclosing(self._events())

    async def _events(self) -> AsyncGenerator[tuple[str, Any], None]:
        timer = self._loop.call_later(self.left, self._expire)
        watch = self._loop.create_task(self._watch())
        try:
            while True:
                name, value = await self._queue.get()
                if name == _LEFT:
                    raise ClientLeft
                if name == _DONE:
                    if isinstance(value, BaseException):
                        raise value
                    self.result = value
                    return
                yield name, value
        finally:
            timer.cancel()
            watch.cancel()
            self.service.batcher.cancel(self._job)

    async def run(self) -> Any:
        """Return the result of the program."""
        async with self.events() as events:
            async for _ in events:
                pass
        return self.result

    async def in_thread(self, make: Callable[[], _Made]) -> _Made:
        """Return `make()`, called in a helper thread: long texts take time."""
        return await self._loop.run_in_executor(self.service.helpers, make)

    async def _watch(self) -> None:
        """Cancel the program when the client leaves."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self.service.batcher.cancel(self._job)
        self._queue.put_nowait((_LEFT, None))

    def _expire(self) -> None:
        message = f"not finished within {self.limit:g} s; ask for less, or try again later."
        late = ApiError(504, message, code="timeout")
        # In a thread: the program may be running in the model's.
        self._loop.run_in_executor(
            self.service.helpers, self.service.batcher.expire, self._job, late
        )
