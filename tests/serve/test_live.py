"""Over a real socket: clients that leave, a server that goes down, and the command line."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from live import live  # type: ignore[import-not-found]

from remask.denoisers.base import Denoiser
from remask.errors import InputError
from remask.serve.run import bound, read_key
from remask.serve.service import ServeSettings, Service

LONG = {
    "prompt": "What is 12 + 5?",
    "remask": {"budget": 32, "trips": 32, "rebuild_steps": 64, "threshold": 2.0},
}


def soon(holds: Callable[[], bool], seconds: float = 20) -> bool:
    """Wait until something holds; say whether it does."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


def leave_waiting(url: str) -> None:
    with pytest.raises(httpx.TimeoutException):
        httpx.post(f"{url}/v1/solve", json=LONG, timeout=0.5)


def leave_streaming(url: str) -> None:
    with httpx.stream("POST", f"{url}/v1/solve", json={**LONG, "stream": True}) as answer:
        assert next(answer.iter_lines()) == "event: block"


@pytest.mark.parametrize("leave", [leave_waiting, leave_streaming])
def test_work_of_a_client_that_leaves_is_dropped(
    denoiser: Denoiser, settings: ServeSettings, leave: Callable[[str], None]
) -> None:
    """The whole would take minutes; the place in the queue is free at once."""
    with live(denoiser, settings) as (service, url):
        leave(url)
        assert soon(lambda: service.batcher.num_jobs == 0)
        short = {"prompt": "p", "answer": "a", "remask": {"trips": 1, "rebuild_steps": 1}}
        assert httpx.post(f"{url}/v1/verify", json=short, timeout=60).status_code == 200


def asked_before_the_stop(
    denoiser: Denoiser, settings: ServeSettings, path: str, body: dict[str, Any]
) -> tuple[httpx.Response, Service]:
    """Return what a client is answered whose request runs when the server is stopped."""
    answers: list[httpx.Response] = []
    with live(denoiser, settings) as (service, url):
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{url}{path}", json=body, timeout=60))
        )
        asking.start()
        assert soon(lambda: service.batcher.num_jobs == 1)
    asking.join(60)
    return answers[0], service


def test_a_server_that_is_stopped_finishes_what_runs(
    denoiser: Denoiser, settings: ServeSettings
) -> None:
    body = {"prompt": "p", "answer": "a" * 60, "remask": {"trips": 64, "rebuild_steps": 32}}
    answer, service = asked_before_the_stop(denoiser, settings, "/v1/verify", body)
    assert answer.status_code == 200
    assert not service.batcher.ready


def test_what_is_not_finished_when_the_server_has_gone_down_is_told_so(
    denoiser: Denoiser, settings: ServeSettings
) -> None:
    """The whole would take minutes; half a second is given to it, and the last word is ours."""
    hurried = replace(settings, drain_seconds=0.5)
    answer, _ = asked_before_the_stop(denoiser, hurried, "/v1/solve", LONG)
    assert answer.status_code == 503
    assert answer.json()["error"]["message"].startswith("the server is going down")


def test_what_does_not_finish_in_time_is_told_so(
    denoiser: Denoiser, settings: ServeSettings
) -> None:
    answers: list[httpx.Response] = []
    hurried = replace(settings, seconds=1.0)
    with live(denoiser, hurried) as (_, url):
        answers.append(httpx.post(f"{url}/v1/solve", json=LONG, timeout=60))
        stream = httpx.post(f"{url}/v1/solve", json={**LONG, "stream": True}, timeout=60)
    assert answers[0].status_code == 504
    assert stream.status_code == 200
    assert '"type": "timeout_error"' in stream.text.strip().split("\n")[-1]


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
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not text"):
        read_key(file, None)


@pytest.fixture(scope="module")
def command(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`remask serve` as a process of its own, with a key."""
    words = ["serve", "--model", str(folder), "--port", "0", "--metrics", "core", "--device", "cpu"]
    child = subprocess.Popen(
        [sys.executable, "-m", "remask.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "REMASK_API_KEY": "sesame", "OMP_NUM_THREADS": "1"},
    )
    assert child.stdout is not None
    line = child.stdout.readline()
    found = re.search(r"http://\S+", line)
    assert found, line + (child.stderr.read() if child.stderr else "")
    yield child, found.group().rstrip("/")
    child.kill()
    child.wait()


def test_the_command_serves_until_it_is_interrupted(
    command: tuple[subprocess.Popen[str], str],
) -> None:
    child, url = command
    assert httpx.get(f"{url}/v1/models").status_code == 401
    key = {"authorization": "Bearer sesame"}
    assert httpx.get(f"{url}/v1/models", headers=key).status_code == 200
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 0
    assert child.stderr is not None
    log = child.stderr.read()
    assert "GET /v1/models 401" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host", "0.0.0.0"], "a key is needed; set REMASK_API_KEY"),
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
