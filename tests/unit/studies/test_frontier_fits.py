"""Fitted methods: which answers are labelled, what they look at, what they cost."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from remask.analysis.pool import Pool, pools
from remask.decide.auroc import auroc
from remask.records.record import Record
from studies.shared.fits import (
    RECIPES,
    Recipe,
    base_columns,
    feature_columns,
    features_of,
    fit_set,
    label_draws,
    recipe_price,
)
from studies.shared.stages import FULL, SEQUENTIAL, fit_sequential

Draw = Callable[..., list[Record]]
Make = Callable[..., Record]
BY_NAME = {recipe.name: recipe for recipe in RECIPES}


@pytest.fixture(scope="module")
def validation(draw_features: Draw) -> list[Pool]:
    return pools(draw_features(150, 10, split="validation"))


@pytest.fixture(scope="module")
def tested(draw_features: Draw) -> list[Pool]:
    return pools(draw_features(200, 10))


def test_fewer_labels_are_the_first_of_more_and_each_draw_is_another() -> None:
    few, many = label_draws(100, "a", 10), label_draws(100, "a", 50)
    assert [rows[:10] for rows in many] == few
    assert all(len(set(rows)) == 50 for rows in many)
    assert len({tuple(rows) for rows in few}) == 20
    assert label_draws(100, "b", 10) != few
    assert label_draws(9, "a", 10) == []


def test_a_recipe_looks_at_its_groups_and_at_no_price(make_record: Make) -> None:
    """Round trips have one metric here; ten samples there are none of."""
    features = {
        "critical.critical_min": -1.0, "critical.forwards": 1.0, "critical_count": 3.0,
        "visible.response_mean": -2.0, "length": 4.0,
    }  # fmt: skip
    pool = [replace(make_record(score=0.4), features=features)]
    listed = {name: features_of(recipe, [pool]) for name, recipe in BY_NAME.items()}
    seen = ["critical.critical_min", "critical_count", "length"]
    assert listed == {
        "fitted20": seen, "fitted85": [*seen, "roundtrips.token_accuracy"],
        "agreement10_fitted": ["length"],
    }  # fmt: skip
    assert feature_columns(listed["fitted85"], [pool]) == {
        "critical.critical_min": [-1.0], "critical_count": [3.0], "length": [4.0],
        "roundtrips.token_accuracy": [0.4],
    }  # fmt: skip


def test_bases_are_values_in_0_to_1(make_record: Make) -> None:
    pool = [replace(make_record(score=0.4), features={"critical.critical_mean": np.log(0.25)})]
    columns = base_columns(("critical", "roundtrips", "agreement10"), [pool])
    assert columns == {
        "base.critical": [pytest.approx(0.25)], "base.roundtrips": [0.4],
        "base.agreement10": [1.0],
    }  # fmt: skip


def test_prices_are_within_the_budgets_in_the_names(validation: list[Pool]) -> None:
    """Round trips cost 8 forwards here and 64 by default; a further sample costs 10."""
    prices = {
        name: recipe_price(recipe, features_of(recipe, validation), validation[0])
        for name, recipe in BY_NAME.items()
    }
    assert prices == {"fitted20": 17, "fitted85": 17 + 8, "agreement10_fitted": 90}
    assert prices["fitted85"] - 8 + 64 <= 85


@pytest.mark.parametrize("name", list(BY_NAME))
def test_fits_tell_right_from_wrong_on_other_answers(
    validation: list[Pool], tested: list[Pool], name: str
) -> None:
    fits = fit_set(BY_NAME[name], "a", validation, 100, draws=3)
    assert fits is not None
    assert fits.fits_pools(tested)
    scored = fits.score(tested)
    assert scored.scores.shape == scored.extra.shape == (3, 200)
    right = [pool[0].right for pool in tested]
    assert min(auroc(row, right) or 0 for row in scored.scores) > 0.8
    assert (scored.scores >= 0).all()
    assert len({row.tobytes() for row in scored.scores}) == 3, "each draw is another fit"


def test_a_sample_that_no_probe_read_has_no_fitted_score(validation: list[Pool]) -> None:
    """A regression would take the mean for what is absent, and rank such samples by nothing."""
    fits = fit_set(BY_NAME["fitted20"], "a", validation, 100, draws=1)
    assert fits is not None
    second = [[pool[1], pool[0]] for pool in validation]
    assert np.isinf(fits.score(second).scores).all()


def test_nothing_is_fitted_without_labels_or_features(
    validation: list[Pool], make_record: Make
) -> None:
    recipe = BY_NAME["fitted20"]
    assert fit_set(recipe, "a", validation, 151) is None
    assert fit_set(recipe, "a", [[make_record(str(k))] for k in range(20)], 10) is None
    few = [pool[:3] for pool in validation]
    assert fit_set(BY_NAME["agreement10_fitted"], "a", few, 100) is None
    other = Recipe(name="other", groups=("critical",), base=("stratified50x4",))
    assert fit_set(other, "a", validation, 100) is None
    assert fit_sequential("a", [[make_record(str(k))] for k in range(20)], 10) == []


def test_the_sequential_verifier_pays_for_the_stages_it_ran(
    validation: list[Pool], tested: list[Pool]
) -> None:
    """Stages cost 1, 16 and 8 forwards; the full form pays for all and ranks by the last."""
    sequential, full = fit_sequential("a", validation, 120, draws=2)
    assert (sequential.name, full.name) == (SEQUENTIAL, FULL)
    few, all_of_them = sequential.score(tested), full.score(tested)
    assert set(np.unique(few.extra)) <= {1, 17, 25}
    assert np.unique(all_of_them.extra).tolist() == [25]
    assert few.extra.mean() < 25
    columns = feature_columns(sequential.names, tested)
    bases = [name for stage in sequential.stages for name in stage.base]
    columns |= base_columns(bases, tested)
    for fit, scores, extra in zip(sequential.fits, few.scores, few.extra, strict=True):
        for i, spent in enumerate(extra.tolist()):
            stage = [1, 17, 25].index(spent)
            probability, is_decided = fit.decide(stage, {k: [c[i]] for k, c in columns.items()})
            assert (probability, is_decided) == ([pytest.approx(scores[i])], [True])
    last = few.extra == 25
    assert np.allclose(few.scores[last], all_of_them.scores[last])
    right = [pool[0].right for pool in tested]
    for row in (*few.scores, *all_of_them.scores):
        assert (auroc(row, right) or 0) > 0.8


def test_a_stage_whose_probe_was_not_read_is_left_out(draw_features: Draw) -> None:
    """Halves and round trips: what is left of their stages is eight passes and nothing."""
    rows = [
        replace(
            row, by_trip={}, features={n: v for n, v in row.features.items() if "halves8" not in n}
        )
        for row in draw_features(100)
    ]
    sequential, _ = fit_sequential("a", pools(rows), 80, draws=1)
    assert [stage.forwards for stage in sequential.fits[0].stages] == [1, 8]


def test_a_budget_ends_the_stages(validation: list[Pool], tested: list[Pool]) -> None:
    sequential, full = fit_sequential("a", validation, 120, draws=2)
    within = replace(full, budget=17).score(tested)
    assert np.unique(within.extra).tolist() == [17]
    assert set(np.unique(replace(sequential, budget=17).score(tested).extra)) <= {1, 17}


def test_with_too_few_labels_round_trips_are_not_paid_for(
    validation: list[Pool], tested: list[Pool]
) -> None:
    """The label-free mean does not look at them."""
    _, full = fit_sequential("a", validation, 4, draws=1)
    assert np.unique(full.score(tested).extra).tolist() == [17]
