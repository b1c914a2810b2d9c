"""One set of the frontier: every method measured on the same problems, in the same draws."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from remask.analysis.answer_pairs import AnswerPairs, all_pairs, pairs_won
from remask.analysis.equal_length import equal_length_pairs
from remask.analysis.figure import Figure, Place, of_interval
from remask.analysis.pool import Pool, pool_size
from remask.analysis.problem_draws import RESAMPLES, ProblemDraws, Resampled, draw_problems
from remask.analysis.reliability import ece
from remask.analysis.selective import aurc
from remask.decide.columns import Flags, Floats
from studies.shared.methods import MethodScores, in_first_place, length_of

SECTION = "frontier"
LARGEST_POOL = 10
Key = tuple[str, str]  # a method, and the part: the number of labels, or the set it was fitted on


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodMeasures:
    """How well one method tells right from wrong on one set, and at what cost."""

    auroc: Resampled
    auroc_equal_length: Resampled | None  # None where no two such answers are of equal length
    auroc_steps: Resampled | None  # of right steps among right answers; None: not both are there
    forwards: Resampled  # per answer, writing it included
    extra_forwards: Resampled  # without writing it
    by_fit: Floats  # (K,) AUROC of each fit
    aurc: float | None
    ece: float | None  # None where a score is outside 0..1
    absent: int  # answers without a score; they lose to all others

    @property
    def resampled(self) -> dict[str, tuple[Resampled | None, str]]:
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
    def draws(self) -> ProblemDraws:
        """The draws of its problems, the same for every method."""
        return draw_problems(len(self.pooled), self.name, resamples=self.resamples)

    @cached_property
    def pairs(self) -> AnswerPairs:
        """All pairs of a right and a wrong answer."""
        return all_pairs(self.right, self.draws)

    @cached_property
    def equal_length(self) -> tuple[AnswerPairs, int]:
        """Those of equal length, and the width of its bins."""
        lengths = [length_of(pool[0]) for pool in self.pooled]
        return equal_length_pairs(lengths, self.right, self.draws)

    @cached_property
    def labelled(self) -> Flags:
        """Which standard answers are right, with steps that are known to be right or not, (n,)."""
        return np.array([p[0].right and p[0].process_ok is not None for p in self.pooled], bool)

    @cached_property
    def steps(self) -> AnswerPairs:
        """All pairs of two of these, one with right steps and one without."""
        rows = (pool[0] for pool, known in zip(self.pooled, self.labelled, strict=True) if known)
        sound = np.array([row.process_ok for row in rows], bool)
        return all_pairs(sound, ProblemDraws(self.draws.times[:, self.labelled]))

    @cached_property
    def written(self) -> Resampled | None:
        """What writing an answer cost."""
        return self.draws.mean([pool[0].forwards for pool in self.pooled])

    def measure(self, scored: MethodScores) -> MethodMeasures | None:
        """Return what a method's scores of the standard answers are worth; None of one kind."""
        together, steps = (
            np.zeros(pairs.counted.shape, np.float32) for pairs in (self.pairs, self.steps)
        )
        by_fit = []
        for row in scored.scores:  # one at a time: of thousands of answers each is large
            won = pairs_won(row, self.right)
            together += won
            by_fit.append(won.mean(dtype=np.float64) if won.size else np.nan)
            steps += pairs_won(row[self.labelled], self.steps.right)
        together /= len(scored.scores)
        steps /= len(scored.scores)
        extra = self.draws.mean(scored.extra.mean(0))
        written = self.written
        auroc = self.pairs.auroc(together)
        if auroc is None or extra is None or written is None:
            return None
        return MethodMeasures(
            auroc=auroc,
            auroc_equal_length=self.equal_length[0].auroc(together),
            auroc_steps=self.steps.auroc(steps),
            forwards=written + extra,
            extra_forwards=extra,
            by_fit=np.array(by_fit),
            aurc=_mean(aurc(row, self.right) for row in scored.scores),
            ece=_mean(ece(row, self.right) for row in scored.scores),
            absent=scored.absent,
        )


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
