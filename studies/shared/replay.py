"""Rejection sampling replayed over whole pools at once, for any score, and the threshold it needs.

`correction.mgrs` replays one pool by the rule of `decide.rejection`; here the same is computed for
many pools and thresholds, since a threshold is best chosen by replaying it on validation pools: the
cheapest that is at most `LOSS` of accuracy below the best one. F1, the paper's rule, needs none;
it knows nothing of cost, so one scorer may accept early and another late. Both rules choose among
quantiles of the scorer's own scores, whatever its scale, and each of these rejects some answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from remask.decide.columns import Flags, Floats

LOSS = 0.005  # of accuracy, that a cheaper threshold may lose on validation
CANDIDATES = 50  # thresholds


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredPools:
    """Pools of one size with a score for every sample; arrays of (n, S)."""

    scores: Floats  # -inf: none
    right: Flags
    forwards: Floats  # writing a sample and scoring it

    def take(self, rows: Sequence[int]) -> "ScoredPools":
        """Return some of the pools."""
        picked = list(rows)
        return ScoredPools(
            scores=self.scores[picked], right=self.right[picked], forwards=self.forwards[picked]
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Replayed:
    """What rejection sampling settled on for each problem, (n,)."""

    right: Flags
    samples: Floats  # drawn
    forwards: Floats


def replay(pools: ScoredPools, threshold: float) -> Replayed:
    """Return the first sample above the threshold of each pool, or its best; what it cost."""
    above = pools.scores > threshold  # (n, S)
    rows, last = np.arange(len(above)), above.shape[1] - 1
    accepted = above.any(1)
    first = above.argmax(1)
    chosen = np.where(accepted, first, pools.scores.argmax(1))
    drawn = np.where(accepted, first, last)
    return Replayed(
        right=pools.right[rows, chosen],
        samples=drawn + 1.0,
        forwards=pools.forwards.cumsum(1)[rows, drawn],
    )


def cheapest_threshold(pools: ScoredPools) -> float:
    """Return the cheapest threshold that is hardly less accurate than the best one."""
    limits = _candidates(pools.scores)
    made = [replay(pools, float(limit)) for limit in limits]
    accuracy = np.array([each.right.mean() for each in made])
    spent = np.array([each.forwards.mean() for each in made])
    good = accuracy >= accuracy.max() - LOSS - 1e-12
    return float(limits[np.where(good, spent, np.inf).argmin()])


def best_f1_threshold(scores: Floats, right: Flags) -> float:
    """Return the threshold with the best F1 on single answers, (n,); the lowest of equals."""
    limits = _candidates(scores)
    accepted = scores > limits[:, None]  # (T, n)
    f1 = 2 * (accepted & right).sum(1) / (accepted.sum(1) + right.sum())
    return float(limits[f1.argmax()])


def _candidates(scores: Floats) -> Floats:
    """Return the thresholds that are tried, the lowest first."""
    present = scores[np.isfinite(scores)]
    if present.size == 0:
        return np.zeros(1)
    return np.unique(np.quantile(present, np.arange(CANDIDATES) / CANDIDATES, method="lower"))
