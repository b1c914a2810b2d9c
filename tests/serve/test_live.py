"""Over a real socket: clients that leave, a server that goes down, and the command line."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving.live import live, soon  # type: ignore[import-not-found]
from torch import Tensor

from remask.consistency.roundtrips import Consistency
from remask.denoisers.base import Denoiser
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.wrap import Wrapped
from remask.errors import InputError
from remask.serve.run import bound, read_key
from remask.serve.service import Service
from remask.serve.settings import ServeSettings
from remask.values import Canvas

Held = Any  # see conftest.py
LIMIT = 300.0  # seconds that only a defect takes
SHORT = {"prompt": "p", "answer": "a", "remask": {"trips": 1, "rebuild_steps": 1}}
LONG = {
    "prompt": "What is 12 + 5?",
    "remask": {"budget": 32, "trips": 32, "rebuild_steps": 64, "threshold": 2.0},
}


def leave_waiting(service: Service, url: str) -> None:
    host, _, port = url.removeprefix("http://").rpartition(":")
    client = HTTPConnection(host, int(port), timeout=LIMIT)
    headers = {"content-type": "application/json"}
    client.request("POST", "/v1/solve", json.dumps(LONG), headers)
    assert soon(lambda: service.batcher.num_jobs == 1)
    client.close()


def leave_streaming(service: Service, url: str) -> None:
    body = {**LONG, "stream": True}
    with httpx.stream("POST", f"{url}/v1/solve", json=body, timeout=LIMIT) as answer:
        assert next(answer.iter_lines()) == "event: block"


@pytest.mark.parametrize("leave", [leave_waiting, leave_streaming])
def test_work_of_a_client_that_leaves_is_dropped(
    denoiser: Denoiser, settings: ServeSettings, leave: Callable[[Service, str], None]
) -> None:
    """The whole would take minutes; the place in the queue is free long before."""
    with live(denoiser, settings) as (service, url):
        leave(service, url)
        assert soon(lambda: service.batcher.num_jobs == 0)
        assert httpx.post(f"{url}/v1/verify", json=SHORT, timeout=LIMIT).status_code == 200


def test_a_request_that_waits_can_be_asked_for_its_place(
    held: Held, settings: ServeSettings
) -> None:
    with live(held, settings) as (service, url), ThreadPoolExecutor(2) as people:

        def ask(name: str) -> int:
            headers = {"x-client-request-id": name}
            answer = httpx.post(f"{url}/v1/verify", json=SHORT, headers=headers, timeout=LIMIT)
            return answer.status_code

        def place(name: str) -> Any:
            return httpx.get(f"{url}/v1/queue", params={"name": name}, timeout=LIMIT).json()

        first = people.submit(ask, "first")
        assert held.begun.wait(LIMIT)
        second = people.submit(ask, "second")
        assert soon(lambda: service.batcher.num_jobs == 2)
        assert place("first") == {"object": "remask.queue", "requests": 2, "ahead": 0}
        assert place("second") == {"object": "remask.queue", "requests": 2, "ahead": 1}
        assert place("nobody")["ahead"] is None
        assert place("")["ahead"] is None
        held.go_on.set()
        assert [first.result(), second.result()] == [200, 200]
        assert place("second") == {"object": "remask.queue", "requests": 0, "ahead": None}


def asked_before_the_stop(
    held: Held, settings: ServeSettings, *, finish: bool
) -> tuple[httpx.Response, Service]:
    """Return what a client is answered whose request runs when the server is stopped.

    To finish, the model goes on once the server takes no more requests.
    """
    answers: list[httpx.Response] = []
    with live(held, settings) as (service, url):

        def ask() -> None:
            answers.append(httpx.post(f"{url}/v1/verify", json=SHORT, timeout=LIMIT))

        def go_on() -> None:
            assert soon(lambda: not service.batcher.ready)
            held.go_on.set()

        threads = [threading.Thread(target=work) for work in ((ask, go_on) if finish else (ask,))]
        for thread in threads:
            thread.start()
        assert held.begun.wait(LIMIT)
    for thread in threads:
        thread.join(LIMIT)
    return answers[0], service


def test_a_server_that_is_stopped_finishes_what_runs(held: Held, settings: ServeSettings) -> None:
    answer, service = asked_before_the_stop(held, settings, finish=True)
    assert answer.status_code == 200
    assert not service.batcher.ready


def test_what_is_not_finished_when_the_server_has_gone_down_is_told_so(
    held: Held, settings: ServeSettings
) -> None:
    """It never ends; half a second is given to it, and then enough to be answered."""
    hurried = replace(settings, drain_seconds=0.5, last_seconds=120)
    answer, _ = asked_before_the_stop(held, hurried, finish=False)
    assert answer.status_code == 503
    assert answer.json()["error"]["message"].startswith("The server is shutting down")


CHEAP = {**LONG, "remask": {**SHORT["remask"], "budget": 32, "threshold": 2.0}}


@dataclass(frozen=True, eq=False)
class Slowing(Wrapped):
    """A model that stops in a pass, until it may go on."""

    at: int
    go_on: threading.Event = field(default_factory=threading.Event)
    passes: Iterator[int] = field(default_factory=count)

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        if next(self.passes) == self.at:
            assert self.go_on.wait(LIMIT)
        return super().hidden(canvas, cache)


@pytest.mark.parametrize("route", ["/v1/solve", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_search_at_its_deadline_is_the_best_attempt(
    denoiser: Denoiser, settings: ServeSettings, route: str, stream: bool
) -> None:
    """An attempt takes at most nine passes; the model stops in the 30th, of 32 attempts."""
    model = Slowing(denoiser, at=30)
    body: dict[str, Any] = {**CHEAP, "stream": stream}
    if "chat" in route:
        message = {"role": "user", "content": body.pop("prompt")}
        body |= {"model": settings.model, "messages": [message]}
    with live(model, settings) as (_, url):
        headers = {"x-remask-timeout": "5"}
        answer = httpx.post(f"{url}{route}", json=body, headers=headers, timeout=LIMIT)
        model.go_on.set()
    assert answer.status_code == 200
    if stream:
        found = [line[6:] for line in answer.text.split("\n") if line.startswith("data: {")]
        found = json.loads(found[-1])
        found = found["choices"] and found["remask"] if "chat" in route else found
    else:
        found = answer.json()["remask"] if "chat" in route else answer.json()
    assert (found["stopped"], found["action"]) == ("deadline", "fallback")
    assert 3 <= found["num_attempts"] < 32
    assert f"after {found['num_attempts']} of 32 samples" in found["reason"]
    assert found["score"] is not None


def test_a_request_without_an_answer_at_its_deadline_is_told_so(
    held: Held, settings: ServeSettings
) -> None:
    with live(held, settings) as (_, url):
        for body in (LONG, {**LONG, "stream": True}):
            headers = {"x-remask-timeout": "0.5"}
            answer = httpx.post(f"{url}/v1/solve", json=body, headers=headers, timeout=LIMIT)
            assert answer.status_code == (200 if body.get("stream") else 504)
            assert '"type": "timeout_error"' in answer.text.strip().split("\n")[-1]
        held.go_on.set()


@pytest.mark.parametrize("given", ["soon", "0", "-1", "nan", ""])
def test_a_time_limit_is_a_number_of_seconds(url: str, given: str) -> None:
    headers = {"x-remask-timeout": given}
    answer = httpx.post(f"{url}/v1/verify", json=SHORT, headers=headers, timeout=LIMIT)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "x-remask-timeout")
    assert repr(given) in error["message"]


def test_large_bodies_are_read_beside_the_event_loop(
    denoiser: Denoiser, settings: ServeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the readers of four bodies of a megabyte wait, others are answered."""
    from remask.serve import body as module

    go_on, read = threading.Event(), module.read_body

    def waiting(*given: Any) -> Any:
        assert go_on.wait(LIMIT)
        return read(*given)

    monkeypatch.setattr(module, "read_body", waiting)
    large = json.dumps({f"field{i:06}": 1 for i in range(60_000)})
    with (
        live(denoiser, replace(settings, body_bytes=2**21)) as (_, url),
        ThreadPoolExecutor(4) as people,
    ):
        headers = {"content-type": "application/json"}
        answers = [
            people.submit(httpx.post, f"{url}/v1/verify", content=large, headers=headers,
                          timeout=LIMIT)
            for _ in range(4)
        ]  # fmt: skip
        for _ in range(5):
            assert httpx.get(f"{url}/health", timeout=LIMIT).status_code == 200
        assert not any(answer.done() for answer in answers)
        go_on.set()
        for answer in answers:
            error = answer.result().json()["error"]
            assert (answer.result().status_code, error["code"]) == (400, "too_large")


