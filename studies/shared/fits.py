"""Fitted methods on the frontier: fitted on validation answers, judged on test answers.

A method is the features it may look at and the values whose plain mean it is drawn towards. Each is
fitted on `labels` answers, drawn anew `DRAWS` times: with other answers to label, another fit. All
methods are fitted on the same answers, and fewer labels are the first of more.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from remask.analysis.pool import Pool, agreement, composite_metrics, verify_forwards
from remask.decide.columns import Column, Flags, trip_mean
from remask.decide.logistic import Regression, fit_regression, read_columns
from remask.decide.provenance import Provenance
from remask.records.record import Record
from remask.verifier.columns import LABEL_FREE, LABEL_FREE_PROBES, value_of
from studies.shared.methods import MethodScores, price

LABELS = (50, 100, 200, 400)
USUAL = 200  # labels of the figures that name no number
DRAWS = 20
WRITTEN = ("generation", "length", "critical_count")  # cost nothing
ROUNDTRIPS, AGREEMENT, POOL_SIZE = "roundtrips", "agreement10", 10
COMPUTED = (ROUNDTRIPS, AGREEMENT)  # of the record or the pool, and no features there


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a fitted method looks at."""

    name: str
    groups: tuple[str, ...]  # a feature's name, or what stands before its point
    base: tuple[str, ...]  # values in 0..1, whose plain mean the fit is drawn towards


RECIPES = (
    Recipe(name="fitted20", groups=(*WRITTEN, *LABEL_FREE_PROBES), base=LABEL_FREE),  # 17 forwards
    Recipe(
        name="fitted85",  # 64 more
        groups=(*WRITTEN, *LABEL_FREE_PROBES, ROUNDTRIPS),
        base=(*LABEL_FREE, ROUNDTRIPS),
    ),
    Recipe(
        name="agreement10_fitted",
        groups=(AGREEMENT, "generation", "length"),
        base=(AGREEMENT,),
    ),
)


def label_draws(num: int, name: str, labels: int, draws: int = DRAWS) -> list[list[int]]:
    """Return which of a set's validation answers are labelled in each draw; none where too few."""
    if labels > num:
        return []
    generator = np.random.default_rng([1, zlib.crc32(name.encode())])
    return [generator.permutation(num)[:labels].tolist() for _ in range(draws)]


def features_of(recipe: Recipe, pooled: Sequence[Pool]) -> list[str]:
    """Return the names of what a recipe looks at, as far as these pools have it."""
    names = dict.fromkeys(name for pool in pooled for name in pool[0].features)
    listed = [n for n in names if n.split(".")[0] in recipe.groups and not n.endswith(".forwards")]
    if AGREEMENT in recipe.groups and all(len(pool) >= POOL_SIZE for pool in pooled):
        listed.append(AGREEMENT)
    if ROUNDTRIPS in recipe.groups:
        metrics = dict.fromkeys(m for pool in pooled for m in composite_metrics(pool[0]))
        listed += [f"{ROUNDTRIPS}.{metric}" for metric in metrics]
    return sorted(listed)


def feature_columns(names: Sequence[str], pooled: Sequence[Pool]) -> dict[str, Column]:
    """Return a column per feature, with a value for the first sample of each pool."""
    return {name: [_value(pool, name) for pool in pooled] for name in names}


def base_columns(names: Sequence[str], pooled: Sequence[Pool]) -> dict[str, Column]:
    """Return the columns, in 0..1, whose plain mean a fit is drawn towards."""
    return {f"base.{name}": [_base(pool, name) for pool in pooled] for name in names}


