"""Spurious success: right answers reached by a wrong step (Definition 2, Figure 7).

The paper calls a right answer spurious where it scores below the threshold. That cannot be tested
by the score itself, so here a flawed answer is one with a wrong step by the task's own grader, and
a score below the threshold is a claim about it, right or wrong:

    precision   of the right answers below the threshold, how many are flawed
    recall      of the flawed right answers, how many are below it

In `spurious` the flaws are the model's own; in `detection` they were written into right solutions
(`injection`), one kind at a time, and each is compared with the solutions it was made from.
Answers of one problem are resampled together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.figures import LEVELS, STEPPED, Figures, plain, present
from remask.analysis.pool import Row
from remask.analysis.statistics import (
    Interval,
    Statistic,
    bootstrap,
    mean,
    paired_difference,
    proportion,
)
from remask.decide.auroc import auroc
from remask.tasks import TASKS
from remask.tasks.flaws import KINDS

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Spurious:
    """How well low scores find right answers with a wrong step."""

    n: int  # right answers with a score and graded steps
    flawed: int
    auroc: Interval | None  # of telling sound from flawed
    auroc_confidence: Interval | None
    above_confidence: Interval | None  # the difference, paired
    below: Interval | None  # share of the right answers below the threshold
    precision: Interval | None
    recall: Interval | None
    score_flawed: Interval | None  # means
    score_sound: Interval | None
    confidence_flawed: Interval | None
    confidence_sound: Interval | None


@dataclass(frozen=True, kw_only=True)
class Detection:
    """How well one kind of flaw, written into right solutions, is found."""

    kind: str
    n: int  # solutions that could be given this flaw
    auroc: Interval | None  # of telling the solutions from the flawed ones
    lowered: Interval | None  # chance that a solution outscores its own flawed copy, ties half
    recall: Interval | None  # share of flawed ones below the threshold
    false_alarms: Interval | None  # share of their originals below it
    score_flawed: Interval | None  # means
    score_sound: Interval | None
    auroc_confidence: Interval | None  # the same by `read_confidence`
    confidence_flawed: Interval | None
    confidence_sound: Interval | None


def spurious(
    rows: Iterable[Row], threshold: float, *, resamples: int = 1000, seed: int = 0
) -> Spurious:
    """Return how well scores below the threshold find the flawed among the right answers."""
    labelled = (row for row in rows if row["right"] and row["process_ok"] is not None)
    kept = [row for row in labelled if _score(row) is not None]
    questions = [row["id"] for row in kept]
    scores, confidence = (_column(kept, name) for name in ("roundtrips", "confidence"))
    sound = np.asarray([row["process_ok"] for row in kept], bool)
    low = scores < threshold
    draw = _Draw(np.asarray(questions), resamples, seed)
    return Spurious(
        n=len(kept),
        flawed=int((~sound).sum()),
        auroc=draw(auroc, scores, sound),
        auroc_confidence=draw(auroc, confidence, sound),
        above_confidence=paired_difference(
            scores, confidence, sound, groups=questions, resamples=resamples, seed=seed
        ),
        below=draw.share(low),
        precision=draw.share(~sound, low),
        recall=draw.share(low, ~sound),
        score_flawed=draw(mean, scores, kept=~sound),
        score_sound=draw(mean, scores, kept=sound),
        confidence_flawed=draw(mean, confidence, kept=~sound),
        confidence_sound=draw(mean, confidence, kept=sound),
    )


def detection(
    rows: Iterable[Row], threshold: float, *, resamples: int = 1000, seed: int = 0
) -> list[Detection]:
    """Return how well each kind of flaw is found among records of `injection`."""
    told = {(row["id"], row["kind"]): row for row in rows if row["text"] is not None}
    return [
        _detection(kind, pairs, threshold, resamples, seed)
        for kind in KINDS
        if (pairs := _pairs(told, kind))
    ]


def examples(rows: Iterable[Row], threshold: float, num: int = 4) -> list[Row]:
    """Return the flawed right answers below the threshold, one per problem, the lowest first."""
    found: dict[str, Row] = {}
    flawed = (row for row in rows if row["right"] and row["process_ok"] is False)
    scored = ((score, row) for row in flawed if (score := _score(row)) is not None)
    for score, row in sorted(scored, key=lambda pair: pair[0]):
        if score < threshold:
            found.setdefault(row["id"], row)
    return list(found.values())[:num]


def flaw_figures(name: str, row: Spurious, file: str) -> Figures:
    """Return the figures of the model's own flaws."""
    intervals = {
        "auroc": (row.auroc, f"AUROC among right answers, {file}"),
        "auroc_confidence": (row.auroc_confidence, "AUROC among right answers"),
        "above_confidence": (row.above_confidence, "AUROC above confidence, paired"),
        "below": (row.below, "share of right answers"),
        "precision": (row.precision, "share"), "recall": (row.recall, "share"),
        "score_flawed": (row.score_flawed, "score"), "score_sound": (row.score_sound, "score"),
        "confidence_flawed": (row.confidence_flawed, "confidence"),
        "confidence_sound": (row.confidence_sound, "confidence"),
    }  # fmt: skip
    flawed = plain(row.flawed, "right answers with a wrong step", row.n)
    return present(name, intervals) | {f"{name}/flawed": flawed}


