"""Rows of many requests through one model, in one thread.

The unit is a row: one block of an answer, or one round trip (see `programs`). The thread takes the
first row of the queue and as many others of its group as a batch holds (`sampling.batches`), from
any request, and runs them to the end of their block or trip. A request gets its results when all
rows that it yielded are done, and may then yield more. Rows join and leave between batches only.

Order. Normally the request with the lowest cost (tokens x forward passes, including its next rows)
runs first; costs within a factor of four are served in order of arrival, and every fourth batch
goes to the oldest request. As soon as a request is close to its deadline, the oldest requests that
have no answer yet run first. Before each pass of a long batch, short requests (at most two full
passes) and requests that are closer to their deadline may run; short ones take at most as much as
the batch itself. A batch whose clients have all left ends before its next pass.

Admission. The batcher measures its pace and refuses a request that would be late if requests were
served oldest first. A request at its deadline ends with the best result that it has.

A failed batch is repeated in halves, so that a row that runs out of memory or gives NaN ends its
own request only. Nothing in this module knows HTTP.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from remask.denoisers.kv_cache import KVCache
from remask.denoisers.wrap import Wrapped
from remask.sampling.batches import batch_around_first, token_budget
from remask.serve.errors import ApiError, is_out_of_memory
from remask.serve.programs import OutOfTime
from remask.values import Canvas

if TYPE_CHECKING:
    from remask.denoisers.base import Denoiser
    from remask.serve.metrics import ServerMetrics
    from remask.serve.programs import BatchRow, Need, Program

log = logging.getLogger("remask.serve")
_SHORT = 2  # full passes that a short request takes at most
_ALLOWANCE = 4  # short requests that may interrupt a batch that has only begun
_UNKNOWN = 1e18  # cost of a request that has not yielded rows yet
_TURNS = 4  # one batch of so many goes to the oldest request
_MEMORY = 0.9  # weight of earlier batches in the measured pace, at every batch
_STALL = 4.0  # a batch counts as at most so many times slower than the pace
_USUAL = "trip"  # kind whose pace applies to kinds without a batch yet; measured at the start
# Shares of the time to its deadline that a request may need if the oldest are served first. The
# first bounds admission. The second starts serving the oldest first; the rest covers errors of the
# estimate.
_ADMITTED, _URGENT = 0.5, 0.75


class BatchJob:
    """A program, how far it has run, and where its outcome goes."""

    def __init__(
        self,
        program: "Program[Any]",
        done: Callable[[Any], None],
        name: str = "",
        needs: Sequence["Need"] = (),
        deadline: float = math.inf,
    ) -> None:
        self.program, self.done, self.name = program, done, name
        self.needs = list(needs)  # until it has an answer
        self.deadline = deadline  # on the batcher's clock
        self.lock = threading.Lock()  # held while the program runs
        self.alive = True
        self.results: list[Any] = []
        self.num_missing = 0
        self.number = 0  # in order of arrival
        self.used = 0.0  # tokens x passes so far
        self.expected = _UNKNOWN  # the same when its next rows are done

    @property
    def size(self) -> float:
        """Tokens x passes until its next rows are done, as far as they are known."""
        return max(self.used, self.expected)

    @property
    def age(self) -> tuple[float, int]:
        """What orders requests oldest first."""
        return self.deadline, self.number


class _Ticket(NamedTuple):
    """A row in the queue."""

    job: BatchJob
    place: int
    row: "BatchRow"


@dataclass(eq=False)
class _Running:
    """A batch in the model."""

    batch: list[_Ticket]
    outer: "_Running | None"  # the batch that this one interrupts
    used: int = 0  # tokens x passes
    lent: int = 0  # the same, of batches that interrupted it
    lent_seconds: float = 0.0


class _Abandoned(Exception):
    """All clients of a batch have left."""


@dataclass(frozen=True, eq=False)
class ChargedDenoiser(Wrapped):
    """Calls `before` with the number of tokens of every pass."""

    before: Callable[[int], None]

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        self.before(canvas.tokens.numel())
        return super().hidden(canvas, cache)

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        self.before(canvas.tokens.numel())
        return super().extend_cache(canvas, cache)


class Pace:
    """Cost per second of each kind of row: a moving mean over batches."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}  # decayed sums of cost and seconds
        self.longest = 0.0  # seconds of the longest batch, decayed

    def note(self, row: "BatchRow", cost: float, seconds: float) -> None:
        """Count a batch of rows like this one."""
        self.longest = max(seconds, _MEMORY * self.longest)
        before, took = self._sums.get(row.kind, (0.0, 0.0))
        most = _STALL * cost * took / before if took else seconds
        if cost > 0:
            self._sums[row.kind] = _MEMORY * before + cost, _MEMORY * took + min(seconds, most)

    def seconds(self, needs: Sequence["Need"]) -> float:
        """Return the time that needs take; 0 before anything was measured."""
        total = 0.0
        for kind, cost in needs:
            known, took = self._sums.get(kind) or self._sums.get(_USUAL) or (1.0, 0.0)
            total += max(0.0, cost) * took / known
        return total


