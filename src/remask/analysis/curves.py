"""Curves: the round trips under other settings, on the same answers, with what each costs.

A folder of records per seed, files named as in `figures.CURVES`. Every setting departs from the
defaults in one thing and is compared with them on the questions both were measured on. Numbers of
trips are told from one file with the most, whose first ones are those of fewer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from remask.analysis.diagnosis import ROUNDTRIPS, Method, of_trips
from remask.analysis.figures import CURVES, DEFAULTS, MAIN, TRIPS, Figures, plain, present, read
from remask.analysis.pool import Row, verify_forwards
from remask.analysis.seeds import Run, auroc_gap, over_seeds
from remask.analysis.statistics import Interval, aupr
from remask.decide.auroc import auroc

USUAL_TRIPS = 4


@dataclass(frozen=True, kw_only=True)
class Point:
    """One setting of the round trips."""

    setting: str  # "mask_ratio/0.3"
    auroc: Interval | None
    aupr: Interval | None
    above_default: Interval | None  # AUROC beyond that of the default; None for itself
    forwards: float  # per answer, generation included
    verify_forwards: float
    seeds: int


class Settings(NamedTuple):
    """The answers of one seed under other settings, each by question."""

    usual: Mapping[str, Row]  # under the default settings
    changed: Mapping[str, Mapping[str, Row]]  # by what is changed: "mask_ratio/0.3"
    many: Mapping[str, Row]  # with more round trips than usual


class _Told(NamedTuple):
    """The answers of one setting and seed, and how they are scored."""

    rows: Mapping[str, Row]  # by question
    method: Method
    trips: int | None  # None: as many as were made


def curves(seeds: Sequence[Settings], *, resamples: int = 1000, seed: int = 0) -> list[Point]:
    """Return a point for every setting, over the seeds that have it."""
    found: dict[str, list[tuple[_Told, _Told | None]]] = {}
    for settings in seeds:
        for setting, pair in _pairs(settings).items():
            found.setdefault(setting, []).append(pair)
    return [_point(name, pairs, resamples, seed) for name, pairs in found.items()]


def point_figures(study: str, points: Iterable[Point]) -> Figures:
    """Return the figures of some points of a study."""
    found: Figures = {}
    for point in points:
        name = f"ablation/{study}/{point.setting}"
        intervals = {
            "auroc": (point.auroc, "AUROC"), "aupr": (point.aupr, "AUPR"),
            "above_default": (point.above_default, "AUROC above the default, paired"),
        }  # fmt: skip
        found |= present(name, intervals)
        found[f"{name}/forwards"] = plain(point.forwards, "forwards")
        found[f"{name}/verify_forwards"] = plain(point.verify_forwards, "forwards")
        found[f"{name}/seeds"] = plain(point.seeds, "seeds")
    return found


def settings_in(folder: Path) -> Settings:
    """Return the files of one seed."""
    return Settings(
        usual=_read(folder, f"pool-{MAIN}"),
        changed={name: rows for file, name in CURVES.items() if (rows := _read(folder, file))},
        many=_read(folder, f"trips-{max(TRIPS)}"),
    )


def _pairs(settings: Settings) -> dict[str, tuple[_Told, _Told | None]]:
    """Return each setting of one seed with the default it is compared to."""
    changed, many = settings.changed, settings.many
    asked = {question for rows in changed.values() for question in rows}
    rows = {q: row for q, row in settings.usual.items() if q in asked}
    usual = _Told(rows, ROUNDTRIPS, None) if rows else None
    found: dict[str, tuple[_Told, _Told | None]] = {}
    if usual is not None:
        found |= dict.fromkeys(DEFAULTS, (usual, None))
    found |= {name: (_Told(rows, ROUNDTRIPS, None), usual) for name, rows in changed.items()}
    if many:
        told = {trips: _Told(many, of_trips(trips), trips) for trips in TRIPS}
        found |= {
            f"trips/{trips}": (each, None if trips == USUAL_TRIPS else told[USUAL_TRIPS])
            for trips, each in told.items()
        }
    return found


def _read(folder: Path, name: str) -> dict[str, Row]:
    return {row["id"]: row for row in read(folder, name) if row["number"] == 0}


def _point(
    setting: str, pairs: Sequence[tuple[_Told, _Told | None]], resamples: int, seed: int
) -> Point:
    single = [_run(own) for own, _ in pairs]
    paired = [_run(own, usual) for own, usual in pairs if usual is not None]
    answers = [(own, row) for own, _ in pairs for row in own.rows.values()]
    return Point(
        setting=setting,
        auroc=over_seeds(auroc, single, resamples=resamples, seed=seed),
        aupr=over_seeds(aupr, single, resamples=resamples, seed=seed),
        above_default=over_seeds(auroc_gap, paired, resamples=resamples, seed=seed),
        forwards=fmean(own.method.forwards([row]) for own, row in answers),
        verify_forwards=fmean(verify_forwards(row, own.trips) for own, row in answers),
        seeds=len(pairs),
    )


def _run(*told: _Told) -> Run:
    """Return the questions that all have a score for, then scores and labels of each."""
    scores = [{q: each.method.score([row]) for q, row in each.rows.items()} for each in told]
    kept = [q for q in scores[0] if all(column.get(q) is not None for column in scores)]
    columns: list[Sequence[Any]] = [kept]
    for each, column in zip(told, scores, strict=True):
        columns += [[column[q] for q in kept], [bool(each.rows[q]["right"]) for q in kept]]
    return columns
