"""Methods of the frontier on records written by hand: what they say, and what that costs."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from remask.records.record import BaselineCost, Record
from remask.verifier.columns import LABEL_FREE
from studies.shared.methods import (
    frontier_methods,
    in_first_place,
    length_of,
    plain_mean,
    price,
    score_pools,
)

Make = Callable[..., Record]
FEATURES = {
    "critical.critical_mean": math.log(0.5), "halves8.critical_min": math.log(0.7),
    "stratified90x8.response_mean": math.log(0.2), "generation.response_min": math.log(0.6),
    "generation.response_mean": -0.1, "visible.response_mean": -0.3, "length": 12.0,
    "critical_count": 4.0,
}  # fmt: skip


@pytest.fixture
def read(make_record: Make) -> Record:
    row = make_record(score=0.9, confidence=0.8)
    scores = {**row.scores, "tre": -1.5, "dcocoa": 0.5}
    costs = {"tre": BaselineCost(0), "dcocoa": BaselineCost(16)}
    return replace(row, scores=scores, features=FEATURES, baselines=costs)


def said(row: Record, *others: Record) -> dict[str, tuple[float, float]]:
    """Return score and extra forwards of the first sample, by method."""
    scored = [
        score_pools(method, [[row, *others]]) for method in frontier_methods([[row, *others]])
    ]
    return {each.name: (float(each.scores[0, 0]), float(each.extra[0, 0])) for each in scored}


def test_every_method_says_its_value_at_its_price(read: Record) -> None:
    """The label-free verifier is the mean of .5, .7, .2 and .6, for 1 + 8 + 8 forwards.

    Had the answer not been written here, .6 would not be known.
    """
    assert said(read) == {
        "roundtrips": (0.9, 8), "probe": (pytest.approx(0.5), 1),
        "verifier": (pytest.approx(0.5), 17), "verifier_at_hand": (pytest.approx(1.4 / 3), 17),
        "confidence": (0.8, 0), "length": (-12, 0),
        "critical_count": (-4, 0), "dise": (-0.3, 1), "tre": (-1.5, 0), "dcocoa": (0.5, 16),
    }  # fmt: skip


def test_samples_agree_or_not_and_cost_what_they_took(make_record: Make) -> None:
    """Of 1, 1 and 2 the first agrees with itself and one other."""
    pool = [make_record(number=k, answer=answer) for k, answer in enumerate("112")]
    values = said(*pool)
    assert values["agreement2"] == (1, 10)
    assert values["agreement3"] == (pytest.approx(2 / 3), 20)
    assert "agreement5" not in values


def test_what_a_probe_cost_is_read_before_its_name_is(read: Record) -> None:
    row = replace(read, features={**FEATURES, "halves8.forwards": 2.0})
    assert price(row, LABEL_FREE) == 1 + 2 + 8
    assert price(row, ["critical.critical_mean", "critical.critical_min"]) == 1, "one probe"
    assert price(row, ["generation.response_mean", "trace.flips", "length"]) == 0


def test_a_baseline_that_was_recorded_counts_before_a_feature_of_its_name(read: Record) -> None:
    row = replace(
        read,
        scores={**read.scores, "dise": -0.4, "length": -13.0},
        baselines={"dise": BaselineCost(2), "length": BaselineCost(0)},
    )
    assert said(row)["dise"] == (-0.4, 2)
    assert said(row)["length"] == (-13, 0)
    assert [m.name for m in frontier_methods([[row]])].count("dise") == 1


def test_a_mean_without_one_of_its_parts_is_absent(read: Record) -> None:
    """A mean of other parts would be another score."""
    row = replace(read, features={**FEATURES, "stratified90x8.response_mean": None})
    assert math.isinf(score_pools(plain_mean("verifier"), [[row]]).scores[0, 0])
    assert score_pools(plain_mean("verifier"), [[row], [read]]).absent == 1
    assert "verifier" not in said(row)


def test_the_length_is_a_feature_or_that_of_the_drift(read: Record) -> None:
    """As a score it has a sign: shorter is more trusted."""
    assert length_of(read) == 12
    assert length_of(replace(read, features={}, scores={"length": -12.0})) == 12
    assert length_of(replace(read, features={})) == 3
    assert said(replace(read, features={}))["length"] == (-3, 0)


def test_another_sample_in_the_first_place_is_the_one_that_is_judged(make_record: Make) -> None:
    pool = [make_record(number=k, answer=answer, score=k / 10) for k, answer in enumerate("112")]
    (third,) = [in_first_place(pool, 2)]
    assert [row.number for row in third] == [2, 0, 1]
    assert said(*third)["agreement3"][0] == pytest.approx(1 / 3)
    assert said(*third)["roundtrips"][0] == 0.2
    assert np.isfinite(said(*third)["length"][0])
