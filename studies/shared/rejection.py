"""Whole pools on the frontier: ranking within a problem, and rejection sampling by each scorer.

Both look at every sample, so each stands in the first place once. A method that gave a score to the
standard answers alone is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from remask.analysis.bootstrap import Estimate
from remask.analysis.figure import Figure, Place, of_interval
from remask.analysis.pool import Pool
from remask.decide.columns import Flags, Floats
from studies.shared.methods import MethodScores
from studies.shared.replay import (
    ScoredPools,
    best_f1_threshold,
    cheapest_threshold,
    replay,
)
from studies.shared.sets import SECTION, FrontierSet, num_ranked
from studies.shared.within_pool import within_pools

MGRS, MGRS_SET = "mgrs", "wordmath-hard"
MGRS_METHODS = ("roundtrips", "verifier", "sequential")
# Forwards per sample of the sequential verifier: on validation pools round trips as a last stage
# cost more than the samples that they spare (docs/LOG.md).
MGRS_BUDGET = 17
CHEAPEST, BEST_F1 = "the cheapest hardly less accurate", "the best F1"  # how they are chosen
MOST_ABSENT = 0.05  # of the samples, without a score: more were never scored


@dataclass(frozen=True, kw_only=True, eq=False)
class PoolScores:
    """What methods say of every sample of the pools of one set."""

    pooled: Sequence[Pool]
    methods: Mapping[str, MethodScores]  # (K, n x S), see `every_sample`

    @cached_property
    def right(self) -> Flags:
        """Which samples are right, (n, S)."""
        size = num_ranked(self.pooled)
        return np.array([[row.right for row in pool[:size]] for pool in self.pooled], bool)

    @cached_property
    def _written(self) -> Floats:
        """The passes that wrote each sample, (n, S)."""
        size = num_ranked(self.pooled)
        return np.array([[row.forwards for row in pool[:size]] for pool in self.pooled], np.float64)

    def of(self, method: str) -> list[ScoredPools]:
        """Return the pools as each fit of a method scores them; none where it did not."""
        scored = self.methods.get(method)
        if scored is None or scored.absent > MOST_ABSENT * scored.scores.shape[1]:
            return []
        shape = self.right.shape
        return [
            ScoredPools(
                scores=scores.reshape(shape),
                right=self.right,
                forwards=self._written + extra.reshape(shape),
            )
            for scores, extra in zip(scored.scores, scored.extra, strict=True)
        ]


def within_pool(own: FrontierSet, scored: PoolScores) -> dict[str, Estimate]:
    """Return the mean AUROC within the pools that have both kinds, of each method."""
    measured = {}
    for method in scored.methods:
        by_fit = [within_pools(pools.scores, pools.right) for pools in scored.of(method)]
        if by_fit and (mean := own.draws.mean(np.mean(by_fit, axis=0))) is not None:
            measured[method] = mean
    return measured


def choose_thresholds(
    own: FrontierSet,
    whole: PoolScores | None,
    first: Mapping[str, MethodScores],
    labelled: Mapping[str, Sequence[Sequence[int]]],
) -> tuple[dict[str, list[float]], str]:
    """Return a threshold for each fit of each scorer, all by one rule, and the rule.

    Problems that a fit was made on choose nothing for it.

    Args:
        own: the set whose validation answers they are chosen on.
        whole: what the scorers say of every sample of its validation pools.
        first: what they say of the first samples alone.
        labelled: the validation problems that each fit of a fitted scorer was made on.
    """
    every = range(len(own.validation))
    rows = {
        method: [[row for row in every if row not in drawn] for drawn in labelled.get(method, [()])]
        for method in first
    }
    if whole is not None and all(whole.of(method) for method in first):
        pools = {method: zip(whole.of(method), rows[method], strict=True) for method in first}
        cheapest = {
            method: [cheapest_threshold(each.take(own_rows)) for each, own_rows in pairs]
            for method, pairs in pools.items()
        }
        return cheapest, CHEAPEST
    right = np.array([pool[0].right for pool in own.validation], bool)
    best = {
        method: [
            best_f1_threshold(scores[own_rows], right[own_rows])
            for scores, own_rows in zip(each.scores, rows[method], strict=True)
        ]
        for method, each in first.items()
    }
    return best, BEST_F1


def mgrs_figures(
    own: FrontierSet, test: PoolScores, thresholds: Mapping[str, Sequence[float]], rule: str
) -> list[Figure]:
    """Return what rejection sampling reaches by each scorer, and how far from round trips."""
    place: Place = {"section": SECTION, "study": MGRS}
    reached: dict[str, dict[str, Estimate]] = {}
    figures = []
    for method, limits in thresholds.items():
        numbers = _reached(own, test.of(method), limits)
        if numbers:
            reached[method] = numbers
            figures += _figures({**place, "method": method}, numbers)
            fields = {**place, "method": method, "measure": "threshold", "detail": rule}
            figures.append(Figure(**fields, value=float(np.mean(limits)), unit="score"))
    first, *others = MGRS_METHODS
    for method in others if first in reached else ():
        if method in reached:
            figures += _against(place, method, reached[method], reached[first])
    return figures


UNITS = {"accuracy": "share", "n_avg": "samples", "forwards": "forwards"}


def _reached(
    own: FrontierSet, pools: Sequence[ScoredPools], limits: Sequence[float]
) -> dict[str, Estimate]:
    """Return accuracy, samples and forwards per problem, each the mean over the fits."""
    if not pools or len(pools) != len(limits):
        return {}
    made = [replay(each, limit) for each, limit in zip(pools, limits, strict=True)]
    columns: dict[str, list[Floats]] = {
        "accuracy": [each.right.astype(np.float64) for each in made],
        "n_avg": [each.samples for each in made],
        "forwards": [each.forwards for each in made],
    }
    means = {name: own.draws.mean(np.mean(column, axis=0)) for name, column in columns.items()}
    return {name: mean for name, mean in means.items() if mean is not None}


def _figures(place: Place, numbers: Mapping[str, Estimate]) -> list[Figure]:
    return [
        of_interval(number.interval(), **place, measure=measure, unit=UNITS[measure])
        for measure, number in numbers.items()
    ]


def _against(
    place: Place, method: str, ours: Mapping[str, Estimate], theirs: Mapping[str, Estimate]
) -> list[Figure]:
    """Return the accuracy above round trips', and the forwards as a share of theirs."""
    gap = (ours["accuracy"] - theirs["accuracy"]).interval()
    part = (ours["forwards"] / theirs["forwards"]).interval()
    names = {"method": f"{method}_minus_roundtrips", "measure": "accuracy"}
    shares = {"method": f"{method}_over_roundtrips", "measure": "forwards"}
    return [
        of_interval(gap, **place, **names, unit="share above, paired"),
        of_interval(part, **place, **shares, unit="share of the forwards"),
    ]
