"""How many files a reader must open to follow one call: those whose functions it enters."""

import asyncio
import sys
import threading
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

CORE = {
    "sampling", "consistency", "probes", "verifier", "denoisers", "baselines", "values", "rng",
    "answers", "tasks", "testing",
}  # fmt: skip
SRC = Path(__file__).resolve().parent.parent / "src" / "remask"


@cache
def package_of(code: CodeType) -> str:
    """Return the package of src/remask, or the module, in which code stands; "" elsewhere."""
    path = Path(code.co_filename)
    return path.relative_to(SRC).parts[0].removesuffix(".py") if path.is_relative_to(SRC) else ""


def files_entered(
    run: Callable[[], object], under: str = "", beyond: Collection[str] = ()
) -> set[str]:
    """Return the files of src/remask/`under` that a call enters, in this thread and in new ones.

    What is only imported is not entered; nor is a generated method, which has no file. Neither the
    packages `beyond` nor what they call themselves count.
    """
    folder, codes = SRC / under, set[CodeType]()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or package_of(frame.f_code) in beyond:
            return
        caller = frame.f_back
        while caller is not None and not package_of(caller.f_code):
            caller = caller.f_back
        if caller is not None:
            is_same = caller.f_code.co_filename == frame.f_code.co_filename
            if is_same or package_of(caller.f_code) in beyond:
                return
        codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    entered = codes.copy()  # threads that still run go on adding
    called = {Path(code.co_filename) for code in entered if code.co_name != "<module>"}
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


def test_a_collected_problem_is_followed_in_fifteen_files_before_the_core(tmp_path: Path) -> None:
    import torch

    from remask.collect.collect import collect
    from remask.collect.settings import CollectSettings
    from remask.consistency.settings import ConsistencySettings
    from remask.sampling.settings import SamplerSettings
    from remask.testing import ScriptedDenoiser

    model = ScriptedDenoiser(script=lambda tokens: torch.zeros(*tokens.shape, 262))
    settings = CollectSettings(
        task="wordmath", problems=1, metrics="core", baselines=("self_evaluation", "editor"),
        sampler=SamplerSettings(length=16, steps=2, block=16, temperature=1.0),
        consistency=ConsistencySettings(trips=1, rebuild_steps=1),
    )  # fmt: skip
    out = tmp_path / "records.jsonl"
    entered = files_entered(lambda: collect(model, settings, out), beyond=CORE)
    assert len(out.read_text().splitlines()) == 1
    assert {"collect/collect.py", "collect/answers.py", "records/jsonl.py"} <= entered
    assert len(entered) <= 15, sorted(entered)


def test_one_verification_is_followed_in_twelve_files(tmp_path: Path) -> None:
    import remask
    from remask.testing import write_checkpoint

    model = remask.load(write_checkpoint(tmp_path), device="cpu")

    def verify() -> None:
        assert remask.score(model, "Add 2 and 3.", "The answer is 5.", metrics="core").value

    verify()  # what the first call imports is no part of the way
    entered = files_entered(verify)
    assert {"api.py", "consistency/roundtrips.py", "sampling/loop.py"} <= entered
    assert len(entered) <= 12, sorted(entered)
