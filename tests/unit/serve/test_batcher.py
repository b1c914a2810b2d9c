"""Rows of many requests through one thread, with rows that only pretend to be work."""

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from remask.errors import DenoiserError
from remask.serve.batcher import Batcher, Pace
from remask.serve.errors import ApiError
from remask.serve.metrics import ServerMetrics
from remask.serve.programs import OutOfTime
from remask.testing import ScriptedDenoiser

MODEL = ScriptedDenoiser(script=lambda tokens: torch.zeros(*tokens.shape, 262))
LIMIT = 300.0  # seconds that only a defect takes


@dataclass
class Press:
    """What became of the batches: their values, in order; what is told to fail does."""

    batches: list[list[Any]] = field(default_factory=list)
    faults: dict[Any, Exception] = field(default_factory=dict)
    most: int = 10**9  # values that fit into memory
    begun: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    passes: list[tuple[Any, int]] = field(default_factory=list)  # of the first value of a batch
    at: dict[tuple[Any, int], Callable[[], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.go_on.set()

    def passed(self, values: list[Any], number: int) -> None:
        """Note a pass, and do what is to happen in it."""
        self.passes.append((values[0], number))
        self.at.get((values[0], number), lambda: None)()

    def run(self, values: list[Any]) -> list[Any]:
        self.begun.set()
        assert self.go_on.wait(LIMIT)
        self.batches.append(values)
        if len(values) > self.most:
            raise torch.OutOfMemoryError("too much")
        for value in values:
            if value in self.faults:
                raise self.faults[value]
        return [-value for value in values]


@dataclass(frozen=True, eq=False)
class Row:
    press: Press
    value: Any
    columns: int = 250
    group: str = "a"
    passes: int = 1
    kind: str = "pretended"

    @property
    def cost(self) -> int:
        return self.passes * self.columns

    def run(self, denoiser: Any, values: list[Any]) -> list[Any]:
        for number in range(self.passes):
            denoiser.before(len(values) * self.columns)
            self.press.passed(values, number)
        return self.press.run(values)


def work(*rounds: Sequence[Row]) -> Iterator[Any]:
    """Ask for rows, round after round; return all results."""
    out: list[Any] = []
    for rows in rounds:
        out += yield rows  # type: ignore[misc]
    return out  # type: ignore[return-value]


class Desk:
    """A batcher, and the outcomes of what was handed in."""

    def __init__(self, max_queue: int = 99) -> None:
        self.now = 0.0
        self.batcher = Batcher(MODEL, ServerMetrics(), max_queue, lambda: self.now)
        self.outcomes: dict[str, Any] = {}
        self.changed = threading.Condition()

    def submit(self, name: str, job: Any, *due: Any) -> Any:
        return self.batcher.submit(job, lambda outcome: self.note(name, outcome), name, *due)

    def measured(self, pace: float) -> None:
        """Set the cost per second of the rows here, in batches of a second."""
        self.batcher.pace.note(Row(Press(), 0), pace, 1.0)

    def note(self, name: str, outcome: Any) -> None:
        with self.changed:
            assert name not in self.outcomes, "told twice"
            self.outcomes[name] = outcome
            self.changed.notify_all()

    def wait(self, *names: str) -> list[Any]:
        with self.changed:
            assert self.changed.wait_for(lambda: set(names) <= set(self.outcomes), LIMIT)
            return [self.outcomes[name] for name in names]


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    if made.batcher._thread.is_alive():
        made.batcher.close(LIMIT)


def busy(desk: Desk, press: Press, name: str, job: Any) -> Any:
    """Submit the first request, and return it when its first batch waits for `go_on`."""
    press.go_on.clear()
    desk.batcher.start()
    submitted = desk.submit(name, job)
    assert press.begun.wait(LIMIT)
    return submitted


def held(desk: Desk, press: Press, submit: Callable[[], None]) -> None:
    """Submit while a batch runs, so that all requests of `submit` wait together."""
    busy(desk, press, "first", work([Row(press, 99, kind="first")]))
    submit()
    press.go_on.set()


def row(value: Any, **more: Any) -> dict[str, Any]:
    return {"value": value, **more}


Requests = dict[str, list[list[dict[str, Any]]]]  # the rounds of rows of each request
ORDERS: dict[str, tuple[Requests, list[list[int]]]] = {
    "requests share a batch": (
        {"x": [[row(1), row(2)]], "y": [[row(3)]]},
        [[1, 2, 3]],
    ),
    "1,024 tokens on a CPU hold four rows of 250": (
        {"x": [[row(i) for i in range(6)]]},
        [[0, 1, 2, 3], [4, 5]],
    ),
    "rows of similar length join the oldest": (
        {str(size): [[row(size, columns=size)]] for size in (200, 1_000, 195, 210, 30)},
        [[200, 195, 210, 30], [1_000]],
    ),
    "new rows join waiting rows": (
        {"x": [[row(1, group="b")], [row(2)]], "y": [[row(3)]]},
        [[1], [2, 3]],
    ),
    "similar requests are finished in order of arrival": (
        {"x": [[row(1)], [row(2)]], "y": [[row(3, group="b")], [row(4, group="b")]]},
        [[1], [2], [3], [4]],
    ),
    "a request is short up to 4,096 tokens x passes, two rounds": (
        {"x": [[row(i, passes=4)] for i in range(1, 6)], "y": [[row(70, group="b")]]},
        [[1], [2], [70], [3], [4], [5]],
    ),
    "the lowest expected cost runs first": (
        {
            "long": [[row(1, passes=100)]],
            "longer": [[row(2, group="b", passes=1_000)]],
            "short": [[row(3, group="c")]],
        },
        [[3], [1], [2]],
    ),
    "costs within a factor of four are equal": (
        {str(n): [[row(n, group=str(n), passes=n)]] for n in (12, 32, 10)},
        [[12], [32], [10]],
    ),
    "rows without columns run at once": (
        {"x": [[row(i, columns=0) for i in range(1, 50)]]},
        [list(range(1, 50))],
    ),
}


@pytest.mark.parametrize("case", ORDERS)
def test_waiting_requests_are_served_in_order(desk: Desk, case: str) -> None:
    requests, batches = ORDERS[case]
    press = Press()

    def submit() -> None:
        for name, rounds in requests.items():
            desk.submit(name, work(*([Row(press, **r) for r in rows] for rows in rounds)))

    held(desk, press, submit)
    assert desk.wait(*requests) == [
        [-r["value"] for rows in rounds for r in rows] for rounds in requests.values()
    ]
    assert press.batches == [[99], *batches]


def test_a_batch_that_runs_out_of_memory_is_repeated_in_halves(desk: Desk) -> None:
    """Four rows where two fit: 4, then 2 and 2."""
    press = Press(most=2)
    held(desk, press, lambda: desk.submit("x", work([Row(press, i) for i in range(1, 5)])))
    assert desk.wait("x") == [[-1, -2, -3, -4]]
    assert press.batches == [[99], [1, 2, 3, 4], [1, 2], [3, 4]]


def test_every_fourth_batch_goes_to_the_oldest_request(desk: Desk) -> None:
    """30 short ones would keep a long one out: two go before it, five interrupt it at once."""
    press = Press()

    def submit() -> None:
        desk.submit("long", work([Row(press, 1, group="long", passes=100)]))
        for i in range(2, 32):
            desk.submit(str(i), work([Row(press, i, group=str(i), passes=8)]))

    held(desk, press, submit)
    desk.wait("long", "31")
    begun = list(dict.fromkeys(value for value, _ in press.passes))
    assert begun == [99, *range(2, 9), 1, *range(9, 32)]


def test_short_requests_are_finished_first_at_shutdown(desk: Desk) -> None:
    press = Press()

    def submit() -> None:
        desk.submit("long", work([Row(press, 1, group="long", passes=100)]))
        for i in range(2, 12):
            desk.submit(str(i), work([Row(press, i, group=str(i))]))
        threading.Thread(target=desk.batcher.close, args=(LIMIT,)).start()
        while desk.batcher.ready:
            time.sleep(0.001)

    held(desk, press, submit)
    desk.wait("long", "11")
    assert [batch[0] for batch in press.batches] == [99, *range(2, 12), 1]


def test_a_short_request_does_not_wait_for_a_long_batch(desk: Desk) -> None:
    """It comes in pass 2 of 10 and is run before pass 3, both rounds; the long one goes on."""
    press = Press()
    short = work([Row(press, 2, group="b")], [Row(press, 3, columns=0, passes=0)])
    press.at[1, 2] = lambda: desk.submit("short", short)
    desk.batcher.start()
    desk.submit("long", work([Row(press, 1, columns=1_000, passes=10)]))
    assert desk.wait("long", "short") == [[-1], [-2, -3]]
    assert press.batches == [[2], [3], [1]]
    assert press.passes == [(1, 0), (1, 1), (1, 2), (2, 0), *((1, i) for i in range(3, 10))]


def test_only_short_requests_interrupt(desk: Desk) -> None:
    """One that takes 5,000 waits for one that takes 20,000; a batch of short ones is left alone."""
    press = Press()
    press.at[1, 2] = lambda: desk.submit("other", work([Row(press, 2, group="b", passes=10)]))
    desk.batcher.start()
    desk.submit("long", work([Row(press, 1, columns=1_000, passes=10)]))
    desk.wait("long", "other")
    press.at[3, 0] = lambda: desk.submit("later", work([Row(press, 4, group="b")]))
    desk.submit("short", work([Row(press, 3, passes=2)]))
    desk.wait("short", "later")
    assert press.batches == [[1], [2], [3], [4]]


def test_interruptions_take_no_more_than_the_batch_itself(desk: Desk) -> None:
    """Of 50 short ones of 4,000 each 5 pass at once (4 x 4,096, and what was begun), then one for
    every two passes of 2,000: ten passes let nine of them go before.
    """
    press = Press()

    def come() -> None:
        for i in range(2, 52):
            desk.submit(str(i), work([Row(press, i, group=str(i), passes=8)]))

    press.at[1, 0] = come
    desk.batcher.start()
    desk.submit("long", work([Row(press, 1, columns=1_000, passes=10)]))
    desk.wait("long", "51")
    assert press.batches.index([1]) == 10
    assert len(press.batches) == 51


def test_a_batch_whose_clients_left_ends_before_its_next_pass(desk: Desk) -> None:
    press = Press()
    jobs: list[Any] = []
    submitted = threading.Event()

    def leave() -> None:
        assert submitted.wait(LIMIT)
        desk.batcher.cancel(jobs[0])

    press.at[1, 4] = leave
    desk.batcher.start()
    jobs.append(desk.submit("gone", work([Row(press, 1, passes=100)])))
    submitted.set()
    desk.submit("next", work([Row(press, 2, group="b")], [Row(press, 3)]))
    assert desk.wait("next") == [[-2, -3]]
    assert press.passes.count((1, 4)) == 1
    assert (1, 5) not in press.passes
    assert "gone" not in desk.outcomes


def test_an_interruption_that_fails_does_not_end_the_batch(desk: Desk) -> None:
    press = Press(faults={2: DenoiserError("NaN")})
    press.at[1, 2] = lambda: desk.submit("sick", work([Row(press, 2, group="b")]))
    desk.batcher.start()
    desk.submit("long", work([Row(press, 1, columns=1_000, passes=10)]))
    long, sick = desk.wait("long", "sick")
    assert long == [-1]
    assert isinstance(sick, DenoiserError)
    assert press.batches == [[2], [1]]


def test_a_request_knows_how_many_are_before_it(desk: Desk) -> None:
    press = Press()
    busy(desk, press, "running", work([Row(press, 1)]))
    desk.submit("next", work([Row(press, 2, group="b")]))
    last = desk.submit("last", work([Row(press, 3, group="c")]))
    assert [desk.batcher.ahead(name) for name in ("running", "next", "last")] == [0, 1, 2]
    assert desk.batcher.ahead("nobody") is None
    desk.batcher.cancel(last)
    assert desk.batcher.ahead("last") is None
    press.go_on.set()
    desk.wait("running", "next")
    assert desk.batcher.ahead("next") is None


def test_running_requests_have_nobody_before_them(desk: Desk) -> None:
    """20,000 are under way when 5,000 come, which go in line before them, and 500, which interrupt.

    What has just come is counted last, behind the one under way.
    """
    press = Press()
    names = ("long", "other", "short")
    places: list[list[int | None]] = []

    def look() -> None:
        places.append([desk.batcher.ahead(name) for name in names])

    def come() -> None:
        desk.submit("other", work([Row(press, 2, group="b", passes=10)]))
        desk.submit("short", work([Row(press, 3, group="c")]))
        look()

    press.at = {(1, 2): come, (3, 0): look, (1, 3): look, (2, 0): look}
    desk.batcher.start()
    desk.submit("long", work([Row(press, 1, columns=1_000, passes=10)]))
    desk.wait(*names)
    assert press.batches == [[3], [1], [2]]
    assert places == [[0, 1, 2], [0, 2, 0], [0, 1, None], [None, 0, None]]


def test_requests_in_one_batch_are_not_before_one_another(desk: Desk) -> None:
    """Two of three fit into a batch of 2,048; a short one that may not interrupt is next."""
    press = Press()
    places: list[list[int | None]] = []
    names = ("one", "two", "three", "short")

    def look() -> None:
        places.append([desk.batcher.ahead(name) for name in names])

    def submit() -> None:
        for value, name in enumerate(names[:3], 1):
            desk.submit(name, work([Row(press, value, columns=500, passes=2)]))
        press.at[1, 0] = lambda: desk.submit("short", work([Row(press, 4, group="b")]))
        press.at[1, 1] = look

    held(desk, press, submit)
    desk.wait(*names)
    assert press.batches == [[99], [1, 2], [3], [4]]
    assert places == [[0, 0, 2, 3]]


def test_the_oldest_request_knows_its_turn(desk: Desk) -> None:
    """Of 4 short ones two go before a long one, whose turn the fourth is: it is first then."""
    press = Press()
    places: list[list[int | None]] = []
    names = ("long", "2", "3", "4", "5")

    def look() -> None:
        places.append([desk.batcher.ahead(name) for name in names])

    def submit() -> None:
        desk.submit("long", work([Row(press, 1, group="long", passes=100)]))
        for i in range(2, 6):
            desk.submit(str(i), work([Row(press, i, group=str(i), passes=8)]))
        press.at = {(2, 0): look, (3, 0): look}

    held(desk, press, submit)
    desk.wait(*names)
    begun = list(dict.fromkeys(value for value, _ in press.passes))
    assert begun == [99, 2, 3, 4, 5, 1]
    assert places == [[4, 0, 1, 2, 3], [1, None, 0, 2, 3]]


def test_a_failed_batch_is_freed_before_its_halves_run(desk: Desk) -> None:
    """Rows 1 and 2 fail together; what that pass held, tensors as a rule, is gone when 1 begins."""
    kept: list[weakref.ref[Any]] = []
    alone: list[bool] = []

    class Heavy(Press):
        def run(self, values: list[Any]) -> list[Any]:
            alone.append(all(ref() is None for ref in kept))
            load = threading.Event()
            kept.append(weakref.ref(load))
            return super().run(values)

    press = Heavy(most=1)
    held(desk, press, lambda: desk.submit("x", work([Row(press, 1), Row(press, 2)])))
    assert desk.wait("x") == [[-1, -2]]
    assert press.batches == [[99], [1, 2], [1], [2]]
    assert alone == [True] * 4


def test_a_row_that_gives_nan_ends_its_own_request_only(desk: Desk) -> None:
    press = Press(faults={2: DenoiserError("NaN")})

    def submit() -> None:
        desk.submit("x", work([Row(press, 1)]))
        desk.submit("sick", work([Row(press, 2)], [Row(press, 8)]))
        desk.submit("y", work([Row(press, 3), Row(press, 4)]))

    held(desk, press, submit)
    x, sick, y = desk.wait("x", "sick", "y")
    assert (x, y) == ([-1], [-3, -4])
    assert isinstance(sick, DenoiserError)
    assert not any(8 in batch for batch in press.batches)
    assert desk.batcher.ready


def test_the_other_rows_of_a_failed_request_are_not_run(desk: Desk) -> None:
    """Rows 1 and 2 are of one request: when 1 has failed alone, 2 need not be tried."""
    press = Press(faults={1: ValueError("no")})
    held(desk, press, lambda: desk.submit("x", work([Row(press, 1), Row(press, 2)])))
    desk.wait("x")
    assert press.batches == [[99], [1, 2], [1]]


def test_a_program_that_fails_ends_with_its_error(desk: Desk) -> None:
    def failing() -> Iterator[Any]:
        yield [Row(Press(), 1)]
        raise KeyError("between")

    desk.batcher.start()
    desk.submit("x", failing())
    assert isinstance(desk.wait("x")[0], KeyError)
    assert desk.batcher.num_jobs == 0


def test_a_cancelled_request_has_no_further_rows_and_no_outcome(desk: Desk) -> None:
    press = Press()

    def submit() -> None:
        desk.batcher.cancel(desk.submit("gone", work([Row(press, 1)])))
        desk.submit("y", work([Row(press, 2)]))

    held(desk, press, submit)
    assert desk.wait("y") == [[-2]]
    assert press.batches == [[99], [2]]
    assert "gone" not in desk.outcomes


def test_a_request_cancelled_while_it_runs_frees_its_place(desk: Desk) -> None:
    press = Press()
    job = busy(desk, press, "x", work([Row(press, 1)], [Row(press, 2)]))
    desk.batcher.cancel(job)
    assert desk.batcher.num_jobs == 0
    press.go_on.set()
    desk.submit("y", work([Row(press, 3)]))
    desk.wait("y")
    assert press.batches == [[1], [3]]


def test_a_full_queue_refuses_with_retry_after() -> None:
    desk = Desk(max_queue=1)
    press = Press()
    press.go_on.clear()
    desk.batcher.start()
    desk.submit("x", work([Row(press, 1)]))
    with pytest.raises(ApiError) as refused:
        desk.submit("y", work([Row(press, 2)]))
    assert refused.value.status == 429
    assert refused.value.headers == {"Retry-After": "1"}
    press.go_on.set()
    desk.wait("x")
    desk.submit("y", work([Row(press, 2)]))
    assert desk.wait("y") == [[-2]]
    desk.batcher.close(LIMIT)


def test_closing_finishes_running_requests_and_refuses_new_ones(desk: Desk) -> None:
    press = Press()
    busy(desk, press, "x", work([Row(press, 1)], [Row(press, 2)]))
    closing = threading.Thread(target=desk.batcher.close, args=(LIMIT,))
    closing.start()
    while desk.batcher.ready:
        time.sleep(0.001)
    with pytest.raises(ApiError, match="shutting down"):
        desk.submit("late", work([Row(press, 3)]))
    press.go_on.set()
    closing.join(LIMIT)
    assert desk.wait("x") == [[-1, -2]]


def test_unfinished_requests_end_with_503_when_the_drain_is_over(desk: Desk) -> None:
    press = Press()
    busy(desk, press, "x", work([Row(press, 1)]))
    desk.batcher.close(0.05)
    (outcome,) = desk.wait("x")
    assert isinstance(outcome, ApiError)
    assert outcome.status == 503
    press.go_on.set()


def test_all_requests_end_if_the_thread_dies(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A row that cannot say its group breaks the batcher itself, not a batch."""

    class Broken:
        kind, columns, cost = "broken", 1, 1

        @property
        def group(self) -> str:
            raise RuntimeError("a defect")

    def broken() -> Iterator[Any]:
        yield [Broken()]

    desk.batcher.start()
    desk.submit("x", broken())
    (outcome,) = desk.wait("x")
    assert isinstance(outcome, ApiError)
    assert not desk.batcher.ready
    assert "a defect" in caplog.text


def needs(cost: float) -> list[tuple[str, float]]:
    return [("pretended", cost)]


def test_the_pace_is_a_mean_of_each_kind_of_row() -> None:
    """1,000 in 10 s, then 1,000 in 1 s: 1,900 in 10 s."""
    pace, row = Pace(), Row(Press(), 0)
    assert pace.seconds(needs(500)) == 0.0
    pace.note(row, 1_000, 10.0)
    assert pace.seconds(needs(500)) == pytest.approx(5.0)
    pace.note(row, 1_000, 1.0)
    assert pace.seconds(needs(500)) == pytest.approx(500 * 10 / 1_900)
    pace.note(Row(Press(), 0, columns=0, kind="texts"), 4, 2.0)
    assert pace.seconds([("texts", 2), *needs(500)]) == pytest.approx(1.0 + 500 * 10 / 1_900)


def test_a_kind_of_row_that_never_ran_is_as_fast_as_round_trips() -> None:
    """A scorer's number of passes is unknown, so its pace says nothing about other kinds."""
    pace = Pace()
    pace.note(Row(Press(), 0, kind="trip"), 1_000, 1.0)
    for _ in range(50):
        pace.note(Row(Press(), 0, kind="self_evaluation"), 100, 4.0)
    assert pace.seconds([("block", 2_000)]) == pytest.approx(2.0)


def test_one_stalled_batch_does_not_ruin_the_pace() -> None:
    """An hour counts as four times the usual second: 1,900 in 4.9 s."""
    pace = Pace()
    pace.note(Row(Press(), 0), 1_000, 1.0)
    pace.note(Row(Press(), 0), 1_000, 3_600.0)
    assert pace.seconds(needs(1_900)) == pytest.approx(0.9 + 4.0)


def refused(desk: Desk, cost: float, deadline: float) -> ApiError:
    with pytest.raises(ApiError) as error:
        desk.submit("refused", work([]), needs(cost), deadline)
    assert error.value.status == 429
    return error.value


def test_a_request_that_would_be_late_is_refused_until_the_queue_is_shorter(desk: Desk) -> None:
    """10 s each at 100 a second, and a batch of 1 s: five fit into half of 120 s, and a sixth when
    one of them is gone."""
    press = Press()
    desk.measured(100.0)
    jobs: list[Any] = []

    def submit() -> None:
        for i in range(1, 6):
            row = Row(press, i, group=str(i), passes=4)
            jobs.append(desk.submit(str(i), work([row]), needs(1_000), 120.0))
        error = refused(desk, 1_000, 120.0)
        assert (error.code, error.headers) == ("overloaded", {"Retry-After": "1"})
        assert refused(desk, 2_050, 120.0).headers == {"Retry-After": "12"}
        desk.batcher.check_room(120.0)
        desk.batcher.cancel(jobs[0])
        desk.batcher.check_room(120.0, needs(1_000))

    held(desk, press, submit)
    desk.wait("5")


def test_a_request_that_is_too_slow_alone_is_refused(desk: Desk) -> None:
    """121 s for 120 s; 119 s are accepted, because waiting would not help. No client waits longer
    than the time limit."""
    desk.batcher.start()
    desk.measured(100.0)
    for cost in (12_100, 10**12):
        error = refused(desk, cost, 120.0)
        assert (error.code, error.headers) == ("too_slow", {"Retry-After": "120"})
    desk.submit("x", work([Row(Press(), 1)]), needs(11_900), 120.0)
    assert desk.wait("x") == [[-1]]


@pytest.mark.parametrize(
    ("now", "known"),
    [(0.0, [[99], [2], [3], [4], [1]]), (30.0, [[99], [1], [2], [3], [4]]),
     (50.0, [[99], [2], [3], [4], [1]])],
)  # fmt: skip
def test_the_oldest_go_first_when_their_deadline_is_near(
    desk: Desk, now: float, known: list[list[int]]
) -> None:
    """The old one needs 25 s until 60 s: three quarters of the time are enough at 0 s, not at
    30 s. At 50 s it is hopeless."""
    press = Press()
    desk.measured(1_000.0)

    def submit() -> None:
        old = work([Row(press, 1, group="old", passes=100)])
        desk.submit("old", old, needs(25_000), 60.0)
        for i in (2, 3, 4):
            row = Row(press, i, group=str(i))
            desk.submit(str(i), work([row]), needs(250), 120.0)
        desk.now = now

    held(desk, press, submit)
    desk.wait("old", "2", "3", "4")
    # Short requests may interrupt the old one, so that batches end in this order.
    assert press.batches == known


@pytest.mark.parametrize(("now", "known"), [(0.0, [1, 2]), (17.0, [2, 1])])
def test_an_urgent_request_goes_before_one_that_has_an_answer(
    desk: Desk, now: float, known: list[int]
) -> None:
    """The latter is older, short, and improves its answer; the other needs 5 s until 24 s."""
    press = Press()
    desk.measured(1_000.0)

    def submit() -> None:
        desk.submit("solve", work([Row(press, 1, group="a")]), (), 10.0)
        desk.submit("verify", work([Row(press, 2, group="b", passes=20)]), needs(5_000), 24.0)
        desk.now = now

    held(desk, press, submit)
    desk.wait("solve", "verify")
    assert press.batches == [[99], *([value] for value in known)]


def test_a_request_near_its_deadline_interrupts_a_long_batch(desk: Desk) -> None:
    """It is not short: 5,000 at 1,000 a second until 6 s."""
    press = Press()
    desk.measured(1_000.0)
    late = work([Row(press, 2, group="b", passes=20)])
    press.at[1, 2] = lambda: desk.submit("late", late, needs(5_000), 13.0)
    press.at[1, 4] = lambda: setattr(desk, "now", 6.5)
    desk.batcher.start()
    desk.submit("long", work([Row(press, 1, columns=1_000, passes=10)]))
    desk.wait("long", "late")
    assert press.batches == [[2], [1]]
    assert press.passes.index((2, 0)) == 5


def lasting(press: Press) -> Iterator[Any]:
    """Work until the time is up, and return how many rounds are done."""
    done = 0
    try:
        while True:
            yield [Row(press, done)]
            done += 1
    except OutOfTime:
        return done  # type: ignore[return-value]


def test_a_request_at_its_deadline_ends_with_what_it_has(desk: Desk) -> None:
    """In the middle of its third round; another program has nothing and ends with the error."""
    press, late = Press(), ApiError(504, "late")
    jobs: dict[str, Any] = {}

    def expire() -> None:
        for job in jobs.values():
            desk.batcher.expire(job, late)

    press.at[2, 0] = expire

    def submit() -> None:
        jobs["best"] = desk.submit("best", lasting(press))
        jobs["none"] = desk.submit("none", work([Row(press, 7, group="b", passes=50)]))

    held(desk, press, submit)
    assert desk.wait("best", "none") == [2, late]
    desk.batcher.expire(jobs["best"], late)  # told once
    desk.submit("next", work([Row(press, 8)]))
    assert desk.wait("next") == [[-8]]
    assert [7] not in press.batches


def test_a_request_that_never_began_ends_at_its_deadline(desk: Desk) -> None:
    press = Press()

    def submit() -> None:
        desk.batcher.expire(desk.submit("x", lasting(press)), ApiError(504, "late"))

    held(desk, press, submit)
    (outcome,) = desk.wait("x")
    assert isinstance(outcome, ApiError)


def test_a_server_that_is_stopped_ends_its_requests_at_once(desk: Desk) -> None:
    press = Press()
    busy(desk, press, "x", lasting(press))
    closing = threading.Thread(target=desk.batcher.close, args=(LIMIT,))
    closing.start()
    desk.batcher.stop()
    assert desk.wait("x") == [0]
    press.go_on.set()
    closing.join(LIMIT)
    assert not closing.is_alive()
