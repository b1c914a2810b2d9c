"""Mixed requests against a server: good ones, bad ones, clients that leave, and one failing batch.

Every good request has an expected answer, computed offline beforehand; every bad one an expected
status. A request that is refused because the queue is full is sent again, as clients do. `Tally`
counts what was sent, what was answered, what was wrong and what never came back.
"""

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from remask import api
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.sampling.settings import SamplerSettings

TOLERANCE = 1e-5
TRIPS = ConsistencySettings(trips=2, rebuild_steps=4)
REMASK = {"trips": 2, "rebuild_steps": 4, "metrics": "core", "threshold": 0.75}
BUDGET = 2
SHARES = {
    "verify": 40, "chat": 14, "stream": 10, "solve": 10, "malformed": 10, "oversized": 4,
    "too_long": 4, "leaves": 8,
}  # fmt: skip
MALFORMED: tuple[bytes, ...] = (
    b"", b"{", b"[]", b"null", b'{"prompt": 1, "answer": "a"}', b'{"prompt": "a"}',
    b'{"prompt": "a", "answer": "b", "surprise": 1}', b'{"prompt": "a", "answer": ""}',
    b'{"prompt": "a", "answer": "b", "seed": 0.5}', b'{"prompt": "\\ud800", "answer": "b"}',
    b'{"prompt": "a", "answer": "b", "remask": {"trips": 0}}', b"\xff\xfe", b"[" * 5000,
    b'{"prompt": "a", "answer": "b", "remask": {"threshold": NaN}}',
)  # fmt: skip


