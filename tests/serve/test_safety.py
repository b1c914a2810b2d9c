"""Who may ask, how much, and what nobody is told."""

import base64
import gzip
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from torch import Tensor

from remask.denoisers.base import Denoiser
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.wrap import Wrapped
from remask.errors import SettingsError
from remask.serve.settings import ServeSettings
from remask.values import Canvas

Client = Any  # see conftest.py
BODY = {"prompt": "What is 12 + 5?", "answer": "17", "remask": {"trips": 1, "rebuild_steps": 1}}
KEY = "a key"
LIMIT = 300.0  # seconds that only a defect takes
ROUTES = (
    "/", "/static/page.js", "/v1/models", "/v1/examples", "/ready", "/metrics", "/openapi.json",
    "/nowhere",
)  # fmt: skip


@pytest.fixture
def guarded(serving: Any) -> Client:
    return serving(key=KEY)


def test_a_key_guards_every_route_but_health(guarded: Client) -> None:
    for path in ROUTES:
        answer = guarded.get(path)
        assert answer.status_code == 401, path
        assert answer.json()["error"]["type"] == "authentication_error"
        assert "www-authenticate" in answer.headers
    assert guarded.post("/v1/verify", BODY).status_code == 401
    assert guarded.get("/health").status_code == 200


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", "Basic !!", "Token x", "Basic eA=="]
)
def test_another_key_is_refused(guarded: Client, given: str) -> None:
    assert guarded.get("/ready", headers={"authorization": given}).status_code == 401


def test_a_key_is_a_bearer_token_or_a_password(guarded: Client) -> None:
    password = base64.b64encode(f"anyone:{KEY}".encode()).decode()
    for given in (f"Bearer {KEY}", f"bearer {KEY}", f"Basic {password}"):
        assert guarded.get("/ready", headers={"authorization": given}).status_code == 200


def test_a_key_is_needed_elsewhere_than_on_loopback() -> None:
    with pytest.raises(SettingsError, match="ASCII"):
        ServeSettings(model="m", key="schlüssel")
    with pytest.raises(SettingsError, match="REMASK_API_KEY"):
        ServeSettings(model="m", host="0.0.0.0")
    assert ServeSettings(model="m", host="0.0.0.0", key="k").hosts is None
    named = ServeSettings(model="m", host="10.0.0.5", key="k", allowed_hosts=("Lab.example",))
    assert named.hosts == {"localhost", "127.0.0.1", "::1", "10.0.0.5", "lab.example"}


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "127.0.0.2"])
def test_a_name_that_is_not_the_servers_is_refused(client: Client, host: str) -> None:
    answer = client.get("/health", headers={"host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "wrong_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "[::1]:7575", "127.0.0.1"])
def test_loopback_names_are_taken(client: Client, host: str) -> None:
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:7575", 200),
        ("http://127.0.0.1:7576", 403),
        ("http://localhost:7575", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("", 403),
    ],
)
def test_pages_from_elsewhere_may_not_ask(client: Client, origin: str, status: int) -> None:
    assert client.get("/health", headers={"origin": origin}).status_code == status


def test_browsers_are_told_to_be_careful(client: Client) -> None:
    for path in ("/", "/v1/models", "/nowhere"):
        headers = client.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert not re.search("unsafe|data:|blob:", headers["content-security-policy"])
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-request-id"].startswith("req-")


def test_a_body_beyond_the_limit_is_refused_however_it_comes(client: Client) -> None:
    """Declared, or in parts without a length: 20,000 bytes are allowed, 160,000 are heard."""

    async def parts(number: int) -> Any:
        for _ in range(number):
            yield b"9" * 1_000

    for content in (b"9" * 20_001, b"9" * 160_001, parts(21), parts(161)):
        answer = client.send("POST", "/v1/verify", content=content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_a_compressed_body_is_refused_by_its_encoding(client: Client) -> None:
    for path in ("/v1/verify", "/v1/solve", "/v1/chat/completions", "/v1/completions"):
        content, headers = gzip.compress(b"{}"), {"content-encoding": "gzip"}
        answer = client.send("POST", path, content=content, headers=headers)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, "Content-Encoding")
        assert "must be identity, got 'gzip'" in error["message"]


