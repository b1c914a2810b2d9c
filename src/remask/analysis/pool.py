"""Records -> pools: the samples of one problem, and what each method would say of them.

All methods look at one pool per problem; its sample 0 is the "standard" answer, the one that
diagnosis judges. Everything is read from the records that `collect` wrote, so a study needs
neither the model nor torch.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from remask.collect.settings import EXTRA_METRICS
from remask.decide import columns
from remask.errors import RecordError
from remask.tasks import KNOWN
from remask.tasks import task as find_task

Row = columns.Row  # one sample, as `collect` records it
Pool = Sequence[Row]  # the samples of one problem, sample 0 first


def answered(rows: Iterable[Row]) -> list[Row]:
    """Return the answers among some rows; the others are problems that could not be asked."""
    return [row for row in rows if "error" not in row]


def is_scored(row: Row) -> bool:
    """Say whether a sample was verified by round trips."""
    return "verify_forwards" in row


def pools(rows: Iterable[Row]) -> list[Pool]:
    """Return the samples of each problem, in the order of the problems and of their numbers."""
    by_problem: dict[str, dict[int, Row]] = {}
    for row in rows:
        pool = by_problem.setdefault(row["id"], {})
        if row["number"] in pool:
            raise RecordError(f"sample {row['number']} of {row['id']} is recorded twice.")
        pool[row["number"]] = row
    for problem, pool in by_problem.items():
        if sorted(pool) != list(range(len(pool))):
            raise RecordError(
                f"the pool of {problem} has samples {sorted(pool)}: some are missing."
            )
    return [[pool[number] for number in sorted(pool)] for pool in by_problem.values()]


def pool_size(pooled: Sequence[Pool]) -> int:
    """Return how many samples every pool has, that is, the smallest has."""
    return min((len(pool) for pool in pooled), default=0)


def composite_metrics(row: Row) -> tuple[str, ...]:
    """Return the metrics of a row's composite: its task's, without those not measured.

    A task from outside need not be there when its records are studied: all but the extra ones.
    """
    measured = row.get("by_trip", {})
    if row["task"] not in KNOWN:
        return tuple(name for name in measured if name not in EXTRA_METRICS)
    return tuple(name for name in find_task(row["task"]).metrics if name in measured)


def score_of(row: Row, trips: int | None = None) -> float | None:
    """Return the score of the first `trips` round trips: uniform weights over what is present.

    None where the row has no round trips, or none of the metrics a value.
    """
    values = [columns.trip_mean(row, name, trips) for name in composite_metrics(row)]
    present = [value for value in values if value is not None]
    return fmean(present) if present else None


def weakest(row: Row) -> float | None:
    """Return how often the token that was lost most came back; None where no drift is recorded.

    One wrong token among seventy hardly moves a mean over all of them; here it is all that counts.
    """
    known = [drift for drift in row.get("drift", ()) if drift is not None]
    return 1 - max(known) if known else None


def num_trips(row: Row) -> int:
    """Return how many round trips a row records."""
    return max((len(values) for values in row.get("by_trip", {}).values()), default=0)


def verify_forwards(row: Row, trips: int | None = None) -> float:
    """Return what verifying a sample cost, or would have cost with fewer trips."""
    spent = float(row.get("verify_forwards", 0))
    made = num_trips(row)
    return spent if trips is None or made == 0 else spent * min(trips, made) / made


def key_of(row: Row) -> str | None:
    """Return what a row's answer is compared by: its key, or the answer where it has none.

    Tasks that compare by spelling record no key, nor did any before keys were.
    """
    key: str | None = row["key"] if "key" in row else row["answer"]
    return key


def counts(pool: Pool) -> Counter[str]:
    """Return how often each answer occurs; one that cannot be read is no vote."""
    return Counter(key for row in pool if (key := key_of(row)) is not None)


def others_right(pool: Pool) -> float:
    """Return the share of right answers among the samples but the first, which is judged."""
    return fmean(row["right"] for row in pool[1:])


def vote(pool: Pool) -> float:
    """Return the share of the majority answer."""
    return max(counts(pool).values(), default=0) / len(pool)


def agreement(pool: Pool) -> float:
    """Return the share of the pool that says what sample 0 says; 0 where that says nothing."""
    own = key_of(pool[0])
    return 0.0 if own is None else counts(pool)[own] / len(pool)


def baseline_forwards(row: Row, name: str) -> float:
    """Return what a baseline cost beyond the answer itself: 0 for what stands in the sample."""
    return float(row.get("baselines", {}).get(name, {}).get("forwards", 0))


# Baselines, as the answer's record has them; the last two only where they were asked for.
RECORDED = ("confidence", "confidence_canvas", "self_evaluation", "editor")
BY_POOL = {"vote": vote, "agreement": agreement}  # and those that look at all samples
