"""Requests as programs: generators that yield the rows they need and are sent the results.

    draw      one block of each answer that is not finished, until all are
    verify    all round trips at once, then the metrics; or what another scorer says
    solve     both, until Algorithm 1 has its answer

A row says which others it may share a batch with (`group`), how much of one it takes (`columns`)
and how long (`passes`). A program knows neither threads nor HTTP: the batcher runs its rows in
batches with others, and may end it at any yield (`OutOfTime`). `emit` is called with every event.
"""

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from remask.consistency.roundtrips import Consistency, TripInput, collect, mask_and_rebuild
from remask.consistency.settings import ConsistencySettings
from remask.decide.rejection import decide, rejection
from remask.denoisers.base import Denoiser
from remask.sampling.drafts import Draft, advance, finished
from remask.values import Decision, RoundTrips, Sample, Score, Scorer, scores_of

Emit = Callable[[str, Any], None]  # the name of an event, and its value
Ends = Callable[[Draft], bool]  # whether nothing more of an answer is wanted
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class BatchRow:
    """What goes through the model at once, as one row of a batch."""

    kind: str  # its name in /metrics
    group: Hashable  # rows of one group may share a batch
    columns: int  # tokens that it takes in a batch; 0 where it needs no model
    passes: int  # expected forward passes
    value: Any
    run: Callable[[Denoiser, Sequence[Any]], list[Any]]  # values of one group -> a result of each

    @property
    def cost(self) -> int:
        """Expected passes x tokens; without columns, a number of texts."""
        return self.passes * max(1, self.columns)


Program = Generator[Sequence[BatchRow], list[Any], _Result]
Need = tuple[str, float]  # a kind of row, and the cost of all rows of this kind


class Plan(NamedTuple):
    """A program and what it needs until it has an answer, in the order of its rows."""

    program: Program[Any]
    needs: list[Need]
    scorer: Scorer | None = None

    @property
    def warm(self) -> Callable[[], None] | None:
        """A function that loads the encoder of the scorer, if it needs one."""
        scorer = self.scorer
        return scorer.warm if isinstance(scorer, Consistency) and scorer.encodes else None


class OutOfTime(Exception):
    """Thrown into a program to end it: it returns what it has, or lets the exception pass."""


@dataclass(frozen=True, kw_only=True)
class Verified:
    """An answer, its round trips and its score."""

    sample: Sample
    trips: RoundTrips | None  # None: another scorer made none
    score: Score


def _no_stop(draft: Draft) -> bool:
    return False


def block_row(draft: Draft) -> BatchRow:
    """Return the row that writes the next block of an answer."""
    how = draft.block_settings
    return BatchRow("block", ("block", how), draft.num_columns, how.steps, draft, advance)


def trip_row(trip: TripInput, settings: ConsistencySettings) -> BatchRow:
    """Return the row of one round trip of an answer."""
    # Only stratified masks depend on how many trips there are.
    stratified = settings.mask_design == "stratified"
    group = "trip", settings if stratified else replace(settings, trips=1)
    run = partial(mask_and_rebuild, settings=settings)
    return BatchRow("trip", group, _columns(trip.sample), settings.rebuild_steps, trip, run)


def measure_row(scorer: Consistency, kind: str, trips: RoundTrips) -> BatchRow:
    """Return the row of an answer's metrics: the texts of many are encoded together.

    `kind` is that of the answers that the scorer reads: others may not share its batch.
    """
    group = "measure", kind, scorer.metric_set
    num_texts = len(trips.texts)
    return BatchRow("measure", group, 0, num_texts, trips, lambda _, batch: scorer.measure(batch))


def score_row(scorer: Scorer, sample: Sample) -> BatchRow:
    """Return the row of an answer that a scorer without round trips scores.

    Answers of other requests cannot share its batch: the scorer may know one question only.
    """
    # The number of passes is unknown; the batcher measures the pace of each scorer.
    return BatchRow(
        scorer.name,
        ("score", id(scorer)),
        _columns(sample),
        1,
        sample,
        lambda _, batch: scores_of(scorer, batch),
    )


def _columns(answer: Sample | Draft) -> int:
    return len(answer.prompt) + len(answer.canvas)


def draw_needs(drafts: Sequence[Draft]) -> list[Need]:
    """Return the cost of writing all blocks; answers that end early need less."""
    return [("block", sum(_columns(draft) * draft.settings.steps for draft in drafts))]