def detection_figures(name: str, row: Detection) -> Figures:
    """Return the figures of one kind of injected flaw."""
    intervals = {
        "auroc": (row.auroc, "AUROC against the originals"),
        "lowered": (row.lowered, "share scored below their originals"),
        "recall": (row.recall, "share"), "false_alarms": (row.false_alarms, "share"),
        "score_flawed": (row.score_flawed, "score"), "score_sound": (row.score_sound, "score"),
        "auroc_confidence": (row.auroc_confidence, "AUROC against the originals"),
        "confidence_flawed": (row.confidence_flawed, "confidence"),
        "confidence_sound": (row.confidence_sound, "confidence"),
    }  # fmt: skip
    return present(name, intervals)


def flawed_files() -> dict[str, str]:
    """Return the files whose answers have graded steps, and the task of each."""
    pools = {f"pool-{task}-{level}": task for task in TASKS for level in LEVELS}
    return pools | dict.fromkeys(STEPPED, "wordmath")


def _pairs(told: Mapping[tuple[str, str], Row], kind: str) -> list[tuple[Row, Row]]:
    """Return (original, flawed) for every solution that has this flaw and both scores."""
    found = [(told.get((q, "original")), row) for (q, k), row in told.items() if k == kind]
    return [
        (original, row)
        for original, row in found
        if original is not None and None not in (_score(original), _score(row))
    ]


def _detection(
    kind: str, pairs: Sequence[tuple[Row, Row]], threshold: float, resamples: int, seed: int
) -> Detection:
    originals, flawed = ([pair[k] for pair in pairs] for k in (0, 1))
    rows = [*originals, *flawed]
    sound = np.arange(len(rows)) < len(pairs)
    scores, confidence = (_column(rows, name) for name in ("roundtrips", "read_confidence"))
    before, after = scores[sound], scores[~sound]
    both = _Draw(np.asarray([row["id"] for row in rows]), resamples, seed)
    each = _Draw(np.asarray([row["id"] for row in flawed]), resamples, seed)
    return Detection(
        kind=kind,
        n=len(pairs),
        auroc=both(auroc, scores, sound),
        lowered=each(mean, (after < before) + 0.5 * (after == before)),
        recall=each.share(after < threshold),
        false_alarms=each.share(before < threshold),
        score_flawed=each(mean, after),
        score_sound=each(mean, before),
        auroc_confidence=both(auroc, confidence, sound),
        confidence_flawed=each(mean, confidence[~sound]),
        confidence_sound=each(mean, confidence[sound]),
    )


@dataclass(frozen=True)
class _Draw:
    """Bootstraps over questions."""

    questions: Array
    resamples: int
    seed: int

    def __call__(
        self, statistic: Statistic, *columns: ArrayLike, kept: Array | None = None
    ) -> Interval | None:
        rows = np.ones(len(self.questions), bool) if kept is None else kept
        data = [np.asarray(column)[rows] for column in columns]
        groups = self.questions[rows]
        return bootstrap(statistic, *data, groups=groups, resamples=self.resamples, seed=self.seed)

    def share(self, flags: Array, kept: Array | None = None) -> Interval | None:
        """Return a share; never narrower than Wilson's interval, which has a width at 0 and 1."""
        drawn = self(mean, flags, kept=kept)
        wilson = proportion(flags if kept is None else flags[kept])
        if drawn is None or wilson is None:
            return None
        low, high = min(drawn.low, wilson.low), max(drawn.high, wilson.high)
        return Interval(drawn.value, low, high, drawn.n)


def _score(row: Row, name: str = "roundtrips") -> float | None:
    value: float | None = row["scores"].get(name)
    return value


def _column(rows: Sequence[Row], name: str) -> NDArray[np.float64]:
    return np.asarray([_score(row, name) for row in rows], np.float64)
