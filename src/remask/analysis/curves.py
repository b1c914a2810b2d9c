"""Curves: the round trips under other settings, on the same answers, with what each costs.

Every setting departs from the defaults in one thing and is compared with them on the questions
both were measured on, over all seeds that have it. Numbers of trips are read from one file with
the most, whose first ones are those of fewer.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from remask.analysis.bootstrap import Run, auroc_gap, over_seeds
from remask.analysis.figure import Figure, Figures, Place, of_intervals
from remask.analysis.folder import DEFAULTS, TRIPS
from remask.analysis.load_records import CurveRecords, Setting, Source
from remask.analysis.methods import ROUNDTRIPS, Method, of_trips
from remask.analysis.pool import verify_forwards
from remask.analysis.statistics import aupr
from remask.decide.auroc import auroc
from remask.records.record import Record

SECTION = "ablation"  # the curves are rows of the ablation


class _Answers(NamedTuple):
    """The answers of one setting and seed, and how they are scored."""

    rows: Mapping[str, Record]  # by question
    method: Method
    trips: int | None  # None: as many as were made


_Pair = tuple[_Answers, _Answers | None]  # of a setting, and of the default it is compared with


def curve_figures(source: Source) -> Figures:
    """Return the curves of every study that has some."""
    return Figures(
        figure for study, seeds in source.curves.items() for figure in curves(study, seeds)
    )


def curves(
    study: str, seeds: Sequence[CurveRecords], *, resamples: int = 1000, seed: int = 0
) -> list[Figure]:
    """Return what each setting shows, over the seeds that have it."""
    by_setting: dict[Setting, list[_Pair]] = {}
    for records in seeds:
        for setting, pair in _pairs(records).items():
            by_setting.setdefault(setting, []).append(pair)
    return [
        figure
        for (method, part), pairs in by_setting.items()
        for figure in _point(
            {"section": SECTION, "study": study, "method": method, "part": part},
            pairs, resamples, seed,
        )
    ]  # fmt: skip


def _pairs(records: CurveRecords) -> dict[Setting, _Pair]:
    """Return each setting of one seed with the default it is compared to."""
    questions = {question for rows in records.changed.values() for question in rows}
    rows = {q: row for q, row in records.usual.items() if q in questions}
    usual = _Answers(rows, ROUNDTRIPS, None) if rows else None
    pairs: dict[Setting, _Pair] = {}
    if usual is not None:
        pairs |= {(n, value): (usual, None) for n, value in DEFAULTS.items() if n != "trips"}
    changed = records.changed.items()
    pairs |= {setting: (_Answers(rows, ROUNDTRIPS, None), usual) for setting, rows in changed}
    if records.many:
        by_trips = {str(n): _Answers(records.many, of_trips(n), n) for n in TRIPS}
        default = DEFAULTS["trips"]
        pairs |= {
            ("trips", n): (answers, None if n == default else by_trips[default])
            for n, answers in by_trips.items()
        }
    return pairs


def _point(place: Place, pairs: Sequence[_Pair], resamples: int, seed: int) -> list[Figure]:
    single = [_run(own) for own, _ in pairs]
    paired = [_run(own, usual) for own, usual in pairs if usual is not None]
    answers = [(own, row) for own, _ in pairs for row in own.rows.values()]
    draw: Any = {"resamples": resamples, "seed": seed}
    gap = over_seeds(auroc_gap, paired, **draw)
    intervals = {
        "auroc": (over_seeds(auroc, single, **draw), "AUROC"),
        "aupr": (over_seeds(aupr, single, **draw), "AUPR"),
        "above_default": (gap, "AUROC above the default, paired"),
    }
    spent = fmean(own.method.forwards([row]) for own, row in answers)
    verifying = fmean(verify_forwards(row, own.trips) for own, row in answers)
    return [
        *of_intervals(intervals, **place),
        Figure(**place, measure="forwards", value=spent, unit="forwards"),
        Figure(**place, measure="verify_forwards", value=verifying, unit="forwards"),
        Figure(**place, measure="seeds", value=len(pairs), unit="seeds"),
    ]


def _run(*answers: _Answers) -> Run:
    """Return the questions that all have a score for, then scores and labels of each."""
    scores = [{q: each.method.score([row]) for q, row in each.rows.items()} for each in answers]
    shared = [q for q in scores[0] if all(column.get(q) is not None for column in scores)]
    columns: list[Sequence[Any]] = [shared]
    for each, column in zip(answers, scores, strict=True):
        columns += [[column[q] for q in shared], [bool(each.rows[q].right) for q in shared]]
    return columns
