"""Curves from records written by hand: four answers under a few settings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from remask.analysis.curves import curves
from remask.analysis.figure import Figures
from remask.analysis.load_records import curve_records
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


def found(*folders: Path) -> Figures:
    seeds = [curve_records(folder, "pool-wordmath-hard") for folder in folders]
    return Figures(curves("s", seeds, resamples=20))


def values(figures: Figures, setting: str, *measures: str) -> tuple[float, ...]:
    return tuple(figures[f"ablation/s/{setting}/{measure}"].value for measure in measures)


def test_a_setting_is_compared_with_the_default_on_the_same_answers(folder: Path) -> None:
    """With 4 steps three of four pairs are ranked right, for 10 + 2 forwards; with 16 all four."""
    points = found(folder)
    measures = ("auroc", "above_default", "forwards", "verify_forwards")
    assert values(points, "rebuild_steps/4", *measures) == (0.75, -0.25, 12, 2)
    assert values(points, "rebuild_steps/16", "auroc", "forwards") == (1.0, 18)
    assert "ablation/s/rebuild_steps/16/above_default" not in points
    same = [values(points, s, "auroc") for s in ("mask_ratio/0.9", "rebuild_steps/16")]
    assert same[0] == same[1], "one default for every curve"


def test_the_default_is_measured_where_the_curves_are(make_row: Make, folder: Path) -> None:
    """A fifth problem that no curve has is no part of the comparison."""
    jsonl.append(folder / "pool-wordmath-hard.jsonl", [make_row("e", score=0.0, right=True)])
    figure = found(folder)["ablation/s/rebuild_steps/16/auroc"]
    assert (figure.value, figure.n) == (1.0, 4)


def test_fewer_trips_are_the_first_of_many(make_row: Make, tmp_path: Path) -> None:
    """The first trip ranks 3 of 4 pairs right, all eight 4 of 4; an eighth of the forwards."""
    many = [
        {**make_row(name, right=RIGHT[name], by_trip={"token_accuracy": [MIXED[name], *[x] * 7]})}
        for name, x in APART.items()
    ]
    jsonl.append(tmp_path / "trips-8.jsonl", many)
    points = found(tmp_path)
    assert points.distinct("method") == ["trips"]
    assert points.distinct("part") == ["1", "2", "4", "8"]
    measures = ("above_default", "forwards", "verify_forwards")
    assert values(points, "trips/1", *measures) == (-0.25, 11, 1)
    assert values(points, "trips/4", "forwards") == (14,)
    assert "ablation/s/trips/4/above_default" not in points


def test_seeds_are_folders_and_are_averaged(make_row: Make, folder: Path) -> None:
    """The second seed has an AUROC of 1 with 4 steps: (3/4 + 1) / 2."""
    second = folder / "second"
    second.mkdir()
    for name in ("pool-wordmath-hard", "steps-4"):
        renamed = [{**row, "id": f"{row['id']}/again"} for row in rows(make_row, APART)]
        jsonl.append(second / f"{name}.jsonl", renamed)
    points = found(folder, second)
    measures = ("auroc", "seeds", "above_default")
    assert values(points, "rebuild_steps/4", *measures) == (0.875, 2, -0.125)
    assert points["ablation/s/rebuild_steps/4/auroc"].n == 8


def test_nothing_is_told_without_records(tmp_path: Path) -> None:
    assert not found(tmp_path)
