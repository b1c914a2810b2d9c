"""How many files a reader must open to follow one call: those whose functions it enters."""

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

SRC = Path(__file__).resolve().parent.parent / "src" / "remask"


def files_entered(run: Callable[[], object], under: str = "") -> set[str]:
    """Return the files of src/remask/`under` that a call enters, in this thread and in new ones.

    What is only imported is not entered; nor is a generated method, which has no file.
    """
    folder, codes = SRC / under, set[CodeType]()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    called = {Path(code.co_filename) for code in codes if code.co_name != "<module>"}
    return {str(path.relative_to(folder)) for path in called if path.is_relative_to(folder)}


def test_a_request_to_verify_is_followed_in_ten_files_of_the_server() -> None:
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    import torch

    from remask.serve.app import build_app
    from remask.serve.batcher import Batcher
    from remask.serve.metrics import ServerMetrics
    from remask.serve.service import Service
    from remask.serve.settings import ServeSettings
    from remask.testing import ScriptedDenoiser

    model = ScriptedDenoiser(script=lambda tokens: torch.zeros(*tokens.shape, 262))
    settings, metrics = ServeSettings(model="scripted", metrics="core"), ServerMetrics()
    batcher = Batcher(model, metrics, settings.max_queue)
    service = Service(denoiser=model, settings=settings, metrics=metrics, batcher=batcher)
    app = build_app(service)

    async def send(method: str, path: str, body: Any = None) -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return int((await client.request(method, path, json=body)).status_code)

    def verify() -> None:
        batcher.start()  # the thread of the model is followed too
        body = {"prompt": "What is 12 + 5?", "answer": "17", "remask": {"trips": 1}}
        assert asyncio.run(send("POST", "/v1/verify", body)) == 200

    assert asyncio.run(send("GET", "/health")) == 200  # the first request builds the app's stack
    entered = files_entered(verify, "serve")
    batcher.close(300.0)
    assert {"middleware.py", "batcher.py"} <= entered, "the count would see nothing"
    assert len(entered) <= 10, sorted(entered)
