"""A request's work, seen from the event loop: what it tells, its end, and every way to end early.

    errand = Errand(service, request)
    errand.start(work)                       # raises where there is no room
    async with errand.news() as news:        # what the work tells, until it is done
        async for name, value in news: ...
    errand.result                            # or, with nothing told: await errand.run()

The client may leave, or time may be up: then the work is cancelled, and nobody waits for it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from remask.serve.errors import Fault

if TYPE_CHECKING:
    from starlette.requests import Request

    from remask.serve.programs import Work
    from remask.serve.service import Service

_DONE, _LEFT, _LATE = "done", "left", "late"


class Left(Exception):
    """The client has gone: there is nobody to answer."""


class Errand:
    """One request."""

    def __init__(self, service: "Service", request: "Request") -> None:
        self.service, self.request = service, request
        self.began = time.perf_counter()
        self.result: Any = None
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        service.batcher.check_room()

    @property
    def seconds(self) -> float:
        """Time since it arrived."""
        return time.perf_counter() - self.began

    @property
    def id(self) -> str:
        """The id of the request."""
        return str(self.request.scope["state"]["request_id"])

    def tell(self, name: str, value: Any) -> None:
        """Hear something of the work; called in the model's thread."""
        # The loop may be gone when the server is: then nobody listens.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._news.put_nowait, (name, value))

    def start(self, work: "Work[Any]") -> None:
        """Hand the work to the batcher."""
        self._job = self.service.batcher.submit(work, lambda outcome: self.tell(_DONE, outcome))

    def news(self) -> "contextlib.aclosing[AsyncGenerator[tuple[str, Any], None]]":
        """Return what the work tells; its error, its client's leave, its time's end are raised."""
        return contextlib.aclosing(self._listen())

    async def _listen(self) -> AsyncGenerator[tuple[str, Any], None]:
        left = max(0.0, self.service.settings.seconds - self.seconds)
        timer = self._loop.call_later(left, self._stop, _LATE)
        watch = self._loop.create_task(self._watch())
        try:
            while True:
                name, value = await self._news.get()
                if name == _DONE:
                    self.result = _outcome(value)
                    return
                if name in (_LEFT, _LATE):
                    raise self._ended(name)
                yield name, value
        finally:
            timer.cancel()
            watch.cancel()
            self.service.batcher.cancel(self._job)

    async def run(self) -> Any:
        """Return the result of the work, whatever it tells on the way."""
        async with self.news() as news:
            async for _ in news:
                pass
        return self.result

    async def prepare(self, make: Callable[[], Any]) -> Any:
        """Return what `make` does, made in another thread: long texts take their time."""
        return await self._loop.run_in_executor(self.service.helpers, make)

    async def _watch(self) -> None:
        """Notice that the client leaves."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self._stop(_LEFT)

    def _stop(self, why: str) -> None:
        """End the work at once: whoever listens may be stuck with a client that does not read."""
        self.service.batcher.cancel(self._job)
        self._news.put_nowait((why, None))

    def _ended(self, name: str) -> Exception:
        if name == _LEFT:
            return Left()
        seconds = self.service.settings.seconds
        return Fault(
            504, f"not finished within {seconds:g} s; ask for less, or try again later.",
            code="timeout",
        )  # fmt: skip


def _outcome(value: Any) -> Any:
    if isinstance(value, BaseException):
        raise value
    return value