def test_an_encoder_that_loads_holds_up_only_the_requests_that_need_it(
    denoiser: Denoiser, settings: ServeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loads once. A request that waits for it beyond its time limit is refused."""
    go_on, loads = threading.Event(), []

    def load(scorer: Consistency) -> None:
        loads.append(scorer)
        assert go_on.wait(LIMIT)

    monkeypatch.setattr(Consistency, "warm", load)
    with live(denoiser, settings) as (_, url), ThreadPoolExecutor(4) as people:
        body = {**SHORT, "remask": {**SHORT["remask"], "metrics": "paper"}}
        headers = {"x-remask-timeout": "2"}
        late = [
            people.submit(httpx.post, f"{url}/v1/verify", json=body, headers=headers, timeout=LIMIT)
            for _ in range(4)
        ]
        assert soon(lambda: len(loads) == 1)
        assert httpx.post(f"{url}/v1/verify", json=SHORT, timeout=LIMIT).status_code == 200
        errors = [answer.result().json()["error"] for answer in late]
        assert [error["code"] for error in errors] == ["too_slow"] * 4
        assert len(loads) == 1
        go_on.set()


def test_a_port_that_is_taken_is_a_sentence() -> None:
    with bound("127.0.0.1", 0) as made:
        port = made.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 is taken; choose another"):
            bound("127.0.0.1", port)
    with pytest.raises(InputError, match=r"cannot listen at 203\.0\.113\.1"):
        bound("203.0.113.1", 0)


def test_a_key_is_read_from_a_file_before_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from the file\n")
    assert read_key(file, "from the environment") == "from the file"
    assert read_key(None, "from the environment") == "from the environment"
    assert read_key(None, "") is None
    file.write_text("\n")
    with pytest.raises(InputError, match="holds no key"):
        read_key(file, None)
    file.write_bytes(b"\xff")
    with pytest.raises(InputError, match="is not valid UTF-8"):
        read_key(file, None)


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Start `remask serve` as a process of its own, with a key; return it with its address."""
    words = ["serve", "--model", str(folder), "--port", "0", "--metrics", "core", "--device", "cpu"]
    children: list[subprocess.Popen[str]] = []

    def begin(*more: str) -> tuple[subprocess.Popen[str], str]:
        child = subprocess.Popen(
            [sys.executable, "-m", "remask.cli", *words, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "REMASK_API_KEY": "sesame", "OMP_NUM_THREADS": "1"},
        )
        children.append(child)
        assert child.stdout is not None
        line = child.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + (child.stderr.read() if child.stderr else "")
        return child, found.group().rstrip("/")

    yield begin
    for child in children:
        child.kill()
        child.wait()


@pytest.mark.parametrize("signals", [(signal.SIGTERM,), (signal.SIGINT, signal.SIGINT)])
def test_the_command_drains_at_the_first_signal_and_ends_at_the_second(
    start: Callable[..., tuple[subprocess.Popen[str], str]],
    signals: tuple[signal.Signals, ...],
) -> None:
    """The search takes minutes. It ends at its deadline, or at once with what it has."""
    child, url = start("--seconds", "20" if len(signals) == 1 else "300")
    headers = {"authorization": "Bearer sesame"}

    def get(path: str) -> httpx.Response:
        return httpx.get(f"{url}{path}", headers=headers, timeout=LIMIT)

    with ThreadPoolExecutor(1) as other:
        answer = other.submit(
            httpx.post, f"{url}/v1/solve", json=LONG, headers=headers, timeout=LIMIT
        )
        assert soon(lambda: get("/v1/queue").json()["requests"] == 1 or answer.done())
        for number, sent in enumerate(signals):
            child.send_signal(sent)
            if number + 1 < len(signals):
                assert soon(lambda: get("/ready").status_code == 503)
        assert answer.result().status_code in ((200,) if len(signals) == 1 else (200, 503))
    assert child.wait(LIMIT) == 0
    assert child.stderr is not None
    log = child.stderr.read()
    assert "shutting down; 1 requests" in log
    assert "Traceback" not in log


def test_the_command_serves_until_it_is_interrupted(
    start: Callable[..., tuple[subprocess.Popen[str], str]],
) -> None:
    child, url = start()
    assert httpx.get(f"{url}/v1/models", timeout=LIMIT).status_code == 401
    key = {"authorization": "Bearer sesame"}
    assert httpx.get(f"{url}/v1/models", headers=key, timeout=LIMIT).status_code == 200
    child.send_signal(signal.SIGINT)
    assert child.wait(LIMIT) == 0
    assert child.stderr is not None
    log = child.stderr.read()
    assert "GET /v1/models 401" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host", "0.0.0.0"], "requires a key"),
        (["--max-queue", "0"], "--max-queue"),
        (["--key-file", "nowhere"], "cannot use nowhere"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    folder: Path,
    words: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from remask import cli

    monkeypatch.delenv("REMASK_API_KEY", raising=False)
    monkeypatch.setattr("sys.argv", ["remask", "serve", "--model", str(folder), *words])
    with pytest.raises(SystemExit) as left:
        cli.main()
    shown = capsys.readouterr().err
    assert left.value.code != 0
    assert sentence in shown
    assert shown.count("\n") == 1


def test_a_missing_extra_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from remask import cli

    absent: Any = None
    monkeypatch.setitem(sys.modules, "fastapi", absent)
    monkeypatch.setattr("sys.argv", ["remask", "serve", "--model", "tiny"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "fastapi is not installed; pip install 'remask[serve]'." in capsys.readouterr().err


def test_a_port_is_free_again_after_the_server_has_gone(
    denoiser: Denoiser, settings: ServeSettings
) -> None:
    with live(denoiser, settings) as (_, url):
        port = int(url.rpartition(":")[2])
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        assert other.getsockname()[1] == port
