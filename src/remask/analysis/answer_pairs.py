"""Pairs of a right and a wrong answer: AUROC over all of them, or over some, in every draw.

The AUROC over a set of pairs is the share of them in which the right answer has the higher score,
ties counted half. In a draw a pair counts as often as both of its answers together, so with W[i, j]
= 1, 1/2 or 0 and S[i, j] saying whether the pair belongs to the set,

    AUROC = r' (W S) w / r' S w         r, w: how often each right, each wrong answer was drawn

which is one product of matrices for all draws, and of several fits of one method it needs only the
mean W.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from remask.analysis.problem_draws import ProblemDraws, Resampled
from remask.decide.columns import Flags, Floats

Matrix = NDArray[np.float32]  # (R, W) right answers by wrong ones


@dataclass(frozen=True, eq=False)
class AnswerPairs:
    """The pairs of a right and a wrong answer that count."""

    right: Flags  # (n,)
    draws: ProblemDraws
    counted: Matrix  # (R, W) 1 where a pair counts

    @property
    def num(self) -> int:
        """How many they are."""
        return int(self.counted.sum(dtype=np.float64))

    @cached_property
    def _drawn(self) -> Floats:
        """How many there are in each draw, (D,)."""
        return self._in_draws(self.counted)

    def auroc(self, won: Matrix) -> Resampled | None:
        """Return the share of the pairs that were won; None where there are no pairs."""
        if self.num == 0:
            return None
        share = float((won * self.counted).sum(dtype=np.float64) / self.num)
        with np.errstate(invalid="ignore"):  # a draw may hold no pair
            drawn = self._in_draws(won * self.counted) / self._drawn
        return Resampled(share, drawn, len(self.right))

    def _in_draws(self, matrix: Matrix) -> Floats:
        """Return the sum over all pairs of a number, times how often each was drawn, (D,)."""
        right, wrong = self.draws.times[:, self.right], self.draws.times[:, ~self.right]
        total: Floats = ((wrong @ matrix.T) * right).sum(1, dtype=np.float64)
        return total


def all_pairs(right: Flags, draws: ProblemDraws) -> AnswerPairs:
    """Return every pair of a right and a wrong answer."""
    shape = int(right.sum()), int((~right).sum())
    return AnswerPairs(right, draws, np.ones(shape, np.float32))


def pairs_won(scores: Floats, right: Flags) -> Matrix:
    """Return 1 where the right answer of a pair has the higher score, 1/2 where both have one."""
    ours, theirs = scores[right][:, None], scores[~right][None, :]
    return np.asarray((ours > theirs) + 0.5 * (ours == theirs), np.float32)
