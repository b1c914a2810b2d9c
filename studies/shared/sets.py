"""One set of the frontier: every method measured on the same problems, in the same draws."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.bootstrap import Draws, Estimate, pairs_won
from remask.analysis.figure import Figure, Place, of_interval
from remask.analysis.pool import Pool, pool_size
from remask.analysis.reliability import ece
from remask.analysis.selective import aurc
from remask.decide.columns import Flags, Floats
from studies.shared.methods import MethodScores, in_first_place, length_of

SECTION = "frontier"
RESAMPLES = 2000
FEWEST_PAIRS = 1000  # of equal length; with fewer the bins are wider
WIDTHS = (1, 2, 4, 8, 16, 32)  # of the bins, in response tokens
LARGEST_POOL = 10
Lengths = NDArray[np.int64]
Key = tuple[str, str]  # a method, and the part: the number of labels, or the set it was fitted on


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodMeasures:
    """How well one method tells right from wrong on one set, and at what cost."""

    auroc: Estimate
    auroc_equal_length: Estimate | None  # None where no two such answers are of equal length
    auroc_steps: Estimate | None  # of right steps among right answers; None: not both are there
    forwards: Estimate  # per answer, writing it included
    extra_forwards: Estimate  # without writing it
    by_fit: Floats  # (K,) AUROC of each fit
    aurc: float | None
    ece: float | None  # None where a score is outside 0..1
    absent: int  # answers without a score; they lose to all others

    @property
    def resampled(self) -> dict[str, tuple[Estimate | None, str]]:
        """What has an interval, with its unit."""
        return {
            "auroc": (self.auroc, "AUROC"),
            "auroc_equal_length": (self.auroc_equal_length, "AUROC over pairs of equal length"),
            "auroc_steps": (self.auroc_steps, "AUROC of right steps among right answers"),
            "forwards": (self.forwards, "forwards"),
            "extra_forwards": (self.extra_forwards, "forwards beyond writing the answer"),
        }

    @property
    def points(self) -> dict[str, tuple[float | None, str]]:
        """What has no interval, with its unit."""
        return {"aurc": (self.aurc, "AURC"), "ece": (self.ece, "ECE")}

    def figures(self, place: Place, width: int) -> list[Figure]:
        """Return all that was measured; `width` is of the bins of equal length."""
        figures = []
        for measure, (number, unit) in self.resampled.items():
            if number is not None:
                detail = f"lengths in bins of {width}" if "length" in measure and width > 1 else ""
                figures.append(
                    of_interval(
                        number.interval(), **place, measure=measure, unit=unit, detail=detail
                    )
                )
        points = self.points
        if len(self.by_fit) > 1:
            points["auroc_sd"] = (float(self.by_fit.std(ddof=1)), "AUROC, sd over draws of labels")
        if self.absent:
            points["absent"] = (float(self.absent), "absent")
        figures += [
            Figure(**place, measure=measure, value=value, unit=unit)
            for measure, (value, unit) in points.items()
            if value is not None
        ]
        return figures


@dataclass(frozen=True, kw_only=True, eq=False)
class FrontierSet:
    """The answers to one set of problems, and those that fits and thresholds are chosen on."""

    name: str
    family: str
    pooled: Sequence[Pool]
    validation: Sequence[Pool] = ()
    resamples: int = field(default=RESAMPLES, repr=False)

    @cached_property
    def right(self) -> Flags:
        """Which standard answers are right, (n,)."""
        return np.array([pool[0].right for pool in self.pooled], bool)

    @property
    def rarer(self) -> int:
        """How many answers are of the rarer kind, right or wrong."""
        return int(min(self.right.sum(), (~self.right).sum()))

    @cached_property
    def draws(self) -> Draws:
        """The draws of its problems, the same for every method."""
        return Draws.of(range(len(self.pooled)), name=self.name, resamples=self.resamples)

    @cached_property
    def equal_length(self) -> tuple[Lengths, int]:
        """Bins of answers of about equal length, (n,), and their width in tokens."""
        return length_bins([length_of(pool[0]) for pool in self.pooled], self.right)

    @cached_property
    def labelled(self) -> Flags:
        """Which standard answers are right, with steps that are known to be right or not, (n,)."""
        return np.array([p[0].right and p[0].process_ok is not None for p in self.pooled], bool)

    @cached_property
    def right_steps(self) -> Flags:
        """Which of these have right steps."""
        rows = (pool[0] for pool, known in zip(self.pooled, self.labelled, strict=True) if known)
        return np.array([row.process_ok for row in rows], bool)

    @cached_property
    def written(self) -> Estimate | None:
        """What writing an answer cost."""
        return self.draws.mean([pool[0].forwards for pool in self.pooled])

    def measure(self, scored: MethodScores) -> MethodMeasures | None:
        """Return what a method's scores of the standard answers are worth; None of one kind."""
        extra = self.draws.mean(scored.extra.mean(0))
        written = self.written
        auroc = self.draws.auroc(scored.scores, self.right)
        if auroc is None or extra is None or written is None:
            return None
        steps = self.draws.only(self.labelled)
        return MethodMeasures(
            auroc=auroc,
            auroc_equal_length=self.draws.auroc(scored.scores, self.right, self.equal_length[0]),
            auroc_steps=steps.auroc(scored.scores[:, self.labelled], self.right_steps),
            forwards=written + extra,
            extra_forwards=extra,
            by_fit=np.array(
                [pairs_won(row, self.right).mean(dtype=np.float64) for row in scored.scores]
            ),
            aurc=_mean(aurc(row, self.right) for row in scored.scores),
            ece=_mean(ece(row, self.right) for row in scored.scores),
            absent=scored.absent,
        )


def length_bins(
    lengths: ArrayLike, right: Flags, fewest: int = FEWEST_PAIRS
) -> tuple[Lengths, int]:
    """Return bins of lengths with enough pairs of a right and a wrong answer, and their width.

    The narrowest bins with enough pairs are taken, else the widest. A width of 1 is exact.
    """
    tokens = np.asarray(lengths, np.int64)
    for width in WIDTHS:
        bins = tokens // width
        most = int(bins.max(initial=0)) + 1
        of_right, of_wrong = (np.bincount(bins[kind], minlength=most) for kind in (right, ~right))
        if of_right @ of_wrong >= fewest:
            break
    return bins, width


def num_ranked(pooled: Sequence[Pool]) -> int:
    """Return how many samples of each pool are compared with one another."""
    return min(pool_size(pooled), LARGEST_POOL)


def every_sample(pooled: Sequence[Pool]) -> list[Pool]:
    """Return each pool as often as it has samples, each of them once in the first place."""
    size = num_ranked(pooled)
    return [in_first_place(pool[:size], number) for pool in pooled for number in range(size)]


def set_figures(own: FrontierSet, measures: Mapping[Key, MethodMeasures]) -> list[Figure]:
    """Return the figures of one set, with the share of right answers and the rarer kind."""
    place: Place = {"section": SECTION, "study": own.name}
    base = own.draws.mean(own.right)
    figures = [
        Figure(**place, measure="rarer", value=own.rarer, unit="answers of the rarer kind"),
        *([] if base is None else
          [of_interval(base.interval(), **place, measure="base_rate", unit="share")]),
    ]  # fmt: skip
    for (method, part), measured in measures.items():
        figures += measured.figures({**place, "method": method, "part": part}, own.equal_length[1])
    return figures


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean over fits; None where one of them has no value."""
    listed = list(values)
    present = [value for value in listed if value is not None]
    return float(np.mean(present)) if present and len(present) == len(listed) else None
