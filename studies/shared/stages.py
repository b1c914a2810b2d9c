"""The sequential verifier on the frontier: stages in order of price, fitted as the others are.

Its full form runs every stage for every answer; what stopping early costs is the difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from remask.analysis.pool import Pool
from remask.decide.columns import Floats
from remask.decide.logistic import read_columns
from remask.decide.stages import (
    OPEN,
    Stage,
    StagedVerifier,
    fit_stages,
    prices_of,
    settled_at,
)
from remask.verifier.columns import LABEL_FREE, LABEL_FREE_PROBES, value_of
from studies.shared.fits import (
    DRAWS,
    ROUNDTRIPS,
    WRITTEN,
    Recipe,
    base_columns,
    feature_columns,
    features_of,
    label_draws,
    provenance_of,
    recipe_price,
    take,
    unread,
)
from studies.shared.methods import MethodScores

SEQUENTIAL, FULL = "sequential", "sequential_full"
STAGES = (  # 1, 16 and 64 forwards
    (*WRITTEN, *LABEL_FREE_PROBES[:1]),
    LABEL_FREE_PROBES[1:],
    (ROUNDTRIPS,),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class StagedFits:
    """The sequential verifier of one set, one for each draw of labels."""

    stages: tuple[Recipe, ...]
    names: tuple[str, ...]  # of the features of all stages
    fits: tuple[StagedVerifier, ...]
    labelled: Sequence[Sequence[int]]  # the validation problems that each of them was made on
    name: str = SEQUENTIAL  # or its full form
    budget: float | None = None  # most forwards per answer

    def fits_pools(self, pooled: Sequence[Pool]) -> bool:
        """Say whether these pools have every feature that the fits look at."""
        known = {name for recipe in self.stages for name in features_of(recipe, pooled)}
        return set(self.names) <= known

    def score(self, pooled: Sequence[Pool]) -> MethodScores:
        """Return the probabilities of the first samples of these pools, and what they cost."""
        bases = dict.fromkeys(name for recipe in self.stages for name in recipe.base)
        columns = {**feature_columns(self.names, pooled), **base_columns(list(bases), pooled)}
        table = read_columns(columns, list(columns))
        prices = self._prices(pooled)
        chances, extra = zip(*(self._run(fit, table, prices) for fit in self.fits), strict=True)
        scores = np.array(chances)  # (K, n)
        scores[:, unread(self.names, pooled)] = -np.inf
        return MethodScores(name=self.name, scores=scores, extra=np.array(extra))

    def _prices(self, pooled: Sequence[Pool]) -> Floats:
        """Return what the first samples had cost after each stage, (S, n)."""
        stages = [(recipe, features_of(recipe, pooled)) for recipe in self.stages]
        spent = [[recipe_price(recipe, own, pool) for pool in pooled] for recipe, own in stages]
        return np.cumsum(np.array(spent), axis=0)

    def _run(
        self, fit: StagedVerifier, table: Mapping[str, Floats], prices: Floats
    ) -> tuple[Floats, Floats]:
        """Return the probabilities and costs of one fit, (n,) each."""
        stages = fit.stages[: self._num_stages(fit)]
        chances = np.array([stage.regression.chances(table) for stage in stages])  # (S, n)
        limits = [OPEN if self.name == FULL else (stage.low, stage.high) for stage in stages]
        at = settled_at(chances, limits)
        everyone = np.arange(len(at))
        return chances[at, everyone], prices[at, everyone]

    def _num_stages(self, fit: StagedVerifier) -> int:
        """Return how many stages are paid for; with too few labels, those of the plain mean."""
        budget = np.inf if self.budget is None else self.budget
        num = int((prices_of(fit.stages) <= budget).sum())
        if not fit.reason:
            return num
        bases = [recipe.base for recipe in self.stages]
        return min(num, 1 + max(k for k, base in enumerate(bases) if base not in bases[:k]))


def fit_sequential(
    name: str, pooled: Sequence[Pool], labels: int, draws: int = DRAWS
) -> list[StagedFits]:
    """Return the sequential verifier of a set's validation pools and its full form.

    Stages without features in these records are left out; nothing is returned where none is left.
    """
    chosen = label_draws(len(pooled), name, labels, draws)
    stages = tuple(recipe for recipe in _stages(pooled) if features_of(recipe, pooled))
    if not chosen or not stages:
        return []
    right = np.array([pool[0].right for pool in pooled])
    own = [_stage(recipe, pooled) for recipe in stages]
    names = [name for stage in own for name in stage.columns]
    bases = dict.fromkeys(name for stage in own for name in stage.base)
    provenance = provenance_of(pooled[0][0], (*names, *bases))
    fits = tuple(
        fit_stages([_rows(stage, rows) for stage in own], right[rows], provenance)
        for rows in chosen
    )
    sequential = StagedFits(stages=stages, names=tuple(names), fits=fits, labelled=chosen)
    return [sequential, replace(sequential, name=FULL)]


def _stages(pooled: Sequence[Pool]) -> list[Recipe]:
    """Return what each stage adds, and the mean it is drawn towards: of all probes so far."""
    groups: list[str] = []
    stages = []
    for added in STAGES:
        groups += added
        base = tuple(name for name in LABEL_FREE if name in groups and _is_known(name, pooled))
        if base:
            stages.append(Recipe(name="+".join(added), groups=added, base=base))
    return stages


def _is_known(name: str, pooled: Sequence[Pool]) -> bool:
    return any(value_of(name, pool[0].features) is not None for pool in pooled)


def _stage(recipe: Recipe, pooled: Sequence[Pool]) -> Stage:
    names = features_of(recipe, pooled)
    return Stage(
        name=recipe.name,
        forwards=fmean(recipe_price(recipe, names, pool) for pool in pooled),
        columns=feature_columns(names, pooled),
        base=base_columns(recipe.base, pooled),
    )


def _rows(stage: Stage, rows: Sequence[int]) -> Stage:
    """Return a stage with the labelled answers alone."""
    return stage._replace(columns=take(stage.columns, rows), base=take(stage.base, rows))
