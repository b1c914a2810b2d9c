"""Methods that are made of the others: fitted on validation answers, or cut to the same cost."""

from collections.abc import Callable, Iterable, Sequence
from math import ceil
from statistics import fmean

from remask.analysis.ablation import optimized
from remask.analysis.load_records import StudyRecords
from remask.analysis.methods import CONSISTENCY, ROUNDTRIPS, Method, recorded
from remask.analysis.pool import (
    BY_POOL,
    RECORDED,
    Pool,
    agreement,
    baseline_forwards,
    pool_size,
    pools,
)
from remask.decide.columns import Column, metric_columns
from remask.decide.provenance import Provenance
from remask.decide.weights import combine, fit_weights


def fitted_methods(study: StudyRecords, pooled: Sequence[Pool]) -> list[Method]:
    """Return optimized weights, combined baselines and cheaper agreement, where there are any."""
    made = (_optimized(study, pooled), _baselines(study, pooled), _same_cost(pooled))
    return [method for method in made if method is not None]


def _optimized(study: StudyRecords, pooled: Sequence[Pool]) -> Method | None:
    """Return the round trips with weights that the validation answers chose; None without any."""
    first = [pool[0] for pool in pooled]
    weights = optimized(study.validation, [first])
    if weights is None:
        return None
    scores = combine(metric_columns(first, list(weights.values)), weights.values)
    return _scored("optimized", pooled, scores, ROUNDTRIPS.forwards)


def _baselines(study: StudyRecords, pooled: Sequence[Pool]) -> Method | None:
    """Return the combination of baselines that the validation answers chose; None without any."""
    given = pools(study.validation_pools)
    right = [bool(pool[0].right) for pool in given]
    names = _present(given) & _present(pooled) if given and pooled else set()
    if len(set(right)) < 2 or not names:
        return None
    provenance = Provenance(
        metric_set="records", metrics=tuple(sorted(names)), task=study.task, model="as recorded",
        split="validation", seed=0, version="", date="",
    )  # fmt: skip
    weights = fit_weights(_columns(given, names), right, provenance).values
    used = [name for name in names if weights.get(name)]
    drawn = CONSISTENCY[0].forwards if set(used) & set(BY_POOL) else recorded("confidence").forwards

    def spent(pool: Pool) -> float:
        return drawn(pool) + sum(baseline_forwards(pool[0], name) for name in used)

    return _scored("baselines", pooled, combine(_columns(pooled, names), weights), spent)


def _same_cost(pooled: Sequence[Pool]) -> Method | None:
    """Return the agreement of as many samples as cost no less than the round trips of one.

    None where that is all samples or more, or where round trips cost nothing.
    """
    if not pooled:
        return None
    one = fmean(pool[0].forwards for pool in pooled)
    size = ceil(fmean(ROUNDTRIPS.forwards(pool) for pool in pooled) / one) if one else 0
    if not 2 <= size < pool_size(pooled):
        return None
    return Method(
        name="agreement_same_cost",
        score=lambda pool: agreement(pool[:size]),
        forwards=lambda pool: float(sum(row.forwards for row in pool[:size])),
    )


def _present(pooled: Sequence[Pool]) -> set[str]:
    """Return the baselines that these pools have."""
    known = {n for n in RECORDED if any(p[0].scores.get(n) is not None for p in pooled)}
    return known | (set(BY_POOL) if pool_size(pooled) > 1 else set())


def _columns(pooled: Sequence[Pool], names: Iterable[str]) -> dict[str, list[float | None]]:
    return {
        name: [
            BY_POOL[name](pool) if name in BY_POOL else pool[0].scores.get(name) for pool in pooled
        ]
        for name in sorted(names)
    }


def _scored(
    name: str, pooled: Sequence[Pool], scores: Column, spent: Callable[[Pool], float]
) -> Method:
    by_question = {pool[0].id: value for pool, value in zip(pooled, scores, strict=True)}
    return Method(name=name, score=lambda pool: by_question[pool[0].id], forwards=spent)
