"""A request seen from the event loop: it ends in time, whoever listens."""

import asyncio
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from remask.serve.batcher import Batcher
from remask.serve.errors import Fault
from remask.serve.metrics import Meters
from remask.serve.request import Errand
from remask.serve.service import ServeSettings
from remask.testing import ScriptedDenoiser

MODEL = ScriptedDenoiser(script=lambda tokens: torch.zeros(*tokens.shape, 262))
LIMIT = 300.0  # seconds that only a defect takes


class Row:
    """No work at all."""

    kind = group = "pretended"
    columns = 0

    def run(self, denoiser: Any, rows: Sequence["Row"]) -> list[None]:
        return [None] * len(rows)


def endless(errand: Errand) -> Iterator[Any]:
    while True:
        yield [Row()]
        errand.tell("block", None)


async def silence() -> Any:
    """Stay, and send nothing more."""
    await asyncio.Event().wait()


def test_time_that_is_up_ends_the_work_even_of_a_client_that_does_not_read() -> None:
    """One piece of news is read, then none: the place is free once the time is up."""
    batcher = Batcher(MODEL, Meters(), max_queue=1)
    batcher.start()
    service: Any = SimpleNamespace(
        batcher=batcher, settings=ServeSettings(model="m", seconds=2.0)
    )  # fmt: skip
    request: Any = SimpleNamespace(receive=silence)

    async def ask() -> None:
        errand = Errand(service, request)
        work: Any = endless(errand)
        errand.start(work)
        async with errand.news() as news:
            assert await anext(news) == ("block", None)
            async with asyncio.timeout(LIMIT):
                while batcher.num_jobs:
                    await asyncio.sleep(0.01)
            with pytest.raises(Fault, match="not finished within 2 s"):
                async for _ in news:
                    pass

    asyncio.run(ask())
    batcher.close(LIMIT)
