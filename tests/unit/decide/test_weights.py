"""Fitted weights: small cases by hand, simulated metrics, and what any fit must keep."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from remask.analysis.pool import score_of
from remask.decide import weights as room
from remask.decide.auroc import auroc
from remask.decide.columns import metric_columns
from remask.decide.provenance import Provenance
from remask.decide.weights import Weights, combine, fit_weights
from remask.errors import InputError, RecordError
from remask.records.record import Record

Made = Callable[..., Provenance]
VALUES = st.one_of(st.none(), st.integers(0, 4).map(lambda k: k / 4))
TABLES = st.lists(st.tuples(VALUES, VALUES, VALUES, st.booleans()), min_size=2, max_size=30)


def fit(made_of: Made, columns: Mapping[str, list[float | None]], right: list[bool]) -> Weights:
    return fit_weights(columns, right, made_of(*columns))


def test_two_metrics_get_weight_in_proportion_to_their_log_odds(made_of: Made) -> None:
    """Right are 1 of 4 at (0, 0), 3 of 4 at (1, 0), 1 of 2 at (0, 1) and 9 of 10 at (1, 1).

    The odds are 1/3, 3, 1, 9: times 9 for the first metric and times 3 for the second. The logs are
    2 log 3 and log 3, so the weights are 2/3 and 1/3. 1,000 times each, so that the ridge is small.
    """
    cells = [((0.0, 0.0), 1, 4), ((1.0, 0.0), 3, 4), ((0.0, 1.0), 1, 2), ((1.0, 1.0), 9, 10)]
    rows = [(*at, k < hits) for at, hits, n in cells for k in range(n)] * 1000
    columns = {name: [row[k] for row in rows] for k, name in enumerate(("a", "b"))}
    found = fit(made_of, columns, [row[2] for row in rows])
    assert found.values == pytest.approx({"a": 2 / 3, "b": 1 / 3}, abs=2e-3)
    assert found.n == 20_000


def test_a_metric_that_points_the_wrong_way_or_nowhere_gets_nothing(made_of: Made) -> None:
    """With uniform weights right ones have (.9 + .1 + .5) / 3 = .5, wrong ones .6: AUROC 0."""
    right = [True, False] * 20
    columns = {
        "good": [0.9 if r else 0.4 for r in right], "bad": [0.1 if r else 0.9 for r in right],
        "flat": [0.5] * 40, "absent": [None] * 40,
    }  # fmt: skip
    found = fit(made_of, columns, right)
    assert found.values == {"good": 1, "bad": 0, "flat": 0, "absent": 0}
    assert (found.auroc, found.auroc_uniform) == (1, 0)


def test_metrics_that_say_the_same_share_their_weight(made_of: Made) -> None:
    column = [0.9, 0.8, 0.6, 0.7, 0.3, 0.2]
    found = fit(made_of, {"a": column, "b": column}, [True, True, True, False, False, False])
    assert found.values == {"a": 0.5, "b": 0.5}


def test_metrics_without_use_leave_uniform_weights(made_of: Made) -> None:
    """Both point the wrong way, so that no coefficient is above 0."""
    found = fit(made_of, {"a": [0.1, 0.9] * 9, "b": [0.2, 0.7] * 9}, [True, False] * 9)
    assert found.values == {"a": 0.5, "b": 0.5}
    assert found.auroc == found.auroc_uniform == 0


def test_the_weighted_mean_is_taken_over_what_is_present() -> None:
    """(3 x .8 + .4) / 4 = .7; then .4 alone; then nothing; then only what has no weight."""
    columns = {"a": [0.8, None, None, None], "b": [0.4, 0.4, None, None], "c": [0, 0, None, 1]}
    found = combine(columns, {"a": 0.75, "b": 0.25, "c": 0.0})
    assert found == [pytest.approx(0.7), 0.4, None, None]


def test_uniform_weights_give_the_score_of_the_studies(make_record: Callable[..., Record]) -> None:
    """tok .75; num is absent in trip 0, so 1; cross-entropy is not asked for."""
    by_trip = {
        "token_accuracy": [0.5, 1.0], "number_retention": [None, 1.0], "cross_entropy": [0, 0],
    }  # fmt: skip
    row = make_record(by_trip=by_trip)
    names = ("token_accuracy", "number_retention")
    columns = metric_columns([row, make_record(by_trip={})], names)
    assert columns == {"token_accuracy": [0.75, None], "number_retention": [1.0, None]}
    assert combine(columns, dict.fromkeys(names, 0.5)) == [score_of(row), None]


def test_the_gradient_is_that_of_the_loss() -> None:
    """Against finite differences, with absent values, at a point that is no optimum."""
    generator = np.random.default_rng(0)
    values = generator.random((50, 3))
    present = generator.random((50, 3)) < 0.7
    present[:, 0] |= ~present.any(1)
    signs = np.where(generator.random(50) < 0.6, 1.0, -1.0)
    data = (values * present, present, signs, np.array([0.3, 0.2, 0.5]))
    theta = np.array([0.2, 0.7, 0.1, 0.4])
    _, gradient = room._loss(theta, *data)
    assert gradient == pytest.approx(
        approx_fprime(theta, lambda t: room._loss(t, *data)[0], 1e-7), abs=1e-6
    )


def simulated(n: int, slopes: list[float], seed: int) -> tuple[dict[str, list[float]], list[bool]]:
    """Return metrics that share noise and rise with rightness by `slopes` standard deviations."""
    generator = np.random.default_rng(seed)
    right = generator.random(n) < 0.8
    shared = generator.normal(size=n)
    columns = {}
    for k, slope in enumerate(slopes):
        logits = slope * right + 0.6 * shared + 0.8 * generator.normal(size=n)
        columns[f"m{k}"] = (1 / (1 + np.exp(-logits))).tolist()
    return columns, right.tolist()


def held_out_gain(made_of: Made, slopes: list[float], n: int, seed: int) -> float:
    """Return AUROC(fitted) - AUROC(uniform) on 4,000 other answers."""
    columns, right = simulated(n, slopes, seed)
    fitted = fit_weights(columns, right, made_of(*columns))
    fresh, labels = simulated(4000, slopes, seed + 1000)
    even = dict.fromkeys(fresh, 1 / len(fresh))
    one, other = (auroc(combine(fresh, w), labels) for w in (fitted.values, even))
    assert one is not None
    assert other is not None
    return one - other


def test_fitted_weights_find_the_metrics_that_matter(made_of: Made) -> None:
    """Two of six tell (as answers and numbers do in the paper's table): they get most weight."""
    columns, right = simulated(500, [0.3, 2.0, 0.3, 1.5, 0.3, 0.3], 0)
    found = fit_weights(columns, right, made_of(*columns))
    assert found.values["m1"] + found.values["m3"] > 0.9
    gains = [held_out_gain(made_of, [0.3, 2.0, 0.3, 1.5, 0.3, 0.3], 500, k) for k in range(5)]
    assert min(gains) > 0.05


def test_where_all_metrics_tell_alike_little_is_lost_by_fitting(made_of: Made) -> None:
    gains = [held_out_gain(made_of, [1.0] * 6, 200, seed) for seed in range(10)]
    assert float(np.mean(gains)) > -0.01


@settings(max_examples=60)
@given(TABLES)
def test_weights_lie_on_the_simplex_and_lose_nothing_where_they_were_fitted(
    made_of: Made, rows: list[tuple[float | None, float | None, float | None, bool]]
) -> None:
    kept = [row for row in rows if any(value is not None for value in row[:3])]
    columns = {name: [row[k] for row in kept] for k, name in enumerate("abc")}
    right = [row[3] for row in kept]
    if len(set(right)) < 2:
        with pytest.raises(InputError):
            fit(made_of, columns, right)
        return
    found = fit(made_of, columns, right)
    assert min(found.values.values()) >= 0
    assert sum(found.values.values()) == pytest.approx(1, abs=1e-9)
    assert found.auroc >= found.auroc_uniform
    scores = [-1.0 if s is None else s for s in combine(columns, found.values)]
    assert found.auroc == pytest.approx(auroc(scores, right))
    assert fit(made_of, columns, right) == found, "the same answers give the same weights"


@pytest.mark.parametrize(
    ("columns", "right", "complaint"),
    [
        ({"a": [0.1, 0.2]}, [True, True], "all 2 answers are right"),
        ({"a": [0.1, 0.2]}, [False, False], "all 2 answers are wrong"),
        ({"a": [0.1, 0.2]}, [True], "must have the same shape"),
        ({"a": []}, [], "must not be empty"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    made_of: Made, columns: dict[str, list[float | None]], right: list[bool], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        fit(made_of, columns, right)


def test_columns_and_their_names_must_agree(made_of: Made) -> None:
    with pytest.raises(InputError, match="columns a are not the provenance's metrics b"):
        fit_weights({"a": [0.1, 0.2]}, [True, False], made_of("b"))
    with pytest.raises(InputError, match="weights name b, columns a"):
        combine({"a": [0.1]}, {"b": 1.0})


def test_weights_come_back_from_their_file_whole(made_of: Made, tmp_path: Path) -> None:
    found = fit(made_of, {"a": [0.9, 0.1, 0.6], "b": [0.3, 0.2, None]}, [True, False, True])
    path = tmp_path / "weights.json"
    found.save(path)
    assert Weights.load(path, "core", ("b", "a")) == found
    assert [entry.name for entry in tmp_path.iterdir()] == ["weights.json"]
    written = json.loads(path.read_text())
    assert written["provenance"]["model"] == "tiny"
    assert (written["kind"], written["n"]) == ("weights", 3)


def test_weights_that_are_no_shares_are_refused(made_of: Made, tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    fit(made_of, {"a": [0.9, 0.1], "b": [0.2, 0.1]}, [True, False]).save(path)
    for wrong in ({"a": 0.7, "b": 0.7}, {"a": -1, "b": 2}, {"a": "x"}, {}, [1]):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"values": wrong}))
        with pytest.raises(RecordError, match="is damaged"):
            Weights.load(path, "core", ("a", "b"))
