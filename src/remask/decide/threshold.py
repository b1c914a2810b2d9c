"""Thresholds: the best one by F1, as in the paper, or one with a certificate.

An answer is accepted if it scores strictly above the threshold, as in `reject`. `best_f1` balances
precision and recall without a guarantee. `certify` guarantees with probability `confidence` that at
most `risk` of the accepted answers are wrong. It is Learn-then-Test (Angelopoulos et al. 2021) with
exact binomial tails, and holds for any score and any n.

**One threshold.** Let R be the probability that an answer above the threshold is wrong. Given that
A of n validation answers are above it, the number of wrong ones is Binomial(A, R). So
p = P(Binomial(A, risk) <= wrong) is a p-value of the hypothesis R > risk, for every A; p is 1 if A
is 0.

**Many thresholds.** The thresholds of a fixed grid are tested from the strictest down. Plain
fixed-sequence testing stops at the first failure, and the strictest thresholds fail because they
accept too few answers. So the permitted error d = 1 - confidence is divided among a few fixed
`starts` (the fallback procedure, Wiens 2003):

    level = own share of d (0 unless a start) + the previous level, if that threshold was proved
    proved if p <= level

The error is at most d: consider the unsafe thresholds (R > risk) in order. If one of them is the
first to be proved, the unsafe one before it was not, so its level adds up only shares after that
one. These ranges do not overlap, so the levels sum to at most d, and p <= level has at most
probability `level` at an unsafe threshold. The tests need not be independent, and the risk need not
fall with the score. All proved thresholds are safe together, so the one that accepts most is
chosen. Bonferroni would divide d by 100 instead.

The certificate needs one answer per question, because samples of one question are not independent.
For rejection sampling pass scores of shape (n, budget); the first above the threshold is accepted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.decide.columns import Flags, Floats, Scores, absent_as_nan, labelled
from remask.decide.provenance import Fitted, Provenance
from remask.decide.settings import Budget, Confidence, Risk
from remask.errors import SettingsError
from remask.settings import Threshold, checked
from remask.values import ROUNDING

GRID = tuple(k / 100 for k in range(99, -1, -1))  # the strictest first
STARTS = (0.97, 0.9, 0.8, 0.65, 0.4)  # simulated: more or fewer certify less of what is safe
NUM_STARTS = len(STARTS)
Counts = NDArray[np.int64]


@checked
@dataclass(frozen=True, kw_only=True)
class Certificate(Fitted):
    """A threshold above which at most `risk` of the answers are wrong, with its evidence."""

    KIND = "certificate"

    threshold: Threshold
    risk: Risk
    confidence: Confidence
    n: int  # validation answers; one per question
    accepted: int
    wrong: int  # among the accepted
    budget: int = 1  # samples drawn of a question until one is accepted

    def __post_init__(self) -> None:
        if not 0 <= self.wrong <= self.accepted <= self.n or self.budget < 1 or self.n < 1:
            raise SettingsError(
                f"counts must have wrong <= accepted <= n, got {self.wrong}, {self.accepted} and "
                f"{self.n} with budget {self.budget}."
            )

    @property
    def coverage(self) -> float:
        """Share of accepted validation answers."""
        return self.accepted / self.n

    def __str__(self) -> str:
        """Return the guarantee as a sentence."""
        return (
            f"Among answers accepted above {self.threshold:g} at most {100 * self.risk:g} % are "
            f"wrong, with {100 * self.confidence:g} % confidence, from n = {self.n} validation "
            f"answers: {self.accepted} accepted (coverage {100 * self.coverage:.1f} %), "
            f"{self.wrong} of them wrong."
        )


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The reason why no threshold can be certified."""

    reason: str
    needed: int  # minimum number of accepted answers if none is wrong


@checked
def best_f1(scores: Scores, right: ArrayLike) -> float:
    """Return the threshold, a multiple of 0.01, with the best F1; the lowest of ties.

    Precision is the share of right answers among the accepted ones, recall the share of right
    answers that are accepted. If few answers are wrong, the best threshold may accept all: check
    `accepts_all`.
    """
    values, labels = labelled(scores, right)
    limits = np.arange(100) / 100
    accepted = values > limits[:, None] + ROUNDING  # (100, n)
    hits = (accepted & labels).sum(1)
    f1 = 2 * hits / np.maximum(1, accepted.sum(1) + labels.sum())
    return float(limits[f1.argmax()])


@checked
def accepts_all(scores: Scores, threshold: Threshold) -> bool:
    """Return whether every answer with a score is accepted."""
    values = absent_as_nan(scores)
    return not (values <= threshold + ROUNDING).any()


