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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.bootstrap import Interval, Statistic, auroc_gap, bootstrap
from remask.analysis.figure import INJECTED, Figure, Figures, of_intervals
from remask.analysis.folder import STEPPED
from remask.analysis.load_records import LabelledRecords, Source, required
from remask.analysis.statistics import mean, proportion
from remask.decide.auroc import auroc
from remask.records.record import Record
from remask.tasks.flaws import KINDS

SECTION = "spurious"
WRONG_STEPS = 100  # right answers with a wrong step that a figure without a file needs
Array = NDArray[Any]


def spurious_figures(source: Source) -> Figures:
    """Return how well low scores find flaws in right answers, the model's own and injected ones.

    Those of the model come once more without a file's name: of the least hurried sampling that has
    enough of them.
    """
    own = {
        each.name: spurious(each.name, each.rows, each.threshold)
        for each in source.labelled
        if _is_labelled(each)
    }
    figures = [figure for each in own.values() for figure in each]
    if own:
        chosen = least_hurried({name: _flawed(each) for name, each in own.items()})
        figures += [replace(figure, study="") for figure in own[chosen]]
    for each in source.injected:
        figures += detection(each.name, each.rows, each.threshold)
    needed = (
        "scored right answers with labels on their steps, which only generated tasks have, nor "
        "injected flaws"
    )
    return required(Figures(figures), source, needed, "--task wordmath --scored 1")


def least_hurried(flawed: Mapping[str, float]) -> str:
    """Return the least hurried file with enough flawed answers, or the one with most."""
    candidates = [name for name in STEPPED if name in flawed] or list(flawed)
    enough = [name for name in candidates if flawed[name] >= WRONG_STEPS]
    return enough[0] if enough else max(candidates, key=flawed.__getitem__)


def spurious(
    study: str, rows: Iterable[Record], threshold: float, *, resamples: int = 1000, seed: int = 0
) -> list[Figure]:
    """Return how well scores below the threshold find the flawed among the right answers."""
    labelled = (row for row in rows if row.right and row.process_ok is not None)
    scored = [row for row in labelled if _score(row) is not None]
    questions = [row.id for row in scored]
    scores, confidence = (_column(scored, name) for name in ("roundtrips", "confidence"))
    sound = np.asarray([row.process_ok for row in scored], bool)
    low = scores < threshold
    draw = _Draw(np.asarray(questions), resamples, seed)
    gap = draw(auroc_gap, scores, sound, confidence, sound)
    intervals = {
        "auroc": (draw(auroc, scores, sound), f"AUROC among right answers, {study}"),
        "auroc_confidence": (draw(auroc, confidence, sound), "AUROC among right answers"),
        "above_confidence": (gap, "AUROC above confidence, paired"),
        "below": (draw.share(low), "share of right answers"),
        "precision": (draw.share(~sound, low), "share"),
        "recall": (draw.share(low, ~sound), "share"),
        "score_flawed": (draw(mean, scores, where=~sound), "score"),
        "score_sound": (draw(mean, scores, where=sound), "score"),
        "confidence_flawed": (draw(mean, confidence, where=~sound), "confidence"),
        "confidence_sound": (draw(mean, confidence, where=sound), "confidence"),
    }
    flawed = Figure(
        section=SECTION, study=study, measure="flawed", value=int((~sound).sum()),
        n=len(scored), unit="right answers with a wrong step",
    )  # fmt: skip
    return [*of_intervals(intervals, section=SECTION, study=study), flawed]


def detection(
    study: str, rows: Iterable[Record], threshold: float, *, resamples: int = 1000, seed: int = 0
) -> list[Figure]:
    """Return how well each kind of flaw is found among records of `injection`."""
    written = {(row.id, row.kind or ""): row for row in rows}
    return [
        figure
        for kind in KINDS
        if (pairs := _pairs(written, kind))
        for figure in _detection(study, kind, pairs, threshold, resamples, seed)
    ]


