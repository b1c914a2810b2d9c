"""Rows of many requests through one model, in one thread.

The unit is a row: one block of an answer, or one round trip (see `programs`). The thread takes the
first row in line and as many others of its group as a batch holds (`sampling.batches`), of any
request, and runs them to the end of their block or trip. A request is sent its results when all
the rows that it yielded are done, and may then yield more. So slots are refilled between blocks
and trips, never inside one: the rows of a batch step together.

Requests are served in order of arrival: served by turns, all would wait for the last. A request
that has yielded rows eight times goes to the end of the line, so that a long one cannot keep short
ones out.

A batch that fails is run again in halves, so that a row that runs out of memory or gives NaN ends
its own request alone. A cancelled request has no further rows. Nothing here knows HTTP.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from remask.serve.errors import ApiError, is_out_of_memory

if TYPE_CHECKING:
    from remask.denoisers.base import Denoiser
    from remask.serve.metrics import ServerMetrics
    from remask.serve.programs import BatchRow, Program

log = logging.getLogger("remask.serve")
_MEMORY = 0.9  # how much the mean time of a request remembers
_ROUNDS = 8  # times that a request may yield rows before it is last in line again


class BatchJob:
    """A request's program: how far it is, and where its outcome goes."""

    def __init__(self, program: "Program[Any]", done: Callable[[Any], None], name: str) -> None:
        self.program, self.done = program, done
        self.name = name  # that its client gave it
        self.alive = True
        self.began = time.monotonic()
        self.results: list[Any] = []
        self.num_missing = 0
        self.rank: float = math.inf  # place in the line; of one that just came, its end
        self.rounds = 0  # times that it has yielded rows


class _Ticket(NamedTuple):
    """A row that waits, and whose it is."""

    job: BatchJob
    place: int
    row: "BatchRow"


