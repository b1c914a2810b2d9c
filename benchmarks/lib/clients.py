"""Clients of a server, in a process of their own: verifications, as many at once as told.

    python benchmarks/lib/clients.py URL CLIENTS < bodies.json

Bodies are those of /v1/verify. What is printed is JSON: the seconds that each took, the seconds of
all, and the scores, in the order of the bodies.
"""

import asyncio
import json
import sys
import time
from typing import Any

import httpx


async def load(url: str, clients: int, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """Send every body, `clients` of them at a time."""
    waiting = iter(enumerate(bodies))
    seconds, scores = [0.0] * len(bodies), [None] * len(bodies)
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:

        async def work() -> None:
            for place, body in waiting:
                began = time.perf_counter()
                answer = await client.post("/v1/verify", json=body)
                seconds[place] = time.perf_counter() - began
                scores[place] = answer.raise_for_status().json()["score"]

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(clients)))
        return {"seconds": seconds, "total": time.perf_counter() - began, "scores": scores}


if __name__ == "__main__":
    told = asyncio.run(load(sys.argv[1], int(sys.argv[2]), json.load(sys.stdin)))
    json.dump(told, sys.stdout)