@dataclass(kw_only=True)
class Tally:
    """What became of the requests."""

    sent: int = 0
    answered: int = 0
    left: int = 0  # by their clients
    refused: int = 0  # for the time being, with 429
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the same questions give offline."""

    model: str
    pairs: list[tuple[str, str]]
    scores: list[float | None]
    texts: list[str]
    decisions: list[tuple[int, str, float | None]]


def expected(denoiser: Denoiser, model: str, num_pairs: int = 12) -> Expected:
    """Return answers to compare with, from the library itself."""
    pairs = [(f"How much is {i} and {3 * i}?" + " Say." * i, f"It is {4 * i}." * (1 + i % 3))
             for i in range(num_pairs)]  # fmt: skip
    how = drawn(denoiser)
    decided = [
        api.solve(
            denoiser,
            prompt,
            sampler=how,
            settings=TRIPS,
            metrics="core",
            budget=BUDGET,
            seed=i,
            threshold=REMASK["threshold"],
        )
        for i, (prompt, _) in enumerate(pairs)
    ]
    scores = [
        api.score(denoiser, *pair, settings=TRIPS, metrics="core", seed=i)
        for i, pair in enumerate(pairs)
    ]
    texts = [api.sample(denoiser, p, settings=how, seed=i).text for i, (p, _) in enumerate(pairs)]
    return Expected(
        model=model,
        pairs=pairs,
        scores=[score.value for score in scores],
        texts=texts,
        decisions=[(d.sample.number, d.sample.text, d.score.value) for d in decided],
    )


def drawn(denoiser: Denoiser) -> SamplerSettings:
    """Return how answers are drawn, here and by the server."""
    base = denoiser.preset
    return SamplerSettings(length=base.length, steps=base.steps, block=base.block, temperature=1.0)


@dataclass(frozen=True, kw_only=True)
class Storm:
    """The clients."""

    client: httpx.AsyncClient
    known: Expected
    limit: int  # bytes of a body
    tally: Tally
    chance: random.Random

    async def one(self, kind: str) -> None:
        """Send one request of a kind, and count what comes of it."""
        self.tally.sent += 1
        which = self.chance.randrange(len(self.known.pairs))
        try:
            await getattr(self, f"_{kind}")(which)
        except (httpx.HTTPError, AssertionError, KeyError, ValueError) as error:
            told = self.tally.wrong if isinstance(error, AssertionError) else self.tally.lost
            told.append(f"{kind} {which}: {error!r}")

    async def _send(self, path: str, status: int, **content: Any) -> httpx.Response:
        while True:
            answer = await self.client.post(path, **content)
            if answer.status_code != 429:
                break
            assert int(answer.headers["retry-after"]) >= 1
            self.tally.refused += 1
            await asyncio.sleep(0.05)
        self.tally.answered += 1
        assert answer.status_code == status, f"{answer.status_code} {answer.text[:200]}"
        if status >= 400:
            assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]
        return answer

    def _asked(self, which: int) -> dict[str, Any]:
        return {"prompt": self.known.pairs[which][0], "seed": which, "remask": REMASK}

    def _chatted(self, which: int) -> dict[str, Any]:
        turns = [{"role": "user", "content": self.known.pairs[which][0]}]
        return {"model": self.known.model, "messages": turns, "seed": which, "temperature": 1.0}

    async def _verify(self, which: int) -> None:
        body = {**self._asked(which), "answer": self.known.pairs[which][1]}
        found = (await self._send("/v1/verify", 200, json=body)).json()
        assert found["text"] == body["answer"], "the answer of another request"
        _same(found["score"], self.known.scores[which])

    async def _chat(self, which: int) -> None:
        body = self._chatted(which)
        found = (await self._send("/v1/chat/completions", 200, json=body)).json()
        assert found["choices"][0]["message"]["content"] == self.known.texts[which]

    async def _stream(self, which: int) -> None:
        body = {**self._chatted(which), "stream": True}
        answer = await self._send("/v1/chat/completions", 200, json=body)
        lines = [line[6:] for line in answer.text.split("\n") if line.startswith("data: ")]
        assert lines.pop() == "[DONE]"
        deltas = [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]
        assert "".join(d.get("content", "") for d in deltas) == self.known.texts[which]

    async def _solve(self, which: int) -> None:
        asked = self._asked(which)
        body = {**asked, "temperature": 1.0, "remask": {**REMASK, "budget": BUDGET}}
        found = (await self._send("/v1/solve", 200, json=body)).json()
        number, text, score = self.known.decisions[which]
        assert (found["number"], found["text"]) == (number, text)
        _same(found["score"], score)

    async def _malformed(self, which: int) -> None:
        headers = {"content-type": "application/json"}
        await self._send("/v1/verify", 400, content=self.chance.choice(MALFORMED), headers=headers)

    async def _oversized(self, which: int) -> None:
        body = {**self._asked(which), "answer": "9" * self.limit}
        await self._send("/v1/verify", 413, json=body)

    async def _too_long(self, which: int) -> None:
        body = {**self._asked(which), "answer": "9 " * (self.limit // 4)}
        await self._send("/v1/verify", 400, json=body)

    async def _leaves(self, which: int) -> None:
        body = {**self._asked(which), "temperature": 1.0, "remask": {**REMASK, "budget": 8}}
        body["remask"]["threshold"] = 2.0  # never reached: there is work to leave
        body["stream"] = self.chance.random() < 0.5
        try:
            async with asyncio.timeout(self.chance.random() * 0.1):
                await self.client.post("/v1/solve", json=body)
        except TimeoutError:
            self.tally.left += 1
        else:
            self.tally.answered += 1


def _same(found: float | None, known: float | None) -> None:
    assert (found is None) == (known is None)
    assert found is None or known is None or abs(found - known) <= TOLERANCE, f"{found} {known}"


async def storm(
    url: str,
    known: Expected,
    *,
    number: int,
    limit: int,
    clients: int = 32,
    seed: int = 0,
    at: Mapping[int, Callable[[], None]] | None = None,
) -> Tally:
    """Send `number` mixed requests from so many clients; `at` is called before those it names."""
    tally, chance = Tally(), random.Random(seed)
    kinds = chance.choices(list(SHARES), list(SHARES.values()), k=number)
    waiting = iter(enumerate(kinds))
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        sender = Storm(client=client, known=known, limit=limit, tally=tally, chance=chance)

        async def work() -> None:
            for place, kind in waiting:
                if at and place in at:
                    at[place]()
                await sender.one(kind)

        await asyncio.gather(*(work() for _ in range(clients)))
    return tally
