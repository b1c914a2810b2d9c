"""The verifier in stages: pay for more passes only where the probability is still undecided.

    staged = fit_stages([Stage(...), ...], right, provenance)
    staged.run(columns)                    all features are known: which stage settles each answer
    staged.decide(0, columns)              one stage of the answers at hand; then 1 for those left

Stages are in order of price. Each has its own regression over the features so far, and all of them
give the same thing, the probability that the answer is right, so that the value of whichever stage
settles an answer can stand beside another's. A stage settles an answer whose probability is below
its `low` or above its `high`; the last stage settles what is left, and so does the last one within
a budget. One that does not know the label-free value of an answer settles nothing: the answer was
not written here, and the probabilities of its tokens are not known.

The limits are those that spare most forwards and lose at most `LOSS` of the last stage's AUROC.
What is lost is judged on validation answers, by fits that have not seen them, and not against
their labels but against the chance of being right that the last stage gives them: a few hundred
labels tell AUROC to .02 or .03, and limits chosen by them lost .013 to .05 on other answers
(docs/LOG.md).

With too few labels to fit, each stage says its label-free mean. These are no probabilities, so
nothing is settled early then.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.decide.auroc import auroc, expected_auroc
from remask.decide.columns import Column, Flags, Floats
from remask.decide.logistic import Base, Regression, RegressionFit, check_names, fit_regression
from remask.decide.provenance import CLOSED, Fitted, Provenance
from remask.decide.threshold import accepts_all, best_f1
from remask.errors import InputError, SettingsError

LOSS = 0.004  # of AUROC: about what is then lost on other validation answers (docs/LOG.md)
_BELOW = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
GRID = (*_BELOW, 0.5, *(round(1 - limit, 3) for limit in reversed(_BELOW)))
Limits = tuple[float, float]  # settled below the first or above the second
OPEN: Limits = (0.0, 1.0)  # nothing is settled


class Stage(NamedTuple):
    """What a stage adds to those before it, for answers with labels."""

    name: str
    forwards: float  # passes per answer
    columns: Mapping[str, Column]  # features
    base: Base  # of its label-free value: names of columns so far, or columns that are no features


class Verdict(NamedTuple):
    """What is said of one answer."""

    probability: float  # of being right
    stage: str  # that settled it
    forwards: float  # of all stages up to that one


@dataclass(frozen=True, kw_only=True)
class FittedStage:
    """A regression over the features so far, its price, and when it is enough."""

    __pydantic_config__: ClassVar = CLOSED

    name: str
    forwards: float  # passes per answer, beyond those of the stages before
    low: float  # settled below it
    high: float  # or above it
    regression: Regression

    def __post_init__(self) -> None:
        """Refuse a price and limits that are none."""
        if not self.forwards >= 0 or not 0 <= self.low <= self.high <= 1:
            raise SettingsError(
                f"stage {self.name} with {self.forwards} forwards and limits {self.low} and "
                f"{self.high} cannot be."
            )


@dataclass(frozen=True, kw_only=True)
class StagedVerifier(Fitted):
    """Fitted stages, how well they did on answers they had not seen, and on what that was."""

    KIND = "staged verifier"

    stages: tuple[FittedStage, ...]
    n: int  # answers it was fitted on
    num_right: int  # of them
    auroc: float | None  # cross-validated, in stages; None where all answers are of one kind
    auroc_full: float | None  # where the last stage settles all of them
    mean_forwards: float  # per answer, in stages
    threshold: float | None = None  # of the best F1; None: too few labels, or it accepts every one

    def __post_init__(self) -> None:
        """Refuse no stages, and columns of another provenance."""
        if not self.stages:
            raise SettingsError("there are no stages.")
        names = [name for stage in self.stages for name in stage.regression.names]
        check_names(tuple(dict.fromkeys(names)), self.provenance)

    @property
    def reason(self) -> str:
        """Why the probability is the label-free value; "" where it is fitted."""
        return self.stages[-1].regression.reason

    def num_stages(self, budget: float | None = None) -> int:
        """Return how many stages a budget in forwards per answer has room for."""
        if budget is None:
            return len(self.stages)
        number = int((prices_of(self.stages) <= budget).sum())
        if number == 0:
            raise SettingsError(
                f"a budget of {budget:g} forwards has no room for stage {self.stages[0].name}; "
                f"give at least {self.stages[0].forwards:g}."
            )
        return number

    def decide(
        self, stage: int, columns: Mapping[str, Column], *, budget: float | None = None
    ) -> tuple[list[float], list[bool]]:
        """Return the probability of each answer at a stage, and whether that settles it.

        Args:
            stage: its number, from 0.
            columns: a value per answer for each feature up to this stage; None where absent.
            budget: most forwards per answer; the last stage within it settles everything.
        """
        fitted = self.stages[stage]
        probability = fitted.regression.probability(columns)
        is_last = stage >= self.num_stages(budget) - 1
        pairs = zip(probability, fitted.regression.knows(columns), strict=True)
        return probability, [
            is_last or (known and not fitted.low <= p <= fitted.high) for p, known in pairs
        ]

    def run(self, columns: Mapping[str, Column], *, budget: float | None = None) -> list[Verdict]:
        """Return the verdict on each answer, where the features of all stages are known."""
        stages = self.stages[: self.num_stages(budget)]
        probability = np.array(
            [stage.regression.probability(columns) for stage in stages]
        )  # (S, n)
        # What a stage knows nothing of lies on its lower limit: not settled.
        known = np.array([stage.regression.knows(columns) for stage in stages])  # (S, n)
        low = np.array([[stage.low] for stage in stages])
        limits = [(stage.low, stage.high) for stage in stages]
        at = settled_at(np.where(known, probability, low), limits)
        prices = prices_of(stages)
        return [
            Verdict(float(probability[k, i]), stages[k].name, float(prices[k]))
            for i, k in enumerate(at.tolist())
        ]


def fit_stages(
    stages: Sequence[Stage], right: ArrayLike, provenance: Provenance, *, seed: int = 0
) -> StagedVerifier:
    """Return the verifier in stages that these answers give.

    Args:
        stages: in order of price, each with what it adds.
        right: the labels.
        provenance: of the answers; its metrics are all features and base columns.
        seed: of the folds of the cross-validation.
    """
    fits = _fit_each(stages, right, seed)
    labels, prices = np.asarray(right, bool), prices_of(stages)
    probability = np.stack([fit.probability for fit in fits])  # (S, n)
    limits = [OPEN] * len(stages)
    if not fits[-1].regression.reason:
        limits = choose_limits(probability, probability[-1], prices)
    at = settled_at(probability, limits)
    taken = _taken(probability, at)
    threshold = best_f1(taken, labels)
    is_idle = bool(fits[-1].regression.reason) or accepts_all(taken, threshold)
    return StagedVerifier(
        stages=tuple(
            FittedStage(
                name=stage.name,
                forwards=stage.forwards,
                low=low,
                high=high,
                regression=fit.regression,
            )
            for stage, fit, (low, high) in zip(stages, fits, limits, strict=True)
        ),
        n=len(labels),
        num_right=int(labels.sum()),
        auroc=auroc(taken, labels),
        auroc_full=auroc(probability[-1], labels),
        mean_forwards=float(prices[at].mean()),
        threshold=None if is_idle else threshold,
        provenance=provenance,
    )


def prices_of(stages: Sequence[Stage] | Sequence[FittedStage]) -> Floats:
    """Return the forwards of all stages up to each one, (S,)."""
    return np.cumsum([stage.forwards for stage in stages], dtype=np.float64)


def choose_limits(probability: Floats, chances: Floats, prices: Floats) -> list[Limits]:
    """Return limits per stage that spare most forwards and lose at most LOSS of AUROC.

    One limit after another is drawn in, each time the one that spares most for what it loses, until
    nothing can be spared any more.

    Args:
        probability: of each stage and answer, (S, n), by fits that have not seen the answer.
        chances: that the answers are right, (n,), by which AUROC is judged.
        prices: of all stages up to each one, (S,).
    """
    full = expected_auroc(probability[-1], chances)
    limits, price, loss = [OPEN] * len(prices), float(prices[-1]), 0.0
    while True:
        best = 0.0
        for candidate in _tighter(limits):
            at = settled_at(probability, candidate)
            new_price = float(prices[at].mean())
            if new_price > price - 1e-9:
                continue
            new_loss = full - expected_auroc(_taken(probability, at), chances)
            gain = (price - new_price) / max(new_loss - loss, 1e-9)
            if new_loss <= LOSS and gain > best:
                best, step = gain, (candidate, new_price, new_loss)
        if not best:
            return limits
        limits, price, loss = step


def _tighter(limits: Sequence[Limits]) -> Iterator[list[Limits]]:
    """Yield limits in which one of a stage before the last is nearer to the other."""
    for k, (low, high) in enumerate(limits[:-1]):
        for limit in GRID:
            if low < limit <= high:
                yield [*limits[:k], (limit, high), *limits[k + 1 :]]
            if low <= limit < high:
                yield [*limits[:k], (low, limit), *limits[k + 1 :]]


def settled_at(probability: Floats, limits: Sequence[Limits]) -> NDArray[np.intp]:
    """Return the first stage, (n,), that settles each answer of (S, n) probabilities."""
    low, high = np.array(limits).T[:, :, None]  # (S, 1)
    settled: Flags = (probability < low) | (probability > high)
    settled[-1] = True
    return np.asarray(settled.argmax(0), np.intp)


def _taken(probability: Floats, at: NDArray[np.intp]) -> Floats:
    """Return the probability, (n,), that each answer has at its stage."""
    return probability[at, np.arange(len(at))]


def _fit_each(stages: Sequence[Stage], right: ArrayLike, seed: int) -> list[RegressionFit]:
    """Return the fit of each stage on the features up to it."""
    if not stages:
        raise InputError("there are no stages; give at least one.")
    columns: dict[str, Column] = {}
    others: dict[str, Column] = {}  # base columns that are no features
    fits = []
    for stage in stages:
        own = dict(stage.base) if isinstance(stage.base, Mapping) else {}
        again = [name for name in stage.columns if name in columns or name in others]
        again += [name for name in own if list(others.get(name, own[name])) != list(own[name])]
        if again:
            raise InputError(f"stage {stage.name} has another {', '.join(again)}; rename it.")
        columns |= stage.columns
        others |= {name: column for name, column in own.items() if name not in columns}
        fits.append(fit_regression(columns, stage.base, right, seed))
    return fits