@checked
def certify(
    scores: Scores,
    right: ArrayLike,
    provenance: Provenance,
    *,
    risk: Risk = 0.1,
    confidence: Confidence = 0.95,
    starts: Sequence[float] = STARTS,
) -> Certificate | Refusal:
    """Return the certified threshold that accepts the most answers, or the reason for none.

    Args:
        scores: one per question, (n,); or of samples in the order drawn, (n, budget), for rejection
            sampling. None and NaN mean no score.
        right: the labels, in the same shape. Weights and settings must not have been fitted on
            these answers.
        provenance: of the scores and the answers.
        risk: largest share of wrong answers among the accepted, strictly between 0 and 1.
        confidence: probability of the guarantee, over draws of the validation answers.
        starts: thresholds, multiples of 0.01, among which the permitted error is divided. No
            stricter threshold is tested. They must not be chosen on these answers.
    """
    shares = _shares(starts, 1 - confidence)
    values, labels = labelled(scores, right)
    accepted, wrong = outcomes(values, labels)
    tails = binomial_tail(wrong, accepted, risk)
    proved = _proved(tails, shares)
    if not proved.any():
        needed = fewest_answers(risk, confidence, len(set(starts)))
        return _refuse(accepted, wrong, tails, len(values), risk, needed)
    best = int(np.where(proved, accepted, -1).argmax())  # the strictest of equals
    return Certificate(
        threshold=GRID[best],
        risk=risk,
        confidence=confidence,
        n=len(values),
        accepted=int(accepted[best]),
        wrong=int(wrong[best]),
        budget=1 if values.ndim == 1 else values.shape[1],
        provenance=provenance,
    )


@checked
def fewest_answers(risk: Risk, confidence: Confidence, num_starts: Budget = NUM_STARTS) -> int:
    """Return the minimum number of accepted answers, none of them wrong.

    This is the smallest A with (1 - risk)^A <= (1 - confidence) / starts.
    """
    level = (1 - confidence) / num_starts
    return math.ceil(math.log(level) / math.log1p(-risk) - 1e-9)


def binomial_tail(wrong: ArrayLike, accepted: ArrayLike, risk: float) -> Floats:
    """Return P(Binomial(accepted, risk) <= wrong); 1 if nothing is accepted."""
    from scipy.special import bdtr

    return np.asarray(bdtr(wrong, accepted, risk), np.float64)


def outcomes(values: Floats, labels: Flags) -> tuple[Counts, Counts]:
    """Return for each threshold of the grid the accepted questions and the wrong ones among them.

    For scores (n, budget) the first sample above the threshold counts: sample k for thresholds from
    the best score before it (inclusive) to its own score (exclusive).
    """
    scores = np.where(np.isnan(values), -np.inf, values).reshape(len(values), -1)
    best = np.maximum.accumulate(scores, 1)  # (n, budget)
    before = np.insert(best[:, :-1], 0, -np.inf, axis=1)
    wrong = ~labels.reshape(scores.shape)
    return _num_above(best[:, -1]), _num_above(best[wrong]) - _num_above(before[wrong])


def _num_above(scores: Floats) -> Counts:
    ascending = np.sort(scores)
    return np.asarray(
        len(scores) - np.searchsorted(ascending, np.add(GRID, ROUNDING), "right"), np.int64
    )


def _shares(starts: Sequence[float], error: float) -> list[float]:
    unknown = [start for start in starts if start not in GRID]
    if unknown or not starts:
        raise SettingsError(
            f"starts {list(starts)} must be hundredths from 0 to 0.99, and at least one."
        )
    return [error / len(set(starts)) if threshold in starts else 0.0 for threshold in GRID]


def _proved(tails: Floats, shares: Sequence[float]) -> Flags:
    """Return which thresholds are proved safe by the fallback procedure."""
    proved = []
    level, passed = 0.0, False
    for tail, share in zip(tails.tolist(), shares, strict=True):
        level = share + (level if passed else 0.0)
        passed = tail <= level
        proved.append(passed)
    return np.array(proved)


def _refuse(
    accepted: Counts, wrong: Counts, tails: Floats, n: int, risk: float, needed: int
) -> Refusal:
    if accepted.max() < needed:
        reason = (
            f"{accepted.max()} of {n} answers are accepted at most, and at least {needed} without "
            f"a wrong one are needed for risk {risk:g}; collect more answers or allow more risk."
        )
    else:
        best = int(tails.argmin())
        reason = (
            f"the safest threshold, {GRID[best]:g}, accepts {accepted[best]} of {n} answers of "
            f"which {wrong[best]} are wrong, and that does not prove risk {risk:g} from any start; "
            "allow more risk, collect more answers or use a better score."
        )
    return Refusal(reason=reason, needed=needed)
