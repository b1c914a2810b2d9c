"""A model at work: what all routes share."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Service:
    """A model at work."""

    denoiser: "Denoiser"
    settings: ServeSettings
    metrics: ServerMetrics
    batcher: Batcher
    fitted: "StagedVerifier | None" = None  # of the scorer `verifier`
    # Few: what is done here (tokens, responses) is short, and each thread holds memory of its own.
    helpers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))
    # Loading an encoder takes seconds, and one load is enough for all requests that wait for it.
    loader: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    started: int = field(default_factory=lambda: int(time.time()))


def check_extra() -> None:
    """Refuse to go on without the packages of the extra."""
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        try:
            __import__(package)
        except ImportError:
            raise MissingExtra(package.replace("_", "-"), "serve") from None


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


def build_service(denoiser: "Denoiser", settings: ServeSettings) -> Service:
    """Return a model at work; whoever builds it closes its batcher at the end."""
    check_extra()
    if settings.scorer == ROUNDTRIPS and settings.metrics == "paper":
        sentence_encoder(denoiser.device.type)  # a missing one is told now, not by every request
    fitted = None if settings.fitted is None else read_fitted(settings.fitted)
    if settings.scorer == "verifier":  # refuses what is of another model, and too small a budget
        kind = "number" if fitted is None else fitted.provenance.task
        api.verifier(denoiser, kind=kind, fitted=fitted, budget=settings.max_forwards)
    metrics = ServerMetrics()
    batcher = Batcher(denoiser, metrics, settings.max_queue)
    metrics.watch_queue(lambda: batcher.num_jobs)
    batcher.start()
    return Service(
        denoiser=denoiser, settings=settings, metrics=metrics, batcher=batcher, fitted=fitted
    )
