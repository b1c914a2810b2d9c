"""A small random model, served: called in this process, or over a real socket."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import torch
from serving.live import Faulty, live  # type: ignore[import-not-found]

import remask
from remask.consistency.semantic import sentence_encoder
from remask.denoisers.base import Denoiser
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.wrap import Wrapped
from remask.serve.app import build_app
from remask.serve.service import Service, build_service
from remask.serve.settings import ServeSettings
from remask.testing import write_checkpoint
from remask.values import Canvas

BASE = "http://127.0.0.1:7575"
LIMIT = 300.0  # seconds that only a defect takes


@dataclass(frozen=True)
class Client:
    """Requests to an app in this process, each in an event loop of its own."""

    service: Service
    app: Any

    def send(self, method: str, path: str, **content: Any) -> httpx.Response:
        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
                return await client.request(method, path, **content)

        return asyncio.run(call())

    def get(self, path: str, **content: Any) -> httpx.Response:
        return self.send("GET", path, **content)

    def post(self, path: str, body: Any, **content: Any) -> httpx.Response:
        return self.send("POST", path, json=body, **content)

    def ok(self, path: str, body: Any) -> Any:
        answer = self.post(path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def chunks(self, path: str, body: Any) -> list[dict[str, Any]]:
        """Return the chunks of a stream in OpenAI's shape."""
        text = self.post(path, {**body, "stream": True}).text
        lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        assert lines.pop() == "[DONE]"
        return [json.loads(line) for line in lines]

    def refused(self, path: str, body: Any, status: int = 400) -> dict[str, Any]:
        answer = self.post(path, body)
        assert answer.status_code == status, answer.text
        error: dict[str, Any] = answer.json()["error"]
        assert error["request_id"] == answer.headers["x-request-id"]
        return error


@dataclass(frozen=True, eq=False)
class Held(Wrapped):
    """A model that says when it is asked, and waits until it may go on."""

    begun: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> torch.Tensor:
        self.begun.set()
        assert self.go_on.wait(LIMIT)
        return super().hidden(canvas, cache)


@dataclass(frozen=True, eq=False)
class Failing(Wrapped):
    """A model with a defect: it fails after a number of passes."""

    passes: Iterator[int] = field(default_factory=lambda: iter(range(5)))

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> torch.Tensor:
        if next(self.passes, None) is None:
            raise RuntimeError("a secret of ours")
        return super().hidden(canvas, cache)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random LLaDA: bytes for tokens, a canvas of 16."""
    made = tmp_path_factory.mktemp("served") / "model"
    write_checkpoint(
        made, layers=1, width=16, heads=2, inner=16, length=16, max_length=512,
        dtype=torch.float32,
    )  # fmt: skip
    config = made / "generation_config.json"
    config.write_text('{"length": 16, "steps": 8, "block": 8, "temperature": 1.0}')
    return made


@pytest.fixture(scope="session")
def denoiser(folder: Path) -> Denoiser:
    return remask.load(str(folder), device="cpu")


@pytest.fixture
def faulty(denoiser: Denoiser) -> Any:
    return Faulty(denoiser)


@pytest.fixture
def held(denoiser: Denoiser) -> Iterator[Held]:
    model = Held(denoiser)
    yield model
    model.go_on.set()


@pytest.fixture
def serving(denoiser: Denoiser, settings: ServeSettings) -> Iterator[Callable[..., Client]]:
    """Starts servers with other settings or another model."""
    services = []

    def make(model: Denoiser = denoiser, **changes: Any) -> Client:
        service = build_service(model, replace(settings, **changes))
        services.append(service)
        return Client(service, build_app(service))

    yield make
    for service in services:
        service.batcher.close(LIMIT)


@pytest.fixture
def failing(denoiser: Denoiser, serving: Callable[..., Client]) -> Client:
    """A server whose model fails after five passes."""
    return serving(Failing(denoiser))


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Thread]]:
    """No sentence-transformers; yields the threads that wanted to import it."""
    threads: list[threading.Thread] = []

    class Absent(ModuleType):
        def __getattr__(self, name: str) -> None:
            if name == "SentenceTransformer":
                threads.append(threading.current_thread())
            raise AttributeError(name)

    monkeypatch.setitem(sys.modules, "sentence_transformers", Absent("sentence_transformers"))
    sentence_encoder.cache_clear()
    yield threads
    sentence_encoder.cache_clear()


@pytest.fixture(scope="session")
def settings(folder: Path) -> ServeSettings:
    return ServeSettings(
        model=str(folder), metrics="core", max_tokens=256, body_bytes=20_000, seconds=LIMIT,
        body_seconds=LIMIT, drain_seconds=LIMIT,
    )  # fmt: skip


@pytest.fixture
def body(settings: ServeSettings) -> dict[str, Any]:
    """The smallest chat."""
    message = {"role": "user", "content": "What is 12 + 5?"}
    return {"model": settings.model, "messages": [message]}


@pytest.fixture(scope="session")
def client(denoiser: Denoiser, settings: ServeSettings) -> Iterator[Client]:
    service = build_service(denoiser, settings)
    yield Client(service, build_app(service))
    service.batcher.close(LIMIT)


@pytest.fixture(scope="session")
def url(denoiser: Denoiser, settings: ServeSettings) -> Iterator[str]:
    with live(denoiser, settings) as (_, address):
        yield address