def test_a_defect_is_in_the_log_and_not_in_the_answer(
    failing: Client, caplog: pytest.LogCaptureFixture
) -> None:
    answer = failing.post("/v1/verify", {**BODY, "remask": {"trips": 1, "rebuild_steps": 8}})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "a secret of ours" in caplog.text
    assert answer.headers["x-request-id"] in caplog.text


@pytest.mark.parametrize("log_prompts", [False, True])
def test_prompts_are_logged_only_with_log_prompts(
    serving: Any, caplog: pytest.LogCaptureFixture, log_prompts: bool
) -> None:
    caplog.set_level(logging.INFO, "remask.serve")
    client = serving(log_prompts=log_prompts)
    answer = client.post("/v1/verify", {**BODY, "prompt": "private\nthings"})
    assert answer.status_code == 200
    assert f"{answer.headers['x-request-id']} POST /v1/verify 200" in caplog.text
    assert (r"private\nthings" in caplog.text) == log_prompts


def test_a_full_queue_is_refused_with_retry_after(serving: Any, held: Any) -> None:
    client = serving(held, max_queue=1)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(client.post, "/v1/verify", BODY)
        assert held.begun.wait(LIMIT)
        answer = client.post("/v1/verify", BODY)
        held.go_on.set()
        assert first.result().status_code == 200
    assert answer.status_code == 429
    assert answer.json()["error"]["type"] == "rate_limit_error"
    assert int(answer.headers["retry-after"]) >= 1


def test_a_request_ends_at_its_time_limit(serving: Any, held: Any) -> None:
    """The model never answers."""
    client = serving(held, seconds=2.0)
    answer = client.post("/v1/verify", BODY)
    held.go_on.set()
    assert (answer.status_code, answer.json()["error"]["type"]) == (504, "timeout_error")
    assert client.service.batcher.num_jobs == 0


def test_a_server_that_goes_down_is_not_ready(serving: Any) -> None:
    leaving = serving()
    leaving.service.batcher.close(LIMIT)
    assert leaving.get("/ready").status_code == 503
    assert leaving.get("/health").status_code == 200
    assert leaving.post("/v1/verify", BODY).json()["error"]["code"] == "going_down"


@dataclass(frozen=True, eq=False)
class NaN(Wrapped):
    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        return super().hidden(canvas, cache) * float("nan")


def test_a_nan_is_an_error_of_the_model(serving: Any, denoiser: Denoiser) -> None:
    """A row alone that gives NaN cannot be helped by smaller batches."""
    sick = serving(NaN(denoiser))
    answer = sick.post("/v1/verify", BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model_error")
    assert "NaN" in answer.json()["error"]["message"]
    assert sick.get("/ready").status_code == 200


def test_the_page_is_served_and_nothing_beside_it(client: Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for path in ("/static/../service.py", "/static/%2e%2e/service.py", "/static/..%2fservice.py"):
        assert client.get(path).status_code == 404


def test_routes_and_methods_that_do_not_exist_are_told(client: Client) -> None:
    assert client.get("/v1/engines").json()["error"]["message"] == (
        "There is no such route; GET /openapi.json lists all routes."
    )
    for method, path, allowed in (
        ("GET", "/v1/verify", "POST"), ("DELETE", "/v1/models", "GET"),
        ("POST", "/static/page.js", "GET, HEAD"),
    ):  # fmt: skip
        wrong: httpx.Response = client.send(method, path)
        assert wrong.status_code == 405
        assert wrong.headers["allow"] == allowed
        assert wrong.json()["error"]["message"] == (f"The method must be {allowed}, got {method}.")
