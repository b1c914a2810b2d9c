"""A verifier with early exit: later stages run only for answers that are still undecided.

    staged = fit_stages([Stage(...), ...], right, provenance)
    staged.decide(0, columns)     first stage; continue with stage 1 for the undecided answers

Stages are in order of price. Each one is a regression over all features so far and predicts the
probability that the answer is right, so probabilities of different stages are comparable. An answer
exits at the first stage where its probability is below `low` or above `high`, or at the last stage.
A stage that lacks the label-free value of an answer does not decide it.

The limits spare the most forward passes while losing at most `LOSS` of the last stage's AUROC. The
loss is computed on cross-validated probabilities, with the last stage's probabilities in place of
labels: a few hundred labels determine AUROC only to .02 or .03, and limits chosen by labels lost
.013 to .05 on other answers (docs/LOG.md).

With too few labels to fit, each stage returns its label-free mean, which is not a probability;
then no answer exits early.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.decide.auroc import auroc, expected_auroc
from remask.decide.columns import Column, Flags, Floats
from remask.decide.logistic import Regression, RegressionFit, check_names, fit_regression
from remask.decide.provenance import CLOSED, Fitted, Provenance
from remask.decide.threshold import accepts_all, best_f1
from remask.errors import InputError, SettingsError

LOSS = 0.004  # of AUROC: about what is then lost on other validation answers (docs/LOG.md)
_BELOW = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
GRID = (*_BELOW, 0.5, *(round(1 - limit, 3) for limit in reversed(_BELOW)))
Limits = tuple[float, float]  # decided below the first or above the second
OPEN: Limits = (0.0, 1.0)  # nothing is decided


class Stage(NamedTuple):
    """The columns that a stage adds, for labelled answers."""

    name: str
    forwards: float  # passes per answer
    columns: Mapping[str, Column]  # features
    base: Mapping[str, Column]  # whose mean is the label-free value


@dataclass(frozen=True, kw_only=True)
class FittedStage:
    """A regression over all features so far, its price and its limits."""

    __pydantic_config__: ClassVar = CLOSED

    name: str
    forwards: float  # passes per answer, beyond those of the stages before
    low: float  # decided below it
    high: float  # or above it
    regression: Regression

    def __post_init__(self) -> None:
        if not self.forwards >= 0 or not 0 <= self.low <= self.high <= 1:
            raise SettingsError(
                f"stage {self.name} must have forwards >= 0 and 0 <= low <= high <= 1, got "
                f"forwards {self.forwards}, low {self.low} and high {self.high}."
            )


@dataclass(frozen=True, kw_only=True)
class StagedVerifier(Fitted):
    """Fitted stages with their cross-validated AUROC and cost, and the provenance of the fit."""

    KIND = "staged verifier"

    stages: tuple[FittedStage, ...]
    n: int  # answers it was fitted on
    num_right: int  # of them
    auroc: float | None  # cross-validated, in stages; None where all answers are of one kind
    auroc_full: float | None  # where the last stage settles all of them
    mean_forwards: float  # per answer, in stages
    threshold: float | None = None  # of the best F1; None: too few labels, or it accepts every one

    def __post_init__(self) -> None:
        if not self.stages:
            raise SettingsError("stages must not be empty.")
        names = [name for stage in self.stages for name in stage.regression.names]
        check_names(tuple(dict.fromkeys(names)), self.provenance)

    @property
    def reason(self) -> str:
        """Why the probability is the label-free value; "" if it is fitted."""
        return self.stages[-1].regression.reason

    def decide(self, stage: int, columns: Mapping[str, Column]) -> tuple[list[float], list[bool]]:
        """Return the probability of each answer at a stage, and whether it is decided there.

        Args:
            stage: number of the stage, from 0.
            columns: one value per answer for each feature up to this stage; None if absent.
        """
        fitted = self.stages[stage]
        probability = fitted.regression.probability(columns)
        is_last = stage == len(self.stages) - 1
        pairs = zip(probability, fitted.regression.knows(columns), strict=True)
        return probability, [
            is_last or (known and not fitted.low <= p <= fitted.high) for p, known in pairs
        ]


def fit_stages(
    stages: Sequence[Stage], right: ArrayLike, provenance: Provenance, *, seed: int = 0
) -> StagedVerifier:
    """Return stages fitted to labelled answers.

    Args:
        stages: in order of price, each with the columns that it adds.
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
    """Return the cumulative forwards of the stages, (S,)."""
    return np.cumsum([stage.forwards for stage in stages], dtype=np.float64)


def choose_limits(probability: Floats, chances: Floats, prices: Floats) -> list[Limits]:
    """Return limits per stage that spare the most forwards and lose at most LOSS of AUROC.

    Greedy: tightens the limit with the best ratio of spared forwards to lost AUROC, until none is
    left.

    Args:
        probability: cross-validated, of each stage and answer, (S, n).
        chances: probabilities that the answers are right, (n,); they replace labels in the AUROC.
        prices: cumulative forwards of the stages, (S,).
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
    """Yield limits with one limit of one stage before the last tightened."""
    for k, (low, high) in enumerate(limits[:-1]):
        for limit in GRID:
            if low < limit <= high:
                yield [*limits[:k], (limit, high), *limits[k + 1 :]]
            if low <= limit < high:
                yield [*limits[:k], (low, limit), *limits[k + 1 :]]


def settled_at(probability: Floats, limits: Sequence[Limits]) -> NDArray[np.intp]:
    """Return the stage at which each answer exits, (n,), from probabilities (S, n)."""
    low, high = np.array(limits).T[:, :, None]  # (S, 1)
    settled: Flags = (probability < low) | (probability > high)
    settled[-1] = True
    return np.asarray(settled.argmax(0), np.intp)


def _taken(probability: Floats, at: NDArray[np.intp]) -> Floats:
    return probability[at, np.arange(len(at))]


def _fit_each(stages: Sequence[Stage], right: ArrayLike, seed: int) -> list[RegressionFit]:
    if not stages:
        raise InputError("stages must not be empty.")
    columns: dict[str, Column] = {}
    others: dict[str, Column] = {}  # base columns that are not features
    fits = []
    for stage in stages:
        base = stage.base
        again = [name for name in stage.columns if name in columns or name in others]
        again += [name for name in base if list(others.get(name, base[name])) != list(base[name])]
        if again:
            raise InputError(f"stage {stage.name} redefines column {', '.join(again)}; rename it.")
        columns |= stage.columns
        others |= {name: column for name, column in base.items() if name not in columns}
        fits.append(fit_regression(columns, base, right, seed))
    return fits
