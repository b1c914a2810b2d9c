"""AUROC over pairs of equal length: what a score tells beside how long an answer is.

Short answers are right more often, and many scores fall with every token. So a right answer is
compared with wrong ones of the same number of response tokens only. Where these are few, lengths
are put into bins, the narrowest that give enough pairs: a width of 4 puts 8 to 11 together.
"""

import numpy as np
from numpy.typing import ArrayLike

from remask.analysis.answer_pairs import AnswerPairs
from remask.analysis.problem_draws import ProblemDraws
from remask.decide.columns import Flags

FEWEST = 1000  # pairs; below that the next width is tried
WIDTHS = (1, 2, 4, 8, 16, 32)


def equal_length_pairs(
    lengths: ArrayLike, right: Flags, draws: ProblemDraws, *, fewest: int = FEWEST
) -> tuple[AnswerPairs, int]:
    """Return the pairs of equal length, and the width of the bins: 1 where they are exact.

    Where no width gives enough pairs, the widest that is tried.
    """
    tokens = np.asarray(lengths, np.int64)
    width = next((width for width in WIDTHS if _num_pairs(tokens // width, right) >= fewest),
                 WIDTHS[-1])  # fmt: skip
    bins = tokens // width
    same = bins[right][:, None] == bins[~right][None, :]  # (R, W)
    return AnswerPairs(right, draws, same.astype(np.float32)), width


def _num_pairs(bins: "np.ndarray[tuple[int], np.dtype[np.int64]]", right: Flags) -> int:
    most = int(bins.max(initial=0)) + 1
    of_right, of_wrong = (np.bincount(bins[kind], minlength=most) for kind in (right, ~right))
    return int(of_right @ of_wrong)
