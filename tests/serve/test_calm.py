"""Under load, when it goes down, and with clients that dawdle: the others are served."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest
from serving.live import live, soon  # type: ignore[import-not-found]

import remask
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.serve.service import Service
from remask.serve.settings import ServeSettings

Held = Any  # see conftest.py
LIMIT = 300.0  # seconds that only a defect takes
SMALL = {"prompt": "What is 2 + 2?", "answer": "4", "remask": {"trips": 1, "rebuild_steps": 2}}
HEAVY = {
    "prompt": "What is 12 + 5?", "answer": "It is 17." * 10,
    "remask": {"trips": 64, "rebuild_steps": 256},
}  # fmt: skip
SOLVE = {
    "prompt": "What is 12 + 5?",
    "remask": {"budget": 32, "trips": 32, "rebuild_steps": 64, "threshold": 2.0},
}


@contextmanager
def waiting(url: str, path: str, body: dict[str, Any]) -> Iterator[None]:
    """Ask, and leave at the end without having heard the answer."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    client = HTTPConnection(host, int(port), timeout=LIMIT)
    client.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    yield
    client.close()


def test_a_small_request_does_not_wait_for_heavy_ones(
    denoiser: Denoiser, settings: ServeSettings
) -> None:
    """Each of the heavy ones takes minutes: all of them still run when the small one is done."""
    how = ConsistencySettings(trips=1, rebuild_steps=2)
    known = remask.score(denoiser, "What is 2 + 2?", "4", settings=how, metrics="core")
    patient = replace(settings, seconds=100 * LIMIT)
    with live(denoiser, patient) as (service, url), ExitStack() as clients:
        for path, body in (("/v1/verify", HEAVY), *[("/v1/solve", SOLVE)] * 7):
            clients.enter_context(waiting(url, path, body))
        assert soon(lambda: service.batcher.num_jobs == 8)
        for _ in range(3):
            answer = httpx.post(f"{url}/v1/verify", json=SMALL, timeout=LIMIT)
            assert answer.json()["score"] == pytest.approx(known.value, abs=1e-5)
            assert service.batcher.num_jobs == 8


def test_what_is_interrupted_comes_to_the_same_score(
    denoiser: Denoiser, settings: ServeSettings
) -> None:
    asked = {"trips": 8, "rebuild_steps": 32}
    how = ConsistencySettings(**asked)
    known = remask.score(denoiser, "p", "It is 17." * 10, settings=how, metrics="core")
    long = {"prompt": "p", "answer": "It is 17." * 10, "remask": asked}
    with live(denoiser, settings) as (service, url), ThreadPoolExecutor(1) as other:
        answer = other.submit(httpx.post, f"{url}/v1/verify", json=long, timeout=LIMIT)
        assert soon(lambda: service.batcher.num_jobs == 1 or answer.done())
        while not answer.done():
            httpx.post(f"{url}/v1/verify", json=SMALL, timeout=LIMIT)
        assert answer.result().json()["score"] == pytest.approx(known.value, abs=1e-5)


def asks(url: str) -> tuple[int, int, str]:
    """Return what is answered to whoever asks whether the server is ready, and for work."""
    refused = httpx.post(f"{url}/v1/verify", json=SMALL, timeout=LIMIT)
    ready = httpx.get(f"{url}/ready", timeout=LIMIT).status_code
    return ready, refused.status_code, refused.json()["error"]["code"]


def test_a_server_that_goes_down_says_so_until_it_is_gone(
    held: Held, settings: ServeSettings
) -> None:
    """It is asked by new connections, while a request still runs; that one is answered."""
    seen: list[Any] = []

    def look(service: Service, url: str) -> None:
        assert soon(lambda: not service.batcher.ready)
        seen.append(asks(url))
        held.go_on.set()

    def ask(url: str) -> None:
        seen.append(httpx.post(f"{url}/v1/verify", json=SMALL, timeout=LIMIT).status_code)

    with live(held, settings) as (service, url):
        threads = [
            threading.Thread(target=ask, args=(url,)),
            threading.Thread(target=look, args=(service, url)),
        ]
        for thread in threads:
            thread.start()
        assert held.begun.wait(LIMIT)
    for thread in threads:
        thread.join(LIMIT)
    assert seen == [(503, 503, "going_down"), 200]


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT) as made:
        yield made


