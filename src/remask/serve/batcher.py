"""Rows of many requests through one model, in one thread.

The unit is a row: one block of an answer, or one round trip (see `programs`). The thread takes the
first row in line and as many others of its group as a batch holds (`sampling.batches`), of any
request, and runs them to the end of their block or trip. A request is sent its results when all
the rows that it yielded are done, and may then yield more. So slots are refilled between blocks
and trips, never inside one: the rows of a batch step together.

Who is next: the request that has taken least of the model, tokens times passes, with what its next
rows will take. What is alike to a factor of four goes in order of arrival: by turns, all would wait
for the last. Every fourth batch belongs to whoever has waited longest, so that nobody is kept out,
unless the server is going down: then short requests are finished first.

A batch may take minutes. Before each of its passes, rows of short requests (as much as two full
passes) that have come meanwhile are run, as long as they take no more than the batch itself, and
some. A batch that nobody waits for any more ends there.

A batch that fails is run again in halves, so that a row that runs out of memory or gives NaN ends
its own request alone. A cancelled request has no further rows. Nothing here knows HTTP.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from remask.serve.errors import ApiError, is_out_of_memory

if TYPE_CHECKING:
    from remask.denoisers.base import Denoiser
    from remask.serve.metrics import ServerMetrics
    from remask.serve.programs import BatchRow, Program

log = logging.getLogger("remask.serve")
_MEMORY = 0.9  # how much the mean time of a request remembers
_SHORT = 2  # full passes that a short request takes at most
_ALLOWANCE = 4  # short requests that may interrupt a batch before it has taken anything itself
_UNKNOWN = 1e18  # what a request takes that just came: it is last in line
_TURNS = 4  # every so many, it is the turn of whoever has waited longest


class BatchJob:
    """A request's program: how far it is, and where its outcome goes."""

    def __init__(self, program: "Program[Any]", done: Callable[[Any], None], name: str) -> None:
        self.program, self.done = program, done
        self.name = name  # that its client gave it
        self.alive = True
        self.began = time.monotonic()
        self.results: list[Any] = []
        self.num_missing = 0
        self.number = 0  # in order of arrival
        self.turn = 0  # of the batcher, when it was last served
        self.used = 0.0  # tokens times passes so far
        self.expected = _UNKNOWN  # the same, when its rows are done

    @property
    def size(self) -> float:
        """What it takes of the model until its rows are done, as far as that is known."""
        return max(self.used, self.expected)


class _Ticket(NamedTuple):
    """A row that waits, and whose it is."""

    job: BatchJob
    place: int
    row: "BatchRow"


@dataclass(eq=False)
class _UnderWay:
    """The batch that the model is busy with."""

    batch: list[_Ticket]
    outer: "_UnderWay | None"  # the one that it interrupts
    used: int = 0  # tokens times passes
    lent: int = 0  # the same, of batches that interrupted it

    def charge(self, num_tokens: int) -> None:
        """Note a pass: its price is shared by all rows."""
        self.used += num_tokens
        for ticket in self.batch:
            ticket.job.used += num_tokens / len(self.batch)


class _Abandoned(Exception):
    """Nobody waits for the batch any more."""


