"""Calibrators against curves worked by hand, and what every curve must keep."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remask.decide.calibration import Calibrator, Isotonic, Method, Platt, fit_calibrator
from remask.decide.provenance import Provenance
from remask.errors import InputError, RecordError, SettingsError

Made = Callable[..., Provenance]
METHODS: list[Method] = ["isotonic", "platt"]
SCORES = st.one_of(
    st.none(), st.floats(0, 1), st.integers(0, 4).map(lambda k: k / 4), st.floats(-1e6, 1e6)
)
ANSWERS = st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=40)


def test_isotonic_pools_the_neighbours_that_are_out_of_order(made_of: Made) -> None:
    """Labels 0 1 0 1 at .1 .2 .3 .4: the middle two pool to 1/2. Between .3 and .4 it is straight.

    At .35 that is half way from 1/2 to 1: 3/4. Below .1 it stays 0, above .4 it stays 1.
    """
    labels = [False, True, False, True]
    found = fit_calibrator([0.1, 0.2, 0.3, 0.4], labels, made_of("a"))
    knots, heights = (0.1, 0.2, 0.3, 0.4), (0, 0.5, 0.5, 1)
    assert found == Isotonic(knots=knots, heights=heights, n=4, provenance=made_of("a"))
    told = found.probabilities([0.0, 0.25, 0.35, None, 2.0])
    assert told == [0, 0.5, pytest.approx(0.75), None, 1]


def test_isotonic_takes_equal_scores_together(made_of: Made) -> None:
    """At .5: two right of three."""
    found = fit_calibrator([0.5, 0.5, 0.5], [True, True, False], made_of("a"))
    assert found.probabilities([0.1, 0.9]) == pytest.approx([2 / 3, 2 / 3])


def test_platt_is_worked_out_by_hand(made_of: Made) -> None:
    """Score 0: 1 right of 4; score 1: 3 right of 4. Four of each, so the targets are 5/6 and 1/6.

    Mean target (5 + 3) / 24 = 1/3 at 0 and 2/3 at 1, which two parameters meet: logit -log 2 at 0,
    +log 2 at 1.
    """
    right = [True, False, False, False, True, True, True, False]
    found = fit_calibrator([0.0] * 4 + [1.0] * 4, right, made_of("a"), "platt")
    assert isinstance(found, Platt)
    assert found.intercept == pytest.approx(-math.log(2), abs=1e-5)
    assert found.slope == pytest.approx(2 * math.log(2), abs=1e-5)
    assert found.probabilities([0.0, 0.5, 1.0]) == pytest.approx([1 / 3, 1 / 2, 2 / 3], abs=1e-5)


def test_platt_never_turns_a_score_around(made_of: Made) -> None:
    """Right answers score lower: the best rising curve is flat, at the mean target 1/2."""
    found = fit_calibrator([0.2, 0.9] * 5, [True, False] * 5, made_of("a"), "platt")
    assert found.probabilities([0.0, 1.0]) == pytest.approx([0.5, 0.5], abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_come_near_the_truth(made_of: Made, method: Method) -> None:
    """The chance of being right is the logistic of 8 s - 4, and 20,000 answers tell it."""
    generator = np.random.default_rng(5)
    scores = generator.random(20_000)
    right = generator.random(20_000) < 1 / (1 + np.exp(4 - 8 * scores))
    found = fit_calibrator(scores, right, made_of("a"), method)
    asked = np.linspace(0.05, 0.95, 19)
    truth = 1 / (1 + np.exp(4 - 8 * asked))
    assert np.abs(np.array(found.probabilities(asked.tolist())) - truth).max() < 0.05


@settings(max_examples=80)
@given(ANSWERS, st.sampled_from(METHODS))
def test_every_curve_rises_within_0_and_1_and_makes_the_round_trip(
    made_of: Made,
    tmp_path_factory: pytest.TempPathFactory,
    answers: list[tuple[float | None, bool]],
    method: Method,
) -> None:
    scores, right = [score for score, _ in answers], [label for _, label in answers]
    present = sorted(score for score in scores if score is not None)
    if not present:
        with pytest.raises(InputError, match="must hold a number"):
            fit_calibrator(scores, right, made_of("a"), method)
        return
    found = fit_calibrator(scores, right, made_of("a"), method)
    asked = [-2e6, *present, *np.linspace(-1, 2, 20).tolist(), 2e6]
    told = [p for p in found.probabilities(sorted(asked)) if p is not None]
    assert len(told) == len(asked)
    assert told == sorted(told)
    assert told[0] >= 0
    assert told[-1] <= 1
    assert found.n == len(present)
    path = tmp_path_factory.mktemp("any") / "calibrator.json"
    found.save(path)
    assert Calibrator.load(path, "core", ("a",)) == found
    assert fit_calibrator(scores, right, made_of("a"), method) == found


def test_a_file_of_another_metric_set_is_refused(made_of: Made, tmp_path: Path) -> None:
    path = tmp_path / "calibrator.json"
    fit_calibrator([0.1, 0.2], [False, True], made_of("a")).save(path)
    with pytest.raises(RecordError, match="was fitted to metric set 'core'"):
        Calibrator.load(path, "paper", ("a",))


@pytest.mark.parametrize(
    "change",
    [
        {"method": "spline"}, {"knots": [0.2, 0.1]}, {"heights": [0.9, 0.1]}, {"heights": [0, 2]},
        {"heights": [0.5]}, {"knots": None}, {"knots": [], "heights": []}, {"surplus": 1},
    ],
)  # fmt: skip
def test_a_damaged_curve_is_refused(made_of: Made, tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "calibrator.json"
    fit_calibrator([0.1, 0.2], [False, True], made_of("a")).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RecordError, match="is damaged"):
        Calibrator.load(path, "core", ("a",))


def test_an_unknown_method_is_refused(made_of: Made) -> None:
    with pytest.raises(SettingsError, match="method must be isotonic or platt, got 'spline'"):
        fit_calibrator([0.1], [True], made_of("a"), "spline")  # type: ignore[arg-type]