def heard(client: socket.socket) -> bytes:
    """Return all that comes until the server closes the connection."""
    parts = []
    with suppress(ConnectionResetError):
        while part := client.recv(65_536):
            parts.append(part)
    return b"".join(parts)


PATIENCE = 2.0  # seconds that the server waits for the head of a request


def slow_head(url: str, *, before: bool) -> bytes:
    """Send a byte of a header now and then, for as long as anyone listens; return the answer.

    `before` it, the same connection may have had a request that was in order.
    """
    stopped = threading.Event()

    def dawdle() -> None:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        with suppress(OSError):
            while not stopped.is_set():
                time.sleep(0.05)
                client.sendall(b"a")

    with connected(url) as client:
        if before:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b'{"status": "ok"}' in client.recv(65_536)
        slow = threading.Thread(target=dawdle)
        slow.start()
        answer = heard(client)
        stopped.set()
        slow.join(LIMIT)
    return answer


def no_head(url: str) -> bytes:
    """Ask nothing at all."""
    with connected(url) as client:
        return heard(client)


def slow_body(url: str) -> bytes:
    """Send a head at once, and the body when the time of the head is over."""
    body = json.dumps(SMALL).encode()
    head = (
        "POST /v1/verify HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}",
        "Content-Type: application/json", "Connection: close", "", "",
    )  # fmt: skip
    with connected(url) as client:
        client.sendall("\r\n".join(head).encode())
        time.sleep(1.5 * PATIENCE)
        client.sendall(body)
        return heard(client)


def test_heads_that_never_end_are_refused_and_slow_bodies_are_not(
    denoiser: Denoiser, settings: ServeSettings
) -> None:
    """The first head of a connection, or a later one; bytes that keep coming do not help. Who says
    nothing is told nothing."""
    patient = replace(settings, head_seconds=PATIENCE)
    with live(denoiser, patient) as (_, url), ThreadPoolExecutor(4) as people:
        first, later = (people.submit(slow_head, url, before=b) for b in (False, True))
        silent, slow = people.submit(no_head, url), people.submit(slow_body, url)
        for answer in (first.result(), later.result()):
            assert answer.startswith(b"HTTP/1.1 408 ")
            error = told(answer)
            assert (error["param"], error["code"]) == ("headers", "timeout")
        assert silent.result() == b""
        assert slow.result().startswith(b"HTTP/1.1 200 ")


def told(answer: bytes) -> Any:
    """Return the error of an answer, which has the headers of every answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = (line.decode().split(": ", 1) for line in head.split(b"\r\n")[1:])
    headers = {name.lower(): value for name, value in lines}
    error = json.loads(body)["error"]
    assert headers["content-type"] == "application/json"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-request-id"] == error["request_id"]
    return error


POSTED = b"POST /v1/verify HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "param", "reason"),
    [
        (b"nonsense\r\n\r\n", "headers", "illegal request line"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n", "headers", "illegal header line"),
        (b"GET / HTTP/1.1\r\n\r\n", "headers", "Host"),
        (POSTED + b"Content-Length: many\r\n\r\n", "headers", "Content-Length"),
        (POSTED + b"Transfer-Encoding: chunked\r\n\r\n\x1b[1m\r\n", "body", "chunk"),
    ],
)
def test_what_is_no_http_is_answered_as_everything_is(
    url: str, request_bytes: bytes, param: str, reason: str
) -> None:
    with connected(url) as client:
        client.sendall(request_bytes)
        answer = heard(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    error = told(answer)
    assert (error["param"], error["code"]) == (param, "invalid_http")
    assert reason in error["message"]
    assert error["message"].isprintable()


def test_what_is_no_http_after_an_answer_ends_the_connection(url: str) -> None:
    """A request in order, and nonsense behind it; a HEAD has no body, whatever is wrong."""
    with connected(url) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b'{"status": "ok"}' in client.recv(65_536)
        client.sendall(b"nonsense\r\n\r\n")
        assert told(heard(client))["code"] == "invalid_http"
    with connected(url) as client:
        client.sendall(
            POSTED.replace(b"POST", b"HEAD") + b"Transfer-Encoding: chunked\r\n\r\nx\r\n"
        )
        head, _, body = heard(client).partition(b"\r\n\r\n")
    assert (head[:13], body) == (b"HTTP/1.1 400 ", b"")