class Batcher:
    """The thread that owns a model, and the queue before it."""

    def __init__(self, denoiser: "Denoiser", metrics: "ServerMetrics", max_queue: int) -> None:
        self.denoiser, self.metrics, self.max_queue = denoiser, metrics, max_queue
        self._change = threading.Condition()
        self._jobs: set[BatchJob] = set()
        self._arrived: list[BatchJob] = []
        self._waiting: list[_Ticket] = []  # only the thread touches it
        self._ranks = count()
        self._closing = self._stopped = False
        self._mean_seconds = 1.0
        self._thread = threading.Thread(target=self._run, name="remask-model", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def num_jobs(self) -> int:
        """Requests that run or wait."""
        return len(self._jobs)

    @property
    def ready(self) -> bool:
        """Whether requests are taken."""
        return self._thread.is_alive() and not self._closing

    def ahead(self, name: str) -> int | None:
        """Return how many requests are in line before the one of this name; None: there is none."""
        with self._change:
            line = sorted(self._jobs, key=lambda job: (job.rank, job.began))
        return next((place for place, job in enumerate(line) if job.name == name), None)

    def check_room(self) -> None:
        """Raise where a request would be refused now."""
        if not self.ready:
            raise _going_down()
        if len(self._jobs) >= self.max_queue:
            wait = max(1, round(self._mean_seconds))
            raise ApiError(
                429, f"{self.max_queue} requests run or wait already; try again in {wait} s.",
                code="queue_full", headers={"Retry-After": str(wait)},
            )  # fmt: skip

    def submit(
        self, program: "Program[Any]", done: Callable[[Any], None], name: str = ""
    ) -> BatchJob:
        """Take a request, or raise; `done` is called in the thread with its result or error."""
        with self._change:
            self.check_room()
            job = BatchJob(program, done, name)
            self._jobs.add(job)
            self._arrived.append(job)
            self._change.notify_all()
        return job

    def cancel(self, job: BatchJob) -> None:
        """Drop a request: what runs of it ends with its batch, and `done` is not called."""
        with self._change:
            job.alive = False
            self._jobs.discard(job)
            self._change.notify_all()

    def close(self, seconds: float) -> None:
        """Take no more requests, finish what runs, and stop; what is left then is refused."""
        with self._change:
            self._closing = True
            self._change.wait_for(lambda: not self._jobs, seconds)
            left = list(self._jobs)
            self._stopped = True
            self._change.notify_all()
        for job in left:
            self._end(job, _going_down())
        self._thread.join(seconds)

    def _run(self) -> None:
        import torch

        if self.denoiser.device.type == "cuda":
            torch.cuda.set_device(self.denoiser.device)  # every thread has its own
        try:
            while self._turn():
                pass
        except Exception:
            log.exception("the model's thread has died")
        self._closing = True
        for job in list(self._jobs):
            self._end(job, _going_down())

    def _turn(self) -> bool:
        """Do one batch; wait for one where there is none. False: time to stop."""
        with self._change:
            self._change.wait_for(lambda: self._arrived or self._stopped or self._waiting)
            if self._stopped:
                return False
            arrived, self._arrived = self._arrived, []
        for job in arrived:
            self._advance(job, None)
        self._waiting = [ticket for ticket in self._waiting if ticket.job.alive]
        if self._waiting:
            self._serve(self._take())
        return True

    def _take(self) -> list[_Ticket]:
        """Return the next batch, no longer waiting: the first in line and others of its group."""
        from remask.sampling.batches import batch_around_first

        self._waiting.sort(key=lambda ticket: ticket.job.rank)
        group = self._waiting[0].row.group
        alike = [i for i, ticket in enumerate(self._waiting) if ticket.row.group == group]
        lengths = [self._waiting[i].row.columns for i in alike]
        if lengths[0] > 0:  # a row without columns needs no model
            alike = [alike[i] for i in batch_around_first(lengths, self.denoiser)]
        batch = [self._waiting[i] for i in alike]
        taken = set(alike)
        self._waiting = [t for i, t in enumerate(self._waiting) if i not in taken]
        return batch

    def _serve(self, batch: list[_Ticket]) -> None:
        """Run a batch and hand out its results; in halves, where it fails."""
        batch = [ticket for ticket in batch if ticket.job.alive]
        if not batch:
            return
        rows = [ticket.row for ticket in batch]
        try:
            with self.metrics.count_batch(rows[0].kind, len(rows)):
                results = rows[0].run(self.denoiser, [row.value for row in rows])
        except Exception as error:
            self._rescue(batch, error)
            return
        for ticket, result in zip(batch, results, strict=True):
            self._hand(ticket, result)

    def _rescue(self, batch: list[_Ticket], error: Exception) -> None:
        """Run a batch that failed in halves; one row alone ends its request."""
        if len(batch) > 1 or is_out_of_memory(error):
            error.__traceback__ = None  # its frames hold the tensors of the batch
        self.metrics.count_failure(error)
        if is_out_of_memory(error):
            _free_memory()
        if len(batch) == 1:
            self._end(batch[0].job, error)
            return
        name = type(error).__name__
        log.warning("a batch of %d rows failed (%s); trying halves", len(batch), name)
        middle = len(batch) // 2
        self._serve(batch[:middle])
        self._serve(batch[middle:])

    def _hand(self, ticket: _Ticket, result: Any) -> None:
        """Give a job one of its results; with the last one it goes on."""
        job = ticket.job
        job.results[ticket.place] = result
        job.num_missing -= 1
        if job.num_missing == 0 and job.alive:
            self._advance(job, job.results)

    def _advance(self, job: BatchJob, results: list[Any] | None) -> None:
        """Let a job go on until it yields rows, or ends."""
        if not job.alive:
            return
        try:
            rows = next(job.program) if results is None else job.program.send(results)
        except StopIteration as end:
            self._end(job, end.value)
        except Exception as error:
            self._end(job, error)
        else:
            if job.rounds % _ROUNDS == 0:
                job.rank = next(self._ranks)
            job.rounds += 1
            job.results, job.num_missing = [None] * len(rows), len(rows)
            self._waiting += [_Ticket(job, place, row) for place, row in enumerate(rows)]

    def _end(self, job: BatchJob, outcome: Any) -> None:
        """Hand over a job's outcome, a result or an error, once."""
        with self._change:
            if not job.alive:
                return
            job.alive = False
            self._jobs.discard(job)
            took = time.monotonic() - job.began
            self._mean_seconds = _MEMORY * self._mean_seconds + (1 - _MEMORY) * took
            self._change.notify_all()
        job.done(outcome)


def _going_down() -> ApiError:
    return ApiError(503, "the server is going down; try again later.", code="going_down")


def _free_memory() -> None:
    """Give back what the allocator holds in reserve."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()