class Batcher:
    """The thread that owns a model, and its queue."""

    def __init__(
        self,
        denoiser: "Denoiser",
        metrics: "ServerMetrics",
        max_queue: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.metrics, self.max_queue, self.clock = metrics, max_queue, clock
        self.denoiser = ChargedDenoiser(denoiser, self._before_pass)
        self.short = _SHORT * token_budget(denoiser.device)
        self.pace = Pace()
        self._change = threading.Condition()
        self._jobs: set[BatchJob] = set()
        self._arrived: list[BatchJob] = []
        self._waiting: list[_Ticket] = []  # used by the thread only
        self._running: _Running | None = None
        self._numbers, self._turn = count(1), 0
        self._closing = self._stopped = False
        self._thread = threading.Thread(target=self._run, name="remask-model", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def num_jobs(self) -> int:
        """Requests that run or wait."""
        return len(self._jobs)

    @property
    def ready(self) -> bool:
        """Whether requests are accepted."""
        return self._thread.is_alive() and not self._closing

    def ahead(self, name: str) -> int | None:
        """Return how many requests are before the one of this name, or None without such a request.

        Requests in the model are first, then the others in the order of the next batch.
        """
        with self._change:
            busy, order = self._busy_jobs(), self._order(self._turn + 1)
            line = sorted(self._jobs, key=lambda job: (job not in busy, order(job)))
        places = (0 if job in busy else i for i, job in enumerate(line) if job.name == name)
        return next(places, None)

    def check_room(self, deadline: float = math.inf, needs: Sequence["Need"] = ()) -> None:
        """Raise if a request that needs at least this much would be refused now."""
        left, alone = max(0.0, deadline - self.clock()), self.pace.seconds(needs)
        with self._change:
            if not self.ready:
                raise _going_down()
            if len(self._jobs) >= self.max_queue:
                raise _busy(f"The queue is full ({self.max_queue} requests)", 1, "queue_full")
            if alone > left or left == 0:
                cause = f"The request needs about {alone:.3g} s and has {left:.3g} s left"
                cause += "; ask for fewer tokens, trips or steps, or allow more time"
                raise _busy(cause, min(alone, left), "too_slow")
            late = self._late_by(_ADMITTED, deadline, needs) if self._jobs else 0.0
        if late > 0:
            raise _busy(f"The queue is too long to answer within {left:.3g} s", late, "overloaded")

    def submit(
        self,
        program: "Program[Any]",
        done: Callable[[Any], None],
        name: str = "",
        needs: Sequence["Need"] = (),
        deadline: float = math.inf,
    ) -> BatchJob:
        """Queue a request or raise; `done` is called with its result or error, in any thread.

        `needs` is the cost until the program has an answer, as (kind of row, cost) in order.
        """
        job = BatchJob(program, done, name, needs, deadline)
        with self._change:
            self.check_room(deadline, needs)
            job.number = next(self._numbers)
            self._jobs.add(job)
            self._arrived.append(job)
            self._change.notify_all()
        return job

    def cancel(self, job: BatchJob) -> None:
        """Drop a request without calling `done`; its rows in the model end with their batch."""
        with self._change:
            job.alive = False
            self._jobs.discard(job)
            self._change.notify_all()

    def expire(self, job: BatchJob, error: Exception) -> None:
        """End a request now: with what its program returns when it is out of time, or an error."""
        self._step(job, lambda: job.program.throw(OutOfTime()), error)

    def close(self, seconds: float) -> None:
        """Accept no more requests, give the others this long to finish, and stop."""
        with self._change:
            self._closing = True
            self._change.wait_for(lambda: not self._jobs or self._stopped, seconds)
        self.stop()
        self.join(seconds)

    def stop(self) -> None:
        """Expire all requests now, and stop."""
        with self._change:
            self._closing = self._stopped = True
            left = list(self._jobs)
            self._change.notify_all()
        for job in left:
            self.expire(job, _going_down())

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread."""
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
        """Run one batch, waiting for one if there is none; return False when it is time to stop."""
        with self._change:
            self._change.wait_for(lambda: self._arrived or self._stopped or self._waiting)
            if self._stopped:
                return False
        self._admit()
        if self._waiting:
            self._turn += 1
            self._serve(self._take(self._waiting, self._order(self._turn)))
        return True

    def _admit(self) -> None:
        """Queue the rows of requests that have arrived, and drop those of ended requests."""
        with self._change:
            arrived, self._arrived = self._arrived, []
        for job in arrived:
            self._advance(job, None)
        self._waiting = [ticket for ticket in self._waiting if ticket.job.alive]

    def _late_by(
        self, share: float, since: float | None = None, needs: Sequence["Need"] = ()
    ) -> float:
        """Return the most seconds by which a request exceeds this share of its time.

        Requests are assumed to be served oldest first. With `since`, there is one more request with
        this deadline, and only deadlines from there on count.
        """
        with self._change:
            due = [(job.deadline, self._urgent_seconds(job)) for job in self._jobs]
        if since is not None:
            due.append((since, self.pace.seconds(needs)))
        late, total, now = 0.0, self.pace.longest, self.clock()
        for deadline, seconds in sorted(due):
            total += seconds
            if (seconds > 0 and since is None) or (since is not None and deadline >= since):
                late = max(late, total - share * (deadline - now))
        return late

    def _urgent_seconds(self, job: BatchJob) -> float:
        """Return the time that a request needs for its answer; 0 if it has one or is hopeless."""
        seconds = self.pace.seconds(job.needs)
        return seconds if seconds <= job.deadline - self.clock() else 0.0

    def _urgency(self, job: BatchJob) -> tuple[float, ...]:
        return not self._urgent_seconds(job), *job.age

    def _order(self, turn: int) -> Callable[[BatchJob], tuple[float, ...]]:
        """Return what orders requests for a batch."""
        if self._late_by(_URGENT) > 0:
            return self._urgency
        if turn % _TURNS == 0 and not self._closing:
            return lambda job: job.age
        return self._size_class

    def _size_class(self, job: BatchJob) -> tuple[float, int]:
        """Return the cost of a request to a factor of four, and its number."""
        if self._is_short(job):
            return 0, job.number
        return 1 + math.log(job.size / self.short, 4) // 1, job.number

    def _is_short(self, job: BatchJob) -> bool:
        return job.size <= self.short

    def _busy_jobs(self) -> set[BatchJob]:
        """Return the requests with rows in the model."""
        jobs: set[BatchJob] = set()
        running = self._running
        while running is not None:
            jobs.update(ticket.job for ticket in running.batch)
            running = running.outer
        return jobs

    def _take(
        self, tickets: list[_Ticket], order: Callable[[BatchJob], tuple[float, ...]]
    ) -> list[_Ticket]:
        """Remove the next batch from the queue: the first row and others of its group.

        Only other short requests share a batch with a short one: it would take longer.
        """
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

    def _serve(self, batch: list[_Ticket]) -> None:
        """Run a batch and hand out its results; repeat it in halves if it fails."""
        batch = [ticket for ticket in batch if ticket.job.alive]
        if not batch:
            return
        try:
            results = self._compute(batch)
        except _Abandoned:
            return
        except Exception as error:
            self._rescue(batch, error)
            return
        for ticket, result in zip(batch, results, strict=True):
            self._hand(ticket, result)

    def _compute(self, batch: list[_Ticket]) -> list[Any]:
        rows, began = [ticket.row for ticket in batch], self.clock()
        running = self._running = _Running(batch, self._running)
        try:
            with self.metrics.count_batch(rows[0].kind, len(rows)):
                results = rows[0].run(self.denoiser, [row.value for row in rows])
            seconds = self.clock() - began - running.lent_seconds
            self.pace.note(rows[0], sum(row.cost for row in rows), seconds)
            return results
        finally:
            self._running = running.outer

    def _before_pass(self, num_tokens: int) -> None:
        """Charge the running batch for a pass, and run others first that should not wait."""
        current = self._running
        if current is None or threading.current_thread() is not self._thread:
            return
        current.used += num_tokens
        for ticket in current.batch:
            ticket.job.used += num_tokens / len(current.batch)
        if not any(ticket.job.alive for ticket in current.batch):
            raise _Abandoned
        if current.outer is not None:
            current.outer.lent += num_tokens
            return
        while batch := self._interruption(current):
            began = self.clock()
            self._serve(batch)
            current.lent_seconds += self.clock() - began

    def _interruption(self, current: _Running) -> list[_Ticket]:
        """Return a batch to run before the next pass of the current one; [] for none."""
        self._admit()
        first: list[_Ticket] = []
        if not self._waiting:
            return first
        if self._late_by(_URGENT) > 0:
            due = min((False, math.inf), *(self._urgency(ticket.job) for ticket in current.batch))
            first = [ticket for ticket in self._waiting if self._urgency(ticket.job) < due]
        elif current.lent <= current.used + _ALLOWANCE * self.short and not all(
            self._is_short(ticket.job) for ticket in current.batch
        ):
            first = [ticket for ticket in self._waiting if self._is_short(ticket.job)]
        return self._take(first, self._order(1)) if first else []

    def _rescue(self, batch: list[_Ticket], error: Exception) -> None:
        """Repeat a failed batch in halves; the error of a single row ends its request."""
        if len(batch) > 1 or is_out_of_memory(error):
            error.__traceback__ = None  # its frames hold the tensors of the batch
        self.metrics.count_failure(error)
        if is_out_of_memory(error):
            _free_memory()
        if len(batch) == 1:
            self._end(batch[0].job, error)
            return
        log.warning("%s in a batch of %d rows; trying halves", type(error).__name__, len(batch))
        middle = len(batch) // 2
        self._serve(batch[:middle])
        self._serve(batch[middle:])

    def _hand(self, ticket: _Ticket, result: Any) -> None:
        """Give a job one of its results; the last one lets it go on."""
        job, row = ticket.job, ticket.row
        job.results[ticket.place] = result
        job.num_missing -= 1
        if job.needs and job.needs[0][0] == row.kind:
            job.needs[0] = row.kind, job.needs[0][1] - row.cost
        if job.num_missing == 0:
            self._advance(job, job.results)

    def _advance(self, job: BatchJob, results: list[Any] | None) -> None:
        self._step(job, lambda: next(job.program) if results is None else job.program.send(results))

    def _step(
        self,
        job: BatchJob,
        proceed: Callable[[], Sequence["BatchRow"]],
        late: Exception | None = None,
    ) -> None:
        """Run a program until it yields rows or ends; `late` is the outcome if it has no result."""
        with job.lock:
            if not job.alive:
                return
            try:
                rows = proceed()
            except StopIteration as end:
                self._end(job, end.value)
            except Exception as error:
                self._end(job, late if isinstance(error, OutOfTime) else error)
            else:
                while job.needs and job.needs[0][0] != rows[0].kind:
                    del job.needs[0]
                job.expected = job.used + sum(row.cost for row in rows)
                job.results, job.num_missing = [None] * len(rows), len(rows)
                self._waiting += [_Ticket(job, place, row) for place, row in enumerate(rows)]

    def _end(self, job: BatchJob, outcome: Any) -> None:
        """Hand over the outcome of a job, a result or an error, once."""
        with self._change:
            if not job.alive:
                return
            job.alive = False
            self._jobs.discard(job)
            self._change.notify_all()
        job.done(outcome)


def _busy(cause: str, seconds: float, code: str) -> ApiError:
    wait = max(1, math.ceil(seconds))
    message = f"{cause}; try again in {wait} s."
    return ApiError(429, message, code=code, headers={"Retry-After": str(wait)})


def _going_down() -> ApiError:
    return ApiError(503, "The server is shutting down.", code="going_down")


def _free_memory() -> None:
    """Release what the allocator holds in reserve."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()