class Batcher:
    """The thread that owns a model, and the queue before it."""

    def __init__(self, denoiser: "Denoiser", metrics: "ServerMetrics", max_queue: int) -> None:
        from remask.sampling.batches import token_budget
        from remask.serve.paced import PacedDenoiser

        self.metrics, self.max_queue = metrics, max_queue
        self.denoiser = PacedDenoiser(denoiser, self._before_pass)
        self.short = _SHORT * token_budget(denoiser.device)
        self._change = threading.Condition()
        self._jobs: set[BatchJob] = set()
        self._arrived: list[BatchJob] = []
        self._waiting: list[_Ticket] = []  # only the thread touches it
        self._under_way: _UnderWay | None = None
        self._numbers, self._turn = count(1), 0
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
        """Return how many requests are before the one of this name; None: there is none.

        Before one that waits are those under way, and those that would go first if the next batch
        were made now. Of what just came it is not known how much it takes: it is counted last.
        """
        with self._change:
            jobs = sorted(self._jobs, key=self._place)
        busy = self._jobs_under_way()
        waiting = [job for job in jobs if job not in busy]
        if waiting and self._is_of_oldest(self._turn + 1):
            oldest = min(waiting, key=self._patience)
            waiting = [oldest, *(job for job in waiting if job is not oldest)]
        num_busy = len(busy.intersection(jobs))
        places = {job: 0 if job in busy else num_busy + waiting.index(job) for job in jobs}
        return next((place for job, place in places.items() if job.name == name), None)

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
            job.number, job.turn = next(self._numbers), self._turn
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
            while self._serve_next():
                pass
        except Exception:
            log.exception("the model's thread has died")
        self._closing = True
        for job in list(self._jobs):
            self._end(job, _going_down())

    def _serve_next(self) -> bool:
        """Do one batch; wait for one where there is none. False: time to stop."""
        with self._change:
            self._change.wait_for(lambda: self._arrived or self._stopped or self._waiting)
            if self._stopped:
                return False
        self._admit()
        if self._waiting:
            self._turn += 1
            order = self._patience if self._is_of_oldest(self._turn) else self._place
            self._serve(self._take(self._waiting, order))
        return True

    def _admit(self) -> None:
        """Let those who came have rows in line, and let those who left have none."""
        with self._change:
            arrived, self._arrived = self._arrived, []
        for job in arrived:
            self._advance(job, None)
        self._waiting = [ticket for ticket in self._waiting if ticket.job.alive]

    def _place(self, job: BatchJob) -> tuple[float, int]:
        """Return what orders the line: how much a job takes, to a factor of four; its arrival."""
        if self._is_short(job):
            return 0, job.number
        return 1 + math.log(job.size / self.short, 4) // 1, job.number

    def _patience(self, job: BatchJob) -> tuple[float, int]:
        """Return what orders the line by how long a job has waited."""
        return job.turn, job.number

    def _is_of_oldest(self, turn: int) -> bool:
        return turn % _TURNS == 0 and not self._closing

    def _jobs_under_way(self) -> set[BatchJob]:
        """Return those with rows in the batch under way, or in the one that it interrupts."""
        jobs: set[BatchJob] = set()
        batch = self._under_way
        while batch is not None:
            jobs.update(ticket.job for ticket in batch.batch)
            batch = batch.outer
        return jobs

    def _take(
        self, tickets: list[_Ticket], order: Callable[[BatchJob], tuple[float, int]]
    ) -> list[_Ticket]:
        """Return the next batch, no longer waiting: the first in line and others of its group.

        A short request is not made longer: only other short ones go with it.
        """
        from remask.sampling.batches import batch_around_first

        line = sorted(tickets, key=lambda ticket: order(ticket.job))
        first = line[0]
        if self._is_short(first.job):
            line = [ticket for ticket in line if self._is_short(ticket.job)]
        alike = [ticket for ticket in line if ticket.row.group == first.row.group]
        if first.row.columns > 0:  # a row without columns needs no model
            lengths = [ticket.row.columns for ticket in alike]
            alike = [alike[i] for i in batch_around_first(lengths, self.denoiser)]
        taken = set(map(id, alike))
        self._waiting = [ticket for ticket in self._waiting if id(ticket) not in taken]
        return alike

    def _is_short(self, job: BatchJob) -> bool:
        return job.size <= self.short

    def _serve(self, batch: list[_Ticket]) -> None:
        """Run a batch and hand out its results; in halves, where it fails."""
        batch = [ticket for ticket in batch if ticket.job.alive]
        if not batch:
            return
        rows = [ticket.row for ticket in batch]
        try:
            with self._noted(batch), self.metrics.count_batch(rows[0].kind, len(rows)):
                results = rows[0].run(self.denoiser, [row.value for row in rows])
        except _Abandoned:
            return
        except Exception as error:
            self._rescue(batch, error)
            return
        for ticket, result in zip(batch, results, strict=True):
            self._hand(ticket, result)

    @contextmanager
    def _noted(self, batch: list[_Ticket]) -> Iterator[None]:
        """Note that a batch is under way, inside another one or not."""
        for ticket in batch:
            ticket.job.turn = self._turn
        outer, self._under_way = self._under_way, _UnderWay(batch, self._under_way)
        try:
            yield
        finally:
            self._under_way = outer

    def _before_pass(self, num_tokens: int) -> None:
        """Charge the batch under way for a pass, and let short requests go before it."""
        current = self._under_way
        if current is None or threading.current_thread() is not self._thread:
            return
        current.charge(num_tokens)
        if not any(ticket.job.alive for ticket in current.batch):
            raise _Abandoned
        if current.outer is not None:
            current.outer.lent += num_tokens
            return
        if all(self._is_short(ticket.job) for ticket in current.batch):
            return
        while current.lent <= current.used + _ALLOWANCE * self.short:
            self._admit()
            short = [ticket for ticket in self._waiting if self._is_short(ticket.job)]
            if not short:
                return
            self._serve(self._take(short, self._place))

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
            job.expected = job.used + sum(row.cost for row in rows)
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
