"""Curves from records written by hand: four answers under a few settings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from remask.analysis.curves import Point, curves, point_figures, settings_in
from remask.records import jsonl

Row = dict[str, Any]
Make = Callable[..., Row]
RIGHT = {"a": True, "b": True, "c": False, "d": False}
APART = dict(zip("abcd", (0.9, 0.8, 0.2, 0.1), strict=True))  # AUROC 1
MIXED = dict(zip("abcd", (0.9, 0.3, 0.4, 0.1), strict=True))  # AUROC 3/4


def rows(make_row: Make, scores: Mapping[str, float], **changed: Any) -> list[Row]:
    return [{**make_row(name, score=x, right=RIGHT[name]), **changed} for name, x in scores.items()]


@pytest.fixture
def folder(make_row: Make, tmp_path: Path) -> Path:
    jsonl.append(tmp_path / "pool-wordmath-hard.jsonl", rows(make_row, APART))
    jsonl.append(tmp_path / "steps-4.jsonl", rows(make_row, MIXED, verify_forwards=2))
    return tmp_path


def found(*folders: Path) -> dict[str, Point]:
    return {
        point.setting: point for point in curves([settings_in(f) for f in folders], resamples=20)
    }


def test_a_setting_is_compared_with_the_default_on_the_same_answers(folder: Path) -> None:
    """With 4 steps three of four pairs are ranked right, for 10 + 2 forwards; with 16 all four."""
    points = found(folder)
    few, usual = points["rebuild_steps/4"], points["rebuild_steps/16"]
    assert few.auroc is not None
    assert few.above_default is not None
    assert usual.auroc is not None
    assert (few.auroc.value, few.above_default.value, usual.auroc.value) == (0.75, -0.25, 1.0)
    assert (few.forwards, few.verify_forwards, usual.forwards) == (12, 2, 18)
    assert usual.above_default is None
    assert points["mask_ratio/0.9"].auroc == usual.auroc, "one default for every curve"


def test_the_default_is_measured_where_the_curves_are(make_row: Make, folder: Path) -> None:
    """A fifth problem that no curve has is no part of the comparison."""
    jsonl.append(folder / "pool-wordmath-hard.jsonl", [make_row("e", score=0.0, right=True)])
    point = found(folder)["rebuild_steps/16"]
    assert point.auroc is not None
    assert (point.auroc.value, point.auroc.n) == (1.0, 4)


def test_fewer_trips_are_the_first_of_many(make_row: Make, tmp_path: Path) -> None:
    """The first trip ranks 3 of 4 pairs right, all eight 4 of 4; an eighth of the forwards."""
    many = [
        {**make_row(name, right=RIGHT[name], by_trip={"token_accuracy": [MIXED[name], *[x] * 7]})}
        for name, x in APART.items()
    ]
    jsonl.append(tmp_path / "trips-8.jsonl", many)
    points = found(tmp_path)
    assert set(points) == {"trips/1", "trips/2", "trips/4", "trips/8"}
    one, four = points["trips/1"], points["trips/4"]
    assert one.above_default is not None
    assert one.above_default.value == -0.25
    assert (one.forwards, one.verify_forwards, four.forwards) == (11, 1, 14)
    assert four.above_default is None


def test_seeds_are_folders_and_are_averaged(make_row: Make, folder: Path) -> None:
    """The second seed has an AUROC of 1 with 4 steps: (3/4 + 1) / 2."""
    second = folder / "second"
    second.mkdir()
    for name in ("pool-wordmath-hard", "steps-4"):
        renamed = [{**row, "id": f"{row['id']}/again"} for row in rows(make_row, APART)]
        jsonl.append(second / f"{name}.jsonl", renamed)
    point = found(folder, second)["rebuild_steps/4"]
    assert point.auroc is not None
    assert point.above_default is not None
    assert (point.auroc.value, point.auroc.n, point.seeds) == (0.875, 8, 2)
    assert point.above_default.value == -0.125


def test_nothing_is_told_without_records(tmp_path: Path) -> None:
    assert curves([settings_in(tmp_path)]) == []


def test_a_point_is_named_by_study_setting_and_value(folder: Path) -> None:
    figures = point_figures("wordmath-hard", found(folder).values())
    assert figures["ablation/wordmath-hard/rebuild_steps/4/auroc"].value == 0.75
    assert figures["ablation/wordmath-hard/rebuild_steps/4/above_default"].value == -0.25
    assert figures["ablation/wordmath-hard/rebuild_steps/4/verify_forwards"].value == 2
