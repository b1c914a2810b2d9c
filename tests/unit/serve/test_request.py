"""A request seen from the event loop: it ends in time, whoever listens."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from starlette.requests import Request

from remask.serve.errors import ApiError
from remask.serve.programs import BatchRow, Plan
from remask.serve.request import ClientRequest
from remask.serve.service import build_service
from remask.serve.settings import ServeSettings
from remask.testing import ScriptedDenoiser

MODEL = ScriptedDenoiser(script=lambda tokens: torch.zeros(*tokens.shape, 262))
LIMIT = 300.0  # seconds that only a defect takes


IDLE = BatchRow("idle", "idle", 0, 0, None, lambda denoiser, values: list(values))


def endless(client: ClientRequest) -> Iterator[Any]:
    while True:
        yield [IDLE]
        client.emit("block", None)


async def silence() -> Any:
    """Stay, and send nothing more."""
    await asyncio.Event().wait()


def test_time_that_is_up_ends_the_program_even_of_a_client_that_does_not_read() -> None:
    """One event is read, then none: the place is free once the time is up."""
    settings = ServeSettings(model="m", max_queue=1, seconds=2.0)
    service = build_service(MODEL, settings)

    async def ask() -> None:
        client = ClientRequest(service, Request({"type": "http", "headers": []}, silence))
        program: Any = endless(client)
        await client.start(Plan(program, []))
        async with client.events() as events:
            assert await anext(events) == ("block", None)
            async with asyncio.timeout(LIMIT):
                while service.batcher.num_jobs:
                    await asyncio.sleep(0.01)
            with pytest.raises(ApiError, match="not finished within 2 s"):
                async for _ in events:
                    pass

    asyncio.run(ask())
    service.batcher.close(LIMIT)
