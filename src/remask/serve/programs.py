"""A request as rows of work: generators that yield the rows they need and are sent the results.

    drawing      one block of each answer that is not finished, until all are
    verifying    one round trip after another, all at once; then the metrics
    solving      both, until an answer is accepted or the budget is spent

A row says which others it may share a batch with (`group`) and how much of one it takes
(`columns`). Work knows neither threads nor HTTP; whoever drives it runs rows, in whatever company,
and may stop at any yield. `tell` hears what is worth telling on the way.
"""

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from remask.consistency.cycle import TripInput, TripOutput, collect, mask_and_rebuild
from remask.consistency.estimator import Consistency
from remask.consistency.settings import ConsistencySettings
from remask.decide.rejection import reject
from remask.denoisers.base import Denoiser
from remask.sampling.drafts import Draft, advance, finished
from remask.values import Decision, RoundTrips, Sample, Score

Tell = Callable[[str, Any], None]
_Result = TypeVar("_Result")


class Row(Protocol):
    """What goes through the model at once, as one row of a batch."""

    @property
    def kind(self) -> str:
        """Name in the meters."""
        ...

    @property
    def group(self) -> Hashable:
        """Rows of one group may share a batch."""
        ...

    @property
    def columns(self) -> int:
        """Tokens that it takes in a batch; 0 where it needs no model."""
        ...

    def run(self, denoiser: Denoiser, rows: Sequence[Any]) -> list[Any]:
        """Return one result for each of `rows`, all of this row's group."""
        ...


Work = Generator[Sequence[Row], list[Any], _Result]


@dataclass(frozen=True, eq=False)
class BlockRow:
    """The next block of an answer."""

    draft: Draft
    kind = "block"

    @property
    def group(self) -> Hashable:
        return "block", self.draft.block_settings

    @property
    def columns(self) -> int:
        return self.draft.num_columns

    def run(self, denoiser: Denoiser, rows: "Sequence[BlockRow]") -> list[Draft]:
        """Return the drafts with one more block each."""
        return advance(denoiser, [row.draft for row in rows])


@dataclass(frozen=True, eq=False)
class TripRow:
    """One round trip of an answer."""

    departure: TripInput
    settings: ConsistencySettings
    kind = "trip"

    @property
    def group(self) -> Hashable:
        # Only stratified masks look at how many trips there are.
        alike = self.settings.mask_design == "stratified"
        return "trip", self.settings if alike else replace(self.settings, trips=1)

    @property
    def columns(self) -> int:
        return len(self.departure.sample.prompt) + len(self.departure.sample.canvas)

    def run(self, denoiser: Denoiser, rows: "Sequence[TripRow]") -> list[TripOutput]:
        """Return the trips."""
        return mask_and_rebuild(denoiser, [row.departure for row in rows], self.settings)


@dataclass(frozen=True, eq=False)
class MeasureRow:
    """The metrics of one answer: texts of many are encoded together."""

    scorer: Consistency
    reads: str  # which kind of answer the scorer reads
    trips: RoundTrips
    kind = "measure"
    columns = 0

    @property
    def group(self) -> Hashable:
        return "measure", self.reads, self.scorer.metric_set

    def run(self, denoiser: Denoiser, rows: "Sequence[MeasureRow]") -> list[Score]:
        """Return the scores."""
        return self.scorer.measure([row.trips for row in rows])


@dataclass(frozen=True, kw_only=True)
class Verified:
    """An answer, its round trips and its score."""

    sample: Sample
    trips: RoundTrips
    score: Score


@dataclass(frozen=True, kw_only=True, eq=False)
class Check:
    """How answers are verified: the scorer, and the seed of its draws."""

    scorer: Consistency
    reads: str
    seed: int


def drawing(denoiser: Denoiser, drafts: Sequence[Draft], tell: Tell) -> Work[list[Sample]]:
    """Return the samples that drafts become; every finished block is told, as its draft."""
    drafts = list(drafts)
    while under_way := [i for i, draft in enumerate(drafts) if not draft.ended]:
        grown = yield [BlockRow(drafts[i]) for i in under_way]
        for i, draft in zip(under_way, grown, strict=True):
            drafts[i] = draft
            tell("block", draft)
    return [finished(denoiser, draft) for draft in drafts]


def verifying(denoiser: Denoiser, samples: Sequence[Sample], check: Check) -> Work[list[Verified]]:
    """Return the samples with their scores."""
    settings = check.scorer.settings
    size = settings.trips
    done = yield [
        TripRow(TripInput(sample, n, check.seed), settings)
        for sample in samples
        for n in range(size)
    ]
    trips = [
        collect(denoiser, sample, done[i * size : (i + 1) * size])
        for i, sample in enumerate(samples)
    ]
    scores = yield [MeasureRow(check.scorer, check.reads, t) for t in trips]
    return [
        Verified(sample=s, trips=t, score=score)
        for s, t, score in zip(samples, trips, scores, strict=True)
    ]


def answering(
    denoiser: Denoiser, drafts: Sequence[Draft], check: Check | None, tell: Tell
) -> Work[list[Sample] | list[Verified]]:
    """Return samples, verified where there is a check."""
    samples = yield from drawing(denoiser, drafts, tell)
    if check is None:
        return samples
    return (yield from verifying(denoiser, samples, check))


def solving(
    denoiser: Denoiser,
    first: Draft,
    check: Check,
    *,
    threshold: float,
    budget: int,
    tell: Tell,
) -> Work[tuple[Decision, list[Verified]]]:
    """Return what rejection sampling decides; every attempt is told, and its verification."""
    attempts: list[Verified] = []
    while len(attempts) < budget:
        draft = replace(first, number=len(attempts))
        (sample,) = yield from drawing(denoiser, [draft], tell)
        tell("attempt", sample)
        (verified,) = yield from verifying(denoiser, [sample], check)
        tell("verification", verified)
        attempts.append(verified)
        if verified.score.value is not None and verified.score.value > threshold:
            break
    return _decided(first.item, attempts, threshold, budget), attempts


def _decided(item: str, attempts: Sequence[Verified], threshold: float, budget: int) -> Decision:
    """Return the decision on attempts that were made: the rule itself is `reject`'s."""
    replay = _Replay([verified.score for verified in attempts])
    (decision,) = reject(
        lambda items, number: [attempts[number].sample],
        replay,
        [item],
        threshold=threshold,
        budget=budget,
    )
    return decision


@dataclass(frozen=True)
class _Replay:
    """A scorer that knows the scores already."""

    scores: Sequence[Score]
    name: str = "replay"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        return [self.scores[sample.number] for sample in samples]
