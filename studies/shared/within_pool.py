"""Ranking within a problem: of the samples of one problem, are the right ones scored higher?

Rejection sampling and best-of-N choose among answers to one problem. A score that tells easy
problems from hard ones has a good AUROC over problems, and may be of no use to them.
"""

import numpy as np

from remask.decide.columns import Flags, Floats


def within_pools(scores: Floats, right: Flags) -> Floats:
    """Return the AUROC within each pool, (n,), of scores and labels (n, S).

    NaN where all samples of a problem are right, or all wrong; ties count half.
    """
    ours, theirs = scores[:, :, None], scores[:, None, :]
    pairs = right[:, :, None] & ~right[:, None, :]  # (n, S, S) a right sample and a wrong one
    won = (pairs & (ours > theirs)).sum((1, 2)) + 0.5 * (pairs & (ours == theirs)).sum((1, 2))
    num = pairs.sum((1, 2))
    return np.where(num > 0, won / np.maximum(num, 1), np.nan)