def examples(rows: Iterable[Record], threshold: float, num: int = 4) -> list[Record]:
    """Return the flawed right answers below the threshold, one per problem, the lowest first."""
    chosen: dict[str, Record] = {}
    flawed = (row for row in rows if row.right and row.process_ok is False)
    scored = ((score, row) for row in flawed if (score := _score(row)) is not None)
    for score, row in sorted(scored, key=lambda pair: pair[0]):
        if score < threshold:
            chosen.setdefault(row.id, row)
    return list(chosen.values())[:num]


def _is_labelled(records: LabelledRecords) -> bool:
    """Say whether some right answers have graded steps and a score."""
    right = (row for row in records.rows if row.right and row.process_ok is not None)
    return any(_score(row) is not None for row in right)


def _flawed(figures: Iterable[Figure]) -> float:
    return next(figure.value for figure in figures if figure.measure == "flawed")


def _pairs(written: Mapping[tuple[str, str], Record], kind: str) -> list[tuple[Record, Record]]:
    """Return (original, flawed) for every solution that has this flaw and both scores."""
    flawed = [(written.get((q, "original")), row) for (q, k), row in written.items() if k == kind]
    return [
        (original, row)
        for original, row in flawed
        if original is not None and None not in (_score(original), _score(row))
    ]


def _detection(
    study: str,
    kind: str,
    pairs: Sequence[tuple[Record, Record]],
    threshold: float,
    resamples: int,
    seed: int,
) -> list[Figure]:
    originals, flawed = ([pair[k] for pair in pairs] for k in (0, 1))
    rows = [*originals, *flawed]
    sound = np.arange(len(rows)) < len(pairs)
    scores, confidence = (_column(rows, name) for name in ("roundtrips", "read_confidence"))
    before, after = scores[sound], scores[~sound]
    both = _Draw(np.asarray([row.id for row in rows]), resamples, seed)
    each = _Draw(np.asarray([row.id for row in flawed]), resamples, seed)
    lowered = each(mean, (after < before) + 0.5 * (after == before))
    intervals = {
        "auroc": (both(auroc, scores, sound), "AUROC against the originals"),
        "lowered": (lowered, "share scored below their originals"),
        "recall": (each.share(after < threshold), "share"),
        "false_alarms": (each.share(before < threshold), "share"),
        "score_flawed": (each(mean, after), "score"),
        "score_sound": (each(mean, before), "score"),
        "auroc_confidence": (both(auroc, confidence, sound), "AUROC against the originals"),
        "confidence_flawed": (each(mean, confidence[~sound]), "confidence"),
        "confidence_sound": (each(mean, confidence[sound]), "confidence"),
    }
    return of_intervals(intervals, section=INJECTED, study=study, method=kind)


@dataclass(frozen=True)
class _Draw:
    """Bootstraps over questions."""

    questions: Array
    resamples: int
    seed: int

    def __call__(
        self, statistic: Statistic, *columns: ArrayLike, where: Array | None = None
    ) -> Interval | None:
        rows = np.ones(len(self.questions), bool) if where is None else where
        data = [np.asarray(column)[rows] for column in columns]
        groups = self.questions[rows]
        return bootstrap(statistic, *data, groups=groups, resamples=self.resamples, seed=self.seed)

    def share(self, flags: Array, where: Array | None = None) -> Interval | None:
        """Return a share; never narrower than Wilson's interval, which has a width at 0 and 1."""
        drawn = self(mean, flags, where=where)
        wilson = proportion(flags if where is None else flags[where])
        if drawn is None or wilson is None:
            return None
        low, high = min(drawn.low, wilson.low), max(drawn.high, wilson.high)
        return Interval(drawn.value, low, high, drawn.n)


def _score(row: Record, name: str = "roundtrips") -> float | None:
    return row.scores.get(name)


def _column(rows: Sequence[Record], name: str) -> NDArray[np.float64]:
    return np.asarray([_score(row, name) for row in rows], np.float64)
