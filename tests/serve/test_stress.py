"""Many requests of every kind at once: each gets its own right answer, none is lost."""

import asyncio
from dataclasses import replace
from typing import Any

import httpx
from serving.live import live, soon  # type: ignore[import-not-found]
from serving.mixed import expected, storm  # type: ignore[import-not-found]

from remask.denoisers.base import Denoiser
from remask.serve.settings import ServeSettings

REQUESTS = 200  # benchmarks/serve.py sends 2,000


def test_nothing_is_lost_or_crossed_among_mixed_requests(
    denoiser: Denoiser, faulty: Any, settings: ServeSettings
) -> None:
    """A batch runs out of memory and another gives NaN on the way; the queue is small, too."""
    known = expected(denoiser, settings.model)
    faults = {REQUESTS // 3: "memory", REQUESTS // 2: "nan"}
    at = {place: lambda f=fault: setattr(faulty, "fault", f) for place, fault in faults.items()}
    small = replace(settings, max_queue=24, body_bytes=300_000)
    with live(faulty, small) as (service, url):
        tally = asyncio.run(
            storm(url, known, number=REQUESTS, limit=small.body_bytes, clients=32, at=at)
        )
        failures = service.metrics.text().decode()
        assert httpx.get(f"{url}/ready", timeout=300).status_code == 200
        assert soon(lambda: service.batcher.num_jobs == 0), "those who left are still served"
    assert not tally.wrong
    assert not tally.lost
    assert tally.sent == REQUESTS == tally.answered + tally.left
    assert 'remask_batch_failures_total{error="OutOfMemoryError"} 1.0' in failures
    assert 'remask_batch_failures_total{error="DenoiserError"} 1.0' in failures
