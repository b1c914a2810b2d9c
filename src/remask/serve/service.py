"""The served model with its batcher, metrics and helper threads: what all routes share."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from remask import api
from remask.consistency.semantic import sentence_encoder
from remask.consistency.settings import ConsistencySettings
from remask.decide.stages import StagedVerifier
from remask.errors import MissingExtra
from remask.serve import programs
from remask.serve.batcher import Batcher, Pace
from remask.serve.metrics import ServerMetrics
from remask.serve.settings import ServeSettings
from remask.values import ROUNDTRIPS
from remask.verifier.origin import read_fitted

if TYPE_CHECKING:
    from remask.denoisers.base import Denoiser

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Service:
    denoiser: "Denoiser"
    settings: ServeSettings
    metrics: ServerMetrics
    batcher: Batcher
    fitted: StagedVerifier | None = None  # stages of the scorer `verifier`
    # Tokens and responses take little time, and each thread holds memory of its own.
    helpers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))
    # Loading an encoder takes seconds; all requests wait for the same load.
    loader: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    started: int = field(default_factory=lambda: int(time.time()))


def check_extra() -> None:
    """Raise if a package of the extra `serve` is missing."""
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        try:
            __import__(package)
        except ImportError:
            raise MissingExtra(package.replace("_", "-"), "serve") from None


def run_in_thread(make: Callable[[], _T]) -> _T:
    """Return `make()`, called in a thread that ends afterwards; Ctrl-C does not wait for it.

    Load the model in it: torch keeps a pool of workers for every thread that has computed. With a
    second pool beside that of the model's thread, more workers than cores slow the model down.
    """
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(make())
        except BaseException as error:
            future.set_exception(error)

    thread = Thread(target=run, name="remask-load", daemon=True)
    thread.start()
    try:
        return future.result()
    finally:
        if future.done():
            thread.join()


def build_service(denoiser: "Denoiser", settings: ServeSettings) -> Service:
    """Return a running service; the caller closes its batcher."""
    check_extra()
    if settings.scorer == ROUNDTRIPS and settings.metrics == "paper":
        sentence_encoder(denoiser.device.type)  # raises now, not at the first request
    fitted = None if settings.fitted is None else read_fitted(settings.fitted)
    if settings.scorer == "verifier":  # raises if the fit is of another model
        kind = "number" if fitted is None else fitted.provenance.task
        api.verifier(denoiser, kind=kind, fitted=fitted, budget=settings.max_forwards)
    metrics = ServerMetrics()
    batcher = Batcher(denoiser, metrics, settings.max_queue)
    metrics.watch_queue(lambda: batcher.num_jobs)
    batcher.start()
    return Service(
        denoiser=denoiser, settings=settings, metrics=metrics, batcher=batcher, fitted=fitted
    )


def time_model(service: Service) -> None:
    """Measure the model's pace with two passes, before a request has to be admitted.

    Without it, the batcher accepts every request until the first batch has been served.
    """
    denoiser, batcher = service.denoiser, service.batcher
    settings = ConsistencySettings(trips=4, rebuild_steps=2)
    scorer = api.consistency(denoiser, kind="text", settings=settings, metrics="core")
    sample = api.sample_from_text(denoiser, "What is 12 + 5?", "12 + 5 = 17.")
    for _ in range(2):  # the first run also warms up the model, which takes longer
        batcher.pace, done = Pace(), SimpleQueue[Any]()
        batcher.submit(programs.verify([sample], scorer, "text"), done.put)
        done.get()
