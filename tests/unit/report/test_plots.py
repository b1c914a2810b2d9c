"""Plots of a study come with the numbers that they draw."""

import csv
from collections.abc import Callable
from pathlib import Path

from remask.analysis.pool import pools
from remask.records.record import Record
from remask.report.plots import Plot, plots

Make = Callable[..., Record]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.with_suffix(".csv").open(newline="") as file:
        return list(csv.DictReader(file))


def by_name(made: list[Plot]) -> dict[str, Plot]:
    return {plot.name: plot for plot in made}


def test_every_plot_is_an_svg_with_its_csv(make_record: Make, tmp_path: Path) -> None:
    """Scores .9 right, .6 wrong, .3 right: of two halves of the coverage the first is right."""
    rows = [
        make_record("a", score=0.9, confidence=0.2),
        make_record("b", score=0.6, confidence=0.4, right=False, answer="2"),
        make_record("c", score=0.3, confidence=0.6),
    ]
    made = by_name(plots(pools(rows)))
    assert list(made) == ["separation", "coverage", "roc", "reliability"]
    paths = {name: plot.write(tmp_path, "s-") for name, plot in made.items()}
    assert all(path.read_text().count("<svg") == 1 for path in paths.values())
    assert "<text" in paths["roc"].read_text()  # letters stay letters
    assert not list(tmp_path.glob("*.png"))
    assert rows_of(paths["separation"]) == [
        {"score": "0.9", "right": "1"},
        {"score": "0.6", "right": "0"},
        {"score": "0.3", "right": "1"},
    ]
    ours = [row for row in rows_of(paths["roc"]) if row["method"] == "roundtrips"]
    shares = [(float(row["wrong_accepted"]), float(row["right_accepted"])) for row in ours]
    assert shares == [(0, 0), (0, 0.5), (1, 0.5), (1, 1)]
    last = [row for row in rows_of(paths["coverage"]) if row["method"] == "confidence"][-1]
    assert (float(last["coverage"]), round(float(last["accuracy"]), 3)) == (1, 0.667)
    bins = [row for row in rows_of(paths["reliability"]) if row["method"] == "roundtrips"]
    assert [(row["mean_score"], row["right"], row["answers"]) for row in bins] == [
        ("0.3", "1.0", "1"), ("0.6", "0.0", "1"), ("0.9", "1.0", "1"),
    ]  # fmt: skip


def test_nothing_is_drawn_of_answers_that_were_not_scored(make_record: Make) -> None:
    row = make_record(score=None, by_trip={})
    assert plots(pools([row])) == []