@dataclass(frozen=True, kw_only=True, eq=False)
class SetFits:
    """The fits of one recipe on one set, one for each draw of labels."""

    recipe: Recipe
    names: tuple[str, ...]  # of the features
    fits: tuple[Regression, ...]

    @property
    def name(self) -> str:
        """The method's name."""
        return self.recipe.name

    def fits_pools(self, pooled: Sequence[Pool]) -> bool:
        """Say whether these pools have every feature that the fits look at."""
        return set(self.names) <= set(features_of(self.recipe, pooled))

    def score(self, pooled: Sequence[Pool]) -> MethodScores:
        """Return the probabilities of the first samples of these pools, and their cost."""
        columns = all_columns(self.recipe, self.names, pooled)
        table = read_columns(columns, list(columns))
        extra = [recipe_price(self.recipe, self.names, pool) for pool in pooled]
        scores = np.array([fit.chances(table) for fit in self.fits])
        scores[:, unread(self.names, pooled)] = -np.inf
        return MethodScores(
            name=self.name,
            scores=scores,
            extra=np.broadcast_to(np.array(extra, np.float64), scores.shape),
        )


def fit_set(
    recipe: Recipe, name: str, pooled: Sequence[Pool], labels: int, draws: int = DRAWS
) -> SetFits | None:
    """Return the fits of a recipe on a set's validation pools; None where it lacks what they need.

    Fewer than 5 answers of either kind leave the base as it is, which `decide.logistic` says.
    """
    chosen = label_draws(len(pooled), name, labels, draws)
    names = features_of(recipe, pooled)
    known = tuple(
        name for name in recipe.base if any(_base(pool, name) is not None for pool in pooled)
    )
    base = base_columns(known, pooled)
    lacks = AGREEMENT in recipe.groups and AGREEMENT not in names
    if lacks or not chosen or not names or not known:
        return None
    columns = feature_columns(names, pooled)
    right = np.array([pool[0].right for pool in pooled])
    fit = partial(_fit, columns, base, right)
    recipe = replace(recipe, base=known)  # a choice has no halves
    return SetFits(recipe=recipe, names=tuple(names), fits=tuple(fit(rows) for rows in chosen))


def unread(names: Sequence[str], pooled: Sequence[Pool]) -> Flags:
    """Say which first samples have no features at all, where these names are of some, (n,)."""
    needed = any(name.split(".")[0] not in COMPUTED for name in names)
    return np.array([needed and not pool[0].features for pool in pooled], bool)


def all_columns(recipe: Recipe, names: Sequence[str], pooled: Sequence[Pool]) -> dict[str, Column]:
    """Return the features and the base of a recipe."""
    return {**feature_columns(names, pooled), **base_columns(recipe.base, pooled)}


def recipe_price(recipe: Recipe, names: Sequence[str], pool: Pool) -> float:
    """Return what these features cost beyond the first sample."""
    spent = price(pool[0], [name for name in names if name.split(".")[0] not in COMPUTED])
    if ROUNDTRIPS in recipe.groups:
        spent += verify_forwards(pool[0])
    if AGREEMENT in recipe.groups:
        spent += sum(row.forwards for row in pool[1:POOL_SIZE])
    return spent


def take(columns: Mapping[str, Column], rows: Sequence[int]) -> dict[str, Column]:
    """Return some rows of columns."""
    return {name: [column[row] for row in rows] for name, column in columns.items()}


def _fit(
    columns: Mapping[str, Column],
    base: Mapping[str, Column],
    right: Flags,
    rows: Sequence[int],
) -> Regression:
    return fit_regression(take(columns, rows), take(base, rows), right[list(rows)], 0).regression


def provenance_of(row: Record, names: Sequence[str]) -> Provenance:
    """Return where a fit comes from, which the study does not keep."""
    return Provenance(
        metric_set="records", metrics=tuple(names), task=row.task, model="as recorded",
        split="validation", seed=0, version="", date="",
    )  # fmt: skip


def _value(pool: Pool, name: str) -> float | None:
    if name == AGREEMENT:
        return agreement(pool[:POOL_SIZE])
    source, _, metric = name.partition(".")
    if source == ROUNDTRIPS:
        return trip_mean(pool[0], metric)
    return pool[0].features.get(name)


def _base(pool: Pool, name: str) -> float | None:
    if name == AGREEMENT:
        return agreement(pool[:POOL_SIZE])
    if name == ROUNDTRIPS:
        return pool[0].scores.get(ROUNDTRIPS)
    return value_of(name, pool[0].features)
