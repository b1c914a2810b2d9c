"""A threshold: the best one by F1, as the paper chooses it, or one with a certificate.

Accepted is an answer that scores strictly above the threshold, as in `reject`; one without a
score is not accepted. `best_f1` balances precision and recall and promises nothing. `certify`
promises: among accepted answers at most `risk` are wrong, with `confidence`. It is
Learn-then-Test (Angelopoulos et al. 2021) with exact binomial tails, and holds for any score and
any n.

**One threshold.** Let R be the chance that an answer which scores above it is wrong. How many of
the n validation answers score above is random; but given that A do, they are A independent draws
of such answers, so the wrong ones among them are Binomial(A, R). If R exceeded `risk`, so few
wrong ones or fewer would have a chance of at most p = P(Binomial(A, risk) <= wrong). So p is a
p-value of "R > risk" given A, whatever A is, hence also without knowing it; p is 1 where A is 0.

**Many thresholds.** They are tested from the strictest down, on a grid fixed before any answer is
seen. Plain fixed-sequence testing would begin at the strictest and end with the first failure;
but that one accepts hardly anything and fails for want of answers. So the permitted error
d = 1 - confidence is divided among a few fixed `starts` (the fallback procedure, Wiens 2003):

    level = own share of d (0 unless a start) + the level before it, if the one before was proved
    proved if p <= level

Why this errs with chance d at most: take the grid's unsafe thresholds (R > risk), in order. When
one of them is the first to be proved, the unsafe one before it was not, so its level adds up only
shares that come after that one: at most a fixed number. These stretches do not overlap, so their
numbers add up to d at most; and at an unsafe threshold p <= level has at most the chance `level`.
Neither a risk that falls steadily with the score nor independent tests are needed. As all proved
thresholds are safe at once, the one that accepts most may be taken. Bonferroni would divide d by
100 instead.

The certificate is for one answer per question: several samples of one question are not
independent. Rejection sampling has its own: scores of shape (n, budget), of which the first above
is accepted.
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
    """A threshold above which at most `risk` of the answers are wrong, and the evidence for it."""

    KIND = "certificate"

    threshold: Threshold
    risk: Risk
    confidence: Confidence
    n: int  # validation answers; one per question
    accepted: int
    wrong: int  # among the accepted
    budget: int = 1  # samples drawn of a question until one is accepted

    def __post_init__(self) -> None:
        """Refuse counts that cannot be."""
        if not 0 <= self.wrong <= self.accepted <= self.n or self.budget < 1 or self.n < 1:
            raise SettingsError(
                f"{self.wrong} wrong of {self.accepted} accepted of {self.n} answers, budget "
                f"{self.budget}, cannot be."
            )

    @property
    def coverage(self) -> float:
        """Share of the validation answers that were accepted."""
        return self.accepted / self.n

    def __str__(self) -> str:
        """Return the promise as a sentence."""
        return (
            f"Among answers accepted above {self.threshold:g} at most {100 * self.risk:g} % are "
            f"wrong, with {100 * self.confidence:g} % confidence, from n = {self.n} validation "
            f"answers: {self.accepted} accepted (coverage {100 * self.coverage:.1f} %), "
            f"{self.wrong} of them wrong."
        )


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """No threshold can be certified, and why."""

    reason: str
    needed: int  # accepted answers, none of them wrong, that are needed at least


@checked
def best_f1(scores: Scores, right: ArrayLike) -> float:
    """Return the threshold, in hundredths, of the best F1; the lowest of equals.

    Precision is the share of right answers among the accepted, recall the share of right answers
    that are accepted. Where few answers are wrong, accepting all of them may be best: ask
    `accepts_all` before you reject by it.
    """
    values, labels = labelled(scores, right)
    limits = np.arange(100) / 100
    accepted = values > limits[:, None] + ROUNDING  # (100, n)
    hits = (accepted & labels).sum(1)
    f1 = 2 * hits / np.maximum(1, accepted.sum(1) + labels.sum())
    return float(limits[f1.argmax()])


@checked
def accepts_all(scores: Scores, threshold: Threshold) -> bool:
    """Say whether every answer that has a score is accepted: nothing is ever rejected."""
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
    """Return the certified threshold that accepts most answers, or why there is none.

    Args:
        scores: one per question, (n,); or (n, budget) samples of each in the order drawn, of which
            rejection sampling accepts the first above. None and NaN are no score.
        right: the labels, in the same shape. Neither weights nor settings may have been fitted on
            these answers.
        provenance: of the scores and the answers.
        risk: largest share of wrong answers among the accepted, strictly between 0 and 1.
        confidence: of the promise, over draws of the validation answers.
        starts: thresholds in hundredths among which the permitted error is divided; none stricter
            than the first is tried. One alone spares the division. They may not be chosen on
            these answers.
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
    """Return how many accepted answers, none of them wrong, the promise needs at least.

    That is the smallest A with (1 - risk)^A <= (1 - confidence) / starts.
    """
    level = (1 - confidence) / num_starts
    return math.ceil(math.log(level) / math.log1p(-risk) - 1e-9)


def binomial_tail(wrong: ArrayLike, accepted: ArrayLike, risk: float) -> Floats:
    """Return P(Binomial(accepted, risk) <= wrong), exactly; 1 where nothing is accepted."""
    from scipy.special import bdtr

    return np.asarray(bdtr(wrong, accepted, risk), np.float64)


def outcomes(values: Floats, labels: Flags) -> tuple[Counts, Counts]:
    """Return how many questions each threshold of the grid accepts, and how many of them wrongly.

    Of several samples, (n, budget), the first above the threshold counts: sample k is that one for
    thresholds from the best score before it, included, up to its own, excluded.
    """
    scores = np.where(np.isnan(values), -np.inf, values).reshape(len(values), -1)
    best = np.maximum.accumulate(scores, 1)  # (n, budget)
    before = np.insert(best[:, :-1], 0, -np.inf, axis=1)
    wrong = ~labels.reshape(scores.shape)
    return _num_above(best[:, -1]), _num_above(best[wrong]) - _num_above(before[wrong])


def _num_above(scores: Floats) -> Counts:
    """Return how many of the scores lie above each threshold of the grid."""
    ascending = np.sort(scores)
    return np.asarray(
        len(scores) - np.searchsorted(ascending, np.add(GRID, ROUNDING), "right"), np.int64
    )


def _shares(starts: Sequence[float], error: float) -> list[float]:
    """Return what each threshold of the grid gets of the permitted error."""
    unknown = [start for start in starts if start not in GRID]
    if unknown or not starts:
        raise SettingsError(
            f"starts {list(starts)} must be hundredths from 0 to 0.99, and at least one."
        )
    return [error / len(set(starts)) if threshold in starts else 0.0 for threshold in GRID]


def _proved(tails: Floats, shares: Sequence[float]) -> Flags:
    """Return which thresholds are proved safe: the fallback procedure of the module's head."""
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
    """Return the refusal: too few answers, or too many wrong ones among them."""
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
