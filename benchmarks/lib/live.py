"""A server on a free port of this machine, for as long as a block of code runs."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from remask.denoisers.base import Denoiser
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.load import load
from remask.serve.aside import made_aside
from remask.serve.run import bound, server, url_of
from remask.serve.service import Service, build_service
from remask.serve.settings import ServeSettings
from remask.testing import write_checkpoint
from remask.values import Canvas


@contextmanager
def live(denoiser: Denoiser, settings: ServeSettings) -> Iterator[tuple[Service, str]]:
    """Serve a model; yield it with its address, and go down in order afterwards."""
    service = made_aside(partial(build_service, denoiser, settings))
    made = bound(settings.host, 0)
    running = server(service)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [made]})
    thread.start()
    assert soon(lambda: running.started or not thread.is_alive())
    assert running.started
    try:
        yield service, url_of(settings.host, made).rstrip("/")
    finally:
        running.should_exit = True
        thread.join()
        made.close()


def soon(holds: Callable[[], bool], seconds: float = 300.0) -> bool:
    """Wait until something holds; say whether it does. Only what never holds takes all the time."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    return holds()


def small_model(folder: Path) -> Denoiser:
    """Return a random model of one layer."""
    made = write_checkpoint(
        folder / "model", layers=1, width=16, heads=2, inner=16, length=16, max_length=512,
        dtype=torch.float32,
    )  # fmt: skip
    config = made / "generation_config.json"
    config.write_text('{"length": 16, "steps": 8, "block": 8, "temperature": 1.0}')
    return load(str(made), device="cpu")


class Faulty:
    """A denoiser that runs out of memory, or gives NaN, in the next pass after it was told to."""

    def __init__(self, inner: Denoiser) -> None:
        self.inner = inner
        self.fault: str | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> torch.Tensor:
        """Fail once for every time that it was told to, in a batch of several rows."""
        found = self.inner.hidden(canvas, cache)
        if self.fault is None or len(canvas.tokens) == 1:
            return found
        fault, self.fault = self.fault, None
        if fault == "memory":
            raise torch.OutOfMemoryError("injected")
        return found * float("nan")
