"""Prometheus metrics: requests, batches, failures."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServerMetrics:
    """The metrics of one server, with a registry of its own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = own = CollectorRegistry()
        self.requests = Counter(
            "remask_requests", "Requests answered.", ["route", "status"], registry=own
        )
        self.seconds = Histogram(
            "remask_request_seconds",
            "From arrival to answer.",
            ["route"],
            buckets=_SECONDS,
            registry=own,
        )
        self.rows = Histogram(
            "remask_batch_rows", "Rows of a batch.", ["kind"], buckets=_ROWS, registry=own
        )
        self.batches = Histogram(
            "remask_batch_seconds", "Time of a batch.", ["kind"], buckets=_SECONDS, registry=own
        )
        self.failures = Counter(
            "remask_batch_failures", "Batches that failed.", ["error"], registry=own
        )
        self.queue = Gauge("remask_queue", "Requests that run or wait.", registry=own)

    def watch_queue(self, count: Callable[[], int]) -> None:
        self.queue.set_function(count)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    @contextmanager
    def count_batch(self, kind: str, num_rows: int) -> Iterator[None]:
        """Count a batch; its time counts if it succeeds."""
        began = time.perf_counter()
        self.rows.labels(kind).observe(num_rows)
        yield
        self.batches.labels(kind).observe(time.perf_counter() - began)

    def count_failure(self, error: Exception) -> None:
        self.failures.labels(type(error).__name__).inc()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