def verify_needs(answers: Sequence[Sample | Draft], scorer: Scorer) -> list[Need]:
    """Return the cost of verifying answers."""
    columns = sum(map(_columns, answers))
    if not isinstance(scorer, Consistency):
        return [(scorer.name, columns)]
    how = scorer.settings
    trips, texts = how.trips * how.rebuild_steps * columns, how.trips * len(answers)
    return [("trip", trips), ("measure", texts)]


def draw(
    denoiser: Denoiser, drafts: Sequence[Draft], emit: Emit, ends: Ends = _no_stop
) -> Program[list[Sample]]:
    """Return the samples that drafts become; every finished block is an event, with its draft.

    A draft of which `ends` holds is not written further: blocks that are written do not change.
    """
    drafts = list(drafts)
    while unfinished := [i for i, draft in enumerate(drafts) if not draft.ended]:
        grown = yield [block_row(drafts[i]) for i in unfinished]
        for i, draft in zip(unfinished, grown, strict=True):
            drafts[i] = draft if draft.ended or not ends(draft) else replace(draft, ended=True)
            emit("block", drafts[i])
    return [finished(denoiser, draft) for draft in drafts]


def verify(samples: Sequence[Sample], scorer: Scorer, kind: str) -> Program[list[Verified]]:
    """Return the samples with their scores."""
    if not isinstance(scorer, Consistency):
        scores = yield [score_row(scorer, sample) for sample in samples]
        return [
            Verified(sample=sample, trips=None, score=score)
            for sample, score in zip(samples, scores, strict=True)
        ]
    settings, seed = scorer.settings, scorer.seed
    size = settings.trips
    done = yield [
        trip_row(TripInput(sample, n, seed), settings) for sample in samples for n in range(size)
    ]
    trips = [
        collect(scorer.denoiser, sample, done[i * size : (i + 1) * size])
        for i, sample in enumerate(samples)
    ]
    scores = yield [measure_row(scorer, kind, t) for t in trips]
    return [
        Verified(sample=s, trips=t, score=score)
        for s, t, score in zip(samples, trips, scores, strict=True)
    ]


def draw_and_verify(
    denoiser: Denoiser,
    drafts: Sequence[Draft],
    scorer: Scorer,
    kind: str,
    emit: Emit,
    ends: Ends = _no_stop,
) -> Program[list[Verified]]:
    """Return the samples that drafts become, with their scores."""
    samples = yield from draw(denoiser, drafts, emit, ends)
    return (yield from verify(samples, scorer, kind))


def solve(
    denoiser: Denoiser,
    first: Draft,
    scorer: Scorer,
    kind: str,
    *,
    threshold: float,
    budget: int,
    emit: Emit,
) -> Program[tuple[Decision, list[Verified]]]:
    """Return the decision of Algorithm 1 and its attempts; each is an event, and verified another.

    `first` is the draft of sample 0; further samples start as copies of it with their own number.
    When it is out of time, the decision is the best attempt so far. An answer that was written but
    not verified has no score and counts only if there is no other.
    """
    attempts: list[Verified] = []
    algorithm = rejection([first.item], threshold=threshold, budget=budget)
    needed, sample = next(algorithm), None
    try:
        while True:
            draft = replace(first, number=needed.number)
            (sample,) = yield from draw(denoiser, [draft], emit)
            emit("attempt", sample)
            (verified,) = yield from verify([sample], scorer, kind)
            emit("verification", verified)
            attempts.append(verified)
            try:
                needed = algorithm.send([(sample, verified.score)])
            except StopIteration as end:
                return end.value[0], attempts
    except OutOfTime:
        if not attempts and sample is not None:
            score = Score(value=None, reason="the time limit came first", scorer=scorer.name)
            attempts = [Verified(sample=sample, trips=None, score=score)]
            emit("verification", attempts[0])
        if not attempts:
            raise
    return _best(attempts, threshold, budget), attempts


def _best(attempts: Sequence[Verified], threshold: float, budget: int) -> Decision:
    """Return the decision among fewer attempts than the budget, none of which was accepted."""
    item, num = attempts[0].sample.item, len(attempts)
    (decision,) = decide(
        lambda needed: [(attempts[needed.number].sample, attempts[needed.number].score)],
        [item],
        threshold=threshold,
        budget=num,
    )
    reason = f"the time limit ended the search after {num} of {budget} samples"
    return replace(decision, reason=f"{reason}: the best is returned")
