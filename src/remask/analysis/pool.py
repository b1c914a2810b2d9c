"""Records -> pools: the samples of one problem, and what each method would say of them.

All methods look at one pool per problem; its sample 0 is the "standard" answer, the one that
diagnosis judges. Everything is read from the records that `collect` wrote, so a study needs
neither the model nor torch.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from remask.collect.settings import EXTRA_METRICS, OPTIONAL_BASELINES
from remask.decide import columns
from remask.errors import RecordError
from remask.records.record import Record
from remask.tasks import KNOWN
from remask.tasks import task as find_task

Pool = Sequence[Record]  # the samples of one problem, sample 0 first


def is_scored(row: Record) -> bool:
    """Say whether a sample was verified by round trips."""
    return row.verify_forwards is not None


def pools(rows: Iterable[Record]) -> list[Pool]:
    """Return the samples of each problem, in the order of the problems and of their numbers."""
    by_problem: dict[str, dict[int, Record]] = {}
    for row in rows:
        pool = by_problem.setdefault(row.id, {})
        if row.number in pool:
            raise RecordError(f"sample {row.number} of {row.id} is recorded twice.")
        pool[row.number] = row
    for problem, pool in by_problem.items():
        if sorted(pool) != list(range(len(pool))):
            raise RecordError(
                f"the pool of {problem} has samples {sorted(pool)}: some are missing."
            )
    return [[pool[number] for number in sorted(pool)] for pool in by_problem.values()]


def pool_size(pooled: Sequence[Pool]) -> int:
    """Return how many samples every pool has, that is, the smallest has."""
    return min((len(pool) for pool in pooled), default=0)


def composite_metrics(row: Record) -> tuple[str, ...]:
    """Return the metrics of a row's composite: its task's, without those not measured.

    A task from outside need not be there when its records are studied: all but the extra ones.
    """
    if row.task not in KNOWN:
        return tuple(name for name in row.by_trip if name not in EXTRA_METRICS)
    return tuple(name for name in find_task(row.task).metrics if name in row.by_trip)


def score_of(row: Record, trips: int | None = None) -> float | None:
    """Return the score of the first `trips` round trips: uniform weights over what is present.

    None where the row has no round trips, or none of the metrics a value.
    """
    values = [columns.trip_mean(row, name, trips) for name in composite_metrics(row)]
    present = [value for value in values if value is not None]
    return fmean(present) if present else None


def weakest(row: Record) -> float | None:
    """Return how often the token that was lost most came back; None where no drift is recorded.

    One wrong token among seventy hardly moves a mean over all of them; here it is all that counts.
    """
    known = [drift for drift in row.drift if drift is not None]
    return 1 - max(known) if known else None


def num_trips(row: Record) -> int:
    """Return how many round trips a row records."""
    return max((len(values) for values in row.by_trip.values()), default=0)


def verify_forwards(row: Record, trips: int | None = None) -> float:
    """Return what verifying a sample cost, or would have cost with fewer trips."""
    spent = float(row.verify_forwards or 0)
    made = num_trips(row)
    return spent if trips is None or made == 0 else spent * min(trips, made) / made


def vote_counts(pool: Pool) -> Counter[str]:
    """Return how often each answer occurs; one that cannot be read is no vote."""
    return Counter(key for row in pool if (key := row.vote_key) is not None)


def others_right(pool: Pool) -> float:
    """Return the share of right answers among the samples but the first, which is judged."""
    return fmean(row.right for row in pool[1:])


def vote(pool: Pool) -> float:
    """Return the share of the majority answer."""
    return max(vote_counts(pool).values(), default=0) / len(pool)


def agreement(pool: Pool) -> float:
    """Return the share of the pool that says what sample 0 says; 0 where that says nothing."""
    own = pool[0].vote_key
    return 0.0 if own is None else vote_counts(pool)[own] / len(pool)


def baseline_forwards(row: Record, name: str) -> float:
    """Return what a baseline cost beyond the answer itself: 0 for what stands in the sample."""
    return float(row.baselines[name].forwards) if name in row.baselines else 0.0


# Baselines, as the answer's record has them; but for confidence, where they were asked for.
RECORDED = ("confidence", "confidence_canvas", *OPTIONAL_BASELINES)
BY_POOL = {"vote": vote, "agreement": agreement}  # and those that look at all samples
