"""Spurious success on answers written by hand, with a threshold of 0.75.

answer   score   confidence   right   steps
a        .9      .9           R       sound
b        .8      .8           R       flawed
c        .7      .6           R       sound
d        .6      .95          R       flawed
e        .5      .5           W
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remask.analysis.figure import Figure
from remask.analysis.load_records import read_source
from remask.analysis.spurious import detection, examples, spurious, spurious_figures
from remask.records import jsonl
from remask.records.record import Record

Make = Callable[..., Record]
ANSWERS = (
    ("a", 0.9, 0.9, True, True),
    ("b", 0.8, 0.8, True, False),
    ("c", 0.7, 0.6, True, True),
    ("d", 0.6, 0.95, True, False),
    ("e", 0.5, 0.5, False, False),
)


@pytest.fixture
def rows(make_record: Make) -> list[Record]:
    return [
        make_record(name, score=score, confidence=confidence, right=right, process_ok=sound)
        for name, score, confidence, right, sound in ANSWERS
    ]


def measured(rows: list[Record], threshold: float, resamples: int = 50) -> dict[str, Figure]:
    figures = spurious("s", rows, threshold, resamples=resamples)
    return {figure.measure: figure for figure in figures}


def value(figures: dict[str, Figure], *measures: str) -> tuple[float, ...]:
    return tuple(figures[measure].value for measure in measures)


def test_every_measure_of_four_right_answers_is_worked_out(rows: list[Record]) -> None:
    """Of a > b, a > d, c < b, c > d three pairs are ranked right; by confidence only a > b.

    Below .75 are c and d, of which d is flawed; of the flawed b and d, d is below.
    """
    found = measured(rows, 0.75)
    assert (found["flawed"].n, found["flawed"].value) == (4, 2)
    assert value(found, "auroc", "auroc_confidence", "above_confidence") == (0.75, 0.25, 0.5)
    assert value(found, "below", "precision", "recall") == (0.5, 0.5, 0.5)
    assert value(found, "score_flawed", "score_sound") == pytest.approx((0.7, 0.8))
    assert value(found, "confidence_flawed", "confidence_sound") == pytest.approx((0.875, 0.75))


def test_a_score_at_the_threshold_is_not_below_it(rows: list[Record]) -> None:
    found = measured(rows, 0.6)
    assert value(found, "below", "recall") == (0.0, 0.0)
    assert "precision" not in found, "of nothing there is no share"


def test_shares_keep_their_width_at_one(rows: list[Record]) -> None:
    """Every draw has a recall of 1; Wilson's interval of 2 of 2 begins at 2 / (2 + 1.96^2)."""
    found = measured(rows, 1.0)["recall"]
    assert found.value == 1.0
    assert found.low == pytest.approx(2 / (2 + 1.96**2), abs=1e-3)


def test_answers_without_labels_or_scores_do_not_count(
    make_record: Make, rows: list[Record]
) -> None:
    unlabelled = replace(make_record("f"), process_ok=None)
    unscored = make_record("g", score=None)
    assert measured([*rows, unlabelled, unscored], 0.75)["flawed"].n == 4
    nothing = measured([], 0.75)
    assert list(nothing) == ["flawed"]
    assert (nothing["flawed"].n, nothing["flawed"].value) == (0, 0)


def test_samples_of_one_problem_are_drawn_together(make_record: Make) -> None:
    """Ten equal samples of two problems say no more than two: the interval spans all there is."""
    rows = [
        make_record(name, k, score=score, process_ok=name == "a")
        for name, score in (("a", 0.9), ("b", 0.5))
        for k in range(10)
    ]
    found = measured(rows, 0.75, resamples=200)["below"]
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)


def test_examples_are_the_lowest_of_the_flawed_one_per_problem(
    make_record: Make, rows: list[Record]
) -> None:
    lower = make_record("d", 1, score=0.1, process_ok=False)
    zero = make_record("h", score=0.0, process_ok=False)
    found = examples([*rows, lower, zero], 0.75)
    assert [(row.id, row.scores["roundtrips"]) for row in found] == [
        ("wordmath/hard/h", 0.0), ("wordmath/hard/d", 0.1)
    ]  # fmt: skip
    assert examples([*rows, lower, zero], 0.75, num=1) == [zero]


def injected(make_record: Make, problem: str, kind: str, score: float, confidence: float) -> Record:
    row = make_record(problem, score=score, process_ok=kind == "original")
    row.scores["read_confidence"] = confidence
    return replace(row, kind=kind)


@pytest.fixture
def flawed(make_record: Make) -> list[Record]:
    """Drift lowers one score and leaves the other; skipping applies to one solution alone."""
    return [
        injected(make_record, "p", "original", 0.9, 0.9),
        injected(make_record, "p", "token_drift", 0.6, 0.95),
        injected(make_record, "p", "skipped_constraint", 0.5, 0.8),
        injected(make_record, "q", "original", 0.7, 0.8),
        injected(make_record, "q", "token_drift", 0.7, 0.7),
    ]


def test_each_kind_of_flaw_is_compared_with_its_originals(flawed: list[Record]) -> None:
    """Drift: originals .9 .7, flawed .6 .7. Pairs .9 > both, .7 > .6, .7 = .7: 3.5 of 4.

    One is lowered and one tied: .75. Both flawed ones are below .75, and one original. By
    confidence .9 .8 against .95 .7 two of four pairs are ranked right.
    """
    by_kind: dict[str, dict[str, Figure]] = {}
    for figure in detection("s", flawed, 0.75, resamples=50):
        by_kind.setdefault(figure.method, {})[figure.measure] = figure
    assert list(by_kind) == ["skipped_constraint", "token_drift"]
    skipped, drifted = by_kind.values()
    assert (skipped["recall"].n, drifted["recall"].n) == (1, 2)
    assert value(drifted, "auroc", "lowered") == (3.5 / 4, 0.75)
    assert value(drifted, "recall", "false_alarms") == (1.0, 0.5)
    assert value(drifted, "score_flawed", "score_sound") == pytest.approx((0.65, 0.8))
    assert value(drifted, "auroc_confidence") == (0.5,)
    assert value(drifted, "confidence_flawed") == pytest.approx((0.825,))
    assert value(skipped, "score_sound") == (0.9,), "compared with the solution it was made from"


def test_figures_without_a_file_are_of_the_least_hurried_with_enough_flaws(
    make_record: Make, rows: list[Record], flawed: list[Record], tmp_path: Path
) -> None:
    many = [
        make_record(f"m{k}", score=0.5 + 0.4 * (k % 2), process_ok=k % 2 == 1) for k in range(200)
    ]
    files = {
        "pool-wordmath-medium": rows, "hurried-24": many, "injected-wordmath-hard": flawed,
    }  # fmt: skip
    for name, records in files.items():
        jsonl.append(tmp_path / f"{name}.jsonl", [record.to_json() for record in records])
    found = spurious_figures(read_source(tmp_path))
    assert found["spurious/auroc"].value == 1.0
    assert found["spurious/auroc"].unit.endswith("hurried-24")
    assert (found["spurious/precision"].value, found["spurious/recall"].value) == (1.0, 1.0)
    assert found["spurious/pool-wordmath-medium/auroc"].value == 0.75
    assert found["spurious/pool-wordmath-medium/flawed"].value == 2
    assert found["spurious/injected/wordmath-hard/token_drift/lowered"].value == 0.75
