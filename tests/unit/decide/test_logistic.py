"""Regressions by hand, on simulated features, and their invariances."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from remask.decide.auroc import auroc
from remask.decide.columns import Column
from remask.decide.logistic import Regression, fit_regression
from remask.errors import InputError

Columns = dict[str, list[float | None]]


@dataclass
class Fit:
    regression: Regression
    auroc: float | None
    auroc_label_free: float | None

    def probability(self, columns: Mapping[str, Column]) -> list[float]:
        return self.regression.probability(columns)


def fit(columns: Mapping[str, Column], base: Mapping[str, Column], right: list[bool]) -> Fit:
    fitted = fit_regression(columns, base, right, 0)
    return Fit(fitted.regression, auroc(fitted.probability, right), auroc(fitted.mean, right))


def simulated(n: int, seed: int, gain: float) -> tuple[Columns, Columns, list[bool]]:
    """Return 10 features, 2 base columns that tell, and labels; `gain` is what features add."""
    generator = np.random.default_rng(seed)
    right = generator.random(n) < 0.7
    base = {
        name: (1 / (1 + np.exp(-1.2 * right - generator.normal(size=n)))).tolist()
        for name in ("critical", "halves")
    }
    columns = {
        f"x{k}": (gain * (k < 3) * right + generator.normal(size=n)).tolist() for k in range(10)
    }
    return columns, base, right.tolist()


def held_out_gain(n: int, seed: int, gain: float) -> float:
    """Return AUROC(fitted) - AUROC(label-free) on 4,000 other answers."""
    columns, base, right = simulated(n, seed, gain)
    fitted = fit(columns, base, right)
    columns, base, right = simulated(4000, seed + 1000, gain)
    free = np.mean(list(base.values()), 0)
    one, other = auroc(fitted.probability({**columns, **base}), right), auroc(free, right)
    assert one is not None
    assert other is not None
    return one - other


def test_a_base_column_alone_becomes_the_share_of_right_answers() -> None:
    """Right are 1 of 4 at .2 and 3 of 4 at .6, 1,000 times; half way between it is one half."""
    values = [0.2] * 4 + [0.6] * 4
    right = [True, False, False, False, True, True, True, False]
    fitted = fit({}, {"critical": values * 1000}, right * 1000)
    assert fitted.probability({"critical": [0.2, 0.6, 0.4]}) == pytest.approx(
        [0.25, 0.75, 0.5], abs=1e-4
    )
    assert fitted.regression.reason == ""
    assert fitted.auroc_label_free == 0.75  # 3/4 x 3/4, and half of the ties, 2 x 3/4 x 1/4
    assert fitted.auroc == pytest.approx(0.75, abs=0.01)  # folds break its ties


def test_the_logit_is_the_sum_of_its_terms() -> None:
    columns, base, right = simulated(300, 0, 1.0)
    fitted = fit(columns, base, right)
    one = {name: values[:1] for name, values in {**columns, **base}.items()}
    logit = fitted.regression.intercept
    for name, term in fitted.regression.terms.items():
        logit += term.weight * (columns[name][0] - term.centre) / term.spread  # type: ignore[operator]
    mean, term = np.mean([base["critical"][0], base["halves"][0]]), fitted.regression.mean  # type: ignore[list-item]
    logit += term.weight * (mean - term.centre) / term.spread
    assert fitted.probability(one) == pytest.approx([1 / (1 + math.exp(-logit))])


def test_features_are_told_from_noise() -> None:
    """Three of ten tell: they have most of the weight, and the verifier beats the mean."""
    columns, base, right = simulated(400, 0, 1.0)
    fitted = fit(columns, base, right)
    weights = {name: abs(term.weight) for name, term in fitted.regression.terms.items()}
    assert sum(weights[f"x{k}"] for k in range(3)) > 0.6 * sum(weights.values())
    assert fitted.auroc is not None
    assert fitted.auroc_label_free is not None
    assert fitted.auroc > fitted.auroc_label_free + 0.03
    assert min(held_out_gain(200, seed, 1.0) for seed in range(5)) > 0.02


def test_where_features_are_noise_the_order_of_the_mean_is_nearly_left() -> None:
    """At 100 labels; without a ridge (1 instead of a choice) these ten features would cost .03."""
    gains = [held_out_gain(100, seed, 0.0) for seed in range(20)]
    assert float(np.mean(gains)) > -0.008
    assert min(gains) > -0.05


def test_probabilities_come_near_the_truth() -> None:
    """In each fifth of 20,000 other answers, the mean probability is the share of right ones."""
    fitted = fit(*simulated(400, 1, 0.7)[:2], simulated(400, 1, 0.7)[2])
    columns, base, right = simulated(20_000, 2, 0.7)
    chances = np.array(fitted.probability({**columns, **base}))
    fifths = np.array_split(chances.argsort(), 5)
    gaps = [abs(chances[fifth].mean() - np.array(right)[fifth].mean()) for fifth in fifths]
    assert max(gaps) < 0.08
    assert float(np.mean(gaps)) < 0.04


def test_neither_order_nor_scale_nor_shift_of_a_feature_matters() -> None:
    columns, base, right = simulated(100, 3, 0.5)
    plain = fit(columns, base, right).probability({**columns, **base})
    turned = {name: columns[name] for name in reversed(columns)}
    turned["x1"] = [1000 - 250 * x for x in columns["x1"]]  # type: ignore[operator]
    turned["x2"] = [1e-6 * x + 5e-6 for x in columns["x2"]]  # type: ignore[operator]
    other = fit(turned, dict(reversed(base.items())), right)
    assert other.probability({**turned, **base}) == pytest.approx(plain, abs=1e-4)


def test_an_absent_value_counts_as_the_mean_of_those_present() -> None:
    columns, base, right = simulated(200, 4, 1.0)
    columns["x0"][7] = base["halves"][9] = None
    present = [x for x in columns["x0"] if x is not None]
    fitted = fit(columns, base, right)
    assert fitted.regression.terms["x0"].centre == pytest.approx(np.mean(present), abs=1e-5)
    assert fitted.regression.terms["x0"].weight > 0.1
    row: Columns = {name: values[:1] for name, values in {**columns, **base}.items()}
    absent = fitted.probability(row | {"x0": [None]})
    assert absent == pytest.approx(fitted.probability(row | {"x0": [float(np.mean(present))]}))
    alone = fitted.probability(row | {"halves": [None]})  # the mean of what is present
    assert alone == fitted.probability(row | {"halves": row["critical"]})
    centre = fitted.regression.mean.centre
    nothing = fitted.probability(row | {"halves": [None], "critical": [None]})
    assert nothing == fitted.probability(row | {"halves": [centre], "critical": [centre]})


def test_a_base_column_that_none_lacked_counts_as_its_mean_where_it_is_absent() -> None:
    """Else the mean would be of other things: here of `halves` alone, which is lower throughout."""
    columns, base, right = simulated(200, 4, 1.0)
    base["halves"] = [value and value / 2 for value in base["critical"]]
    fitted = fit(columns, base, right)
    centre = fitted.regression.centres["critical"]
    assert centre == pytest.approx(np.mean([x for x in base["critical"] if x is not None]))
    row: Columns = {name: values[:1] for name, values in {**columns, **base}.items()}
    absent = fitted.probability(row | {"critical": [None]})
    assert absent == fitted.probability(row | {"critical": [centre]})
    assert absent != fitted.probability(row | {"critical": row["halves"]})


def test_a_feature_that_never_varies_gets_nothing() -> None:
    columns, base, right = simulated(100, 5, 0.5)
    plain = fit(columns, base, right)
    flat: Columns = {"flat": [0.1 + 0.2] * 50 + [0.3] * 50, "absent": [None] * 100}
    wider = fit(columns | flat, base, right)
    assert wider.regression.terms["flat"].weight == wider.regression.terms["absent"].weight == 0
    probe = {**columns, **base, "flat": [9.0] * 100, "absent": [9.0] * 100}
    assert wider.probability(probe) == pytest.approx(plain.probability(probe), abs=1e-9)


@pytest.mark.parametrize(("num_right", "num_wrong"), [(40, 4), (4, 40), (3, 0)])
def test_fewer_than_five_of_a_kind_leave_the_label_free_mean(
    num_right: int, num_wrong: int
) -> None:
    right = [True] * num_right + [False] * num_wrong
    base = {"a": [0.2 + 0.01 * k for k in range(len(right))], "b": [0.4] * len(right)}
    fitted = fit({"x": [1.0 * r for r in right]}, base, right)
    assert fitted.regression.reason == (
        f"{num_right} right and {num_wrong} wrong answers are too few, 5 of each are needed; "
        "the label-free mean is used"
    )
    mean = np.mean([(a + b) / 2 for a, b in zip(base["a"], base["b"], strict=True)])
    asked: Columns = {"x": [9.0, 9.0, 9.0], "a": [0.5, 1.0, None], "b": [0.1, None, None]}
    assert fitted.probability(asked) == [0.3, 1.0, pytest.approx(mean, abs=1e-6)]
    assert (fitted.auroc is None) == (num_wrong == 0)
    assert fitted.auroc == fitted.auroc_label_free


def test_a_base_value_that_rounding_put_above_1_is_1() -> None:
    fitted = fit({}, {"a": [0.5, 1 + 1e-8]}, [True, False])
    assert fitted.probability({"a": [1 + 1e-8, -1e-8]}) == [1, 0]


def test_five_of_a_kind_are_enough() -> None:
    right = [True] * 5 + [False] * 5
    fitted = fit({}, {"a": [0.9] * 5 + [0.1] * 5}, right)
    low, high = fitted.probability({"a": [0.1, 0.9]})
    assert (fitted.regression.reason, low < 0.05, high > 0.95) == ("", True, True)


def test_base_columns_may_be_features_too() -> None:
    """`good` tells and `bad` misleads, so that their mean says little; the fit turns `bad` off."""
    generator = np.random.default_rng(6)
    right = generator.random(300) < 0.6
    noise = generator.random((2, 300))
    columns = {"good": 0.4 * right + 0.6 * noise[0], "bad": 0.4 * ~right + 0.6 * noise[1]}
    table = {name: values.tolist() for name, values in columns.items()}
    fitted = fit(table, table, right.tolist())
    assert fitted.auroc is not None
    assert fitted.auroc_label_free is not None
    assert fitted.auroc > fitted.auroc_label_free + 0.2
    assert fitted.regression.terms["good"].weight > 0 > fitted.regression.terms["bad"].weight


@pytest.mark.parametrize(
    ("columns", "base", "complaint"),
    [
        ({"x": [0.1, math.nan]}, {"a": [0.1, 0.2]}, "column x has nan; give a number"),
        ({"x": [0.1, -math.inf]}, {"a": [0.1, 0.2]}, "column x has -inf; give a number"),
        ({"x": [0.1, 0.2]}, {"a": [0.1, math.nan]}, "column a has nan"),
        ({"x": [0.1, 0.2]}, {"a": [0.1, 1.2]}, r"base column a has 1\.2; its values are in 0\.\.1"),
        ({"x": [0.1, 0.2]}, {"a": [-0.1, 0.2]}, r"base column a has -0\.1"),
        ({"x": [0.1, 0.2]}, {"a": [None, None]}, "none of 2 answers has a value of a"),
        ({"x": [0.1]}, {"a": [0.1, 0.2]}, "columns have different lengths"),
        ({"x": [0.1]}, {"a": [0.1]}, "must have the same shape"),
        ({"x": [0.1, 0.2]}, {"x": [0.1, 0.3]}, "column x differs as a feature and as a base"),
        ({"x": [0.1, 0.2]}, {}, "base must name at least one column"),
    ],
)
def test_what_cannot_be_fitted_is_refused(columns: Columns, base: Columns, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        fit(columns, base, [True, False])


def test_a_probability_needs_every_column_of_the_fit() -> None:
    columns, base, right = simulated(50, 0, 0.0)
    fitted, table = fit(columns, base, right), {**columns, **base}
    known = {name: column for name, column in table.items() if name not in ("x9", "critical")}
    with pytest.raises(InputError, match="no column critical, x9"):
        fitted.probability(known)
    with pytest.raises(InputError, match="column x3 has nan"):
        fitted.probability({**table, "x3": [math.nan] * 50})
