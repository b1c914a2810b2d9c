"""The verifier in stages: limits and costs by hand, simulated stages, and what must hold."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.decide.auroc import auroc, expected_auroc
from remask.decide.columns import Column
from remask.decide.logistic import Regression, Term
from remask.decide.provenance import Provenance
from remask.decide.stages import (
    LOSS,
    FittedStage,
    Stage,
    StagedVerifier,
    choose_limits,
    fit_stages,
    prices_of,
    settled_at,
)
from remask.errors import InputError, RecordError, SettingsError

Made = Callable[..., Provenance]
Columns = dict[str, list[float | None]]


def stage_of(name: str, forwards: float, low: float = 0.2, high: float = 0.8) -> FittedStage:
    """Return a stage that says .1 where its column is 0, .5 where it is .5 and .9 where it is 1."""
    term = Term(centre=0.5, spread=0.5, weight=math.log(9))
    regression = Regression(base=(name,), intercept=0.0, mean=term, terms={}, ridge=None)
    return FittedStage(name=name, forwards=forwards, low=low, high=high, regression=regression)


@pytest.fixture
def verifier(made_of: Made) -> StagedVerifier:
    stages = (stage_of("written", 0), stage_of("critical", 1), stage_of("many", 24))
    return StagedVerifier(
        stages=stages, n=9, num_right=5, auroc=0.8, auroc_full=0.8, mean_forwards=3.0,
        provenance=made_of("written", "critical", "many"),
    )  # fmt: skip


COLUMNS: Columns = {
    "written": [1.0, 0.5, 0.5, 0.5], "critical": [0.5, 0.0, 0.5, 0.5], "many": [0.0, 0.0, 1.0, 0.5]
}  # fmt: skip


def simulated(n: int, seed: int) -> tuple[list[Stage], list[bool]]:
    """Return stages of 0, 1, 8 and 60 forwards, of which the last tells little more."""
    generator = np.random.default_rng(seed)
    right = generator.random(n) < 0.6
    base: dict[str, Column] = {}
    stages = []
    for name, forwards, gain in (("a", 0, 0.6), ("b", 1, 1.0), ("c", 8, 1.0), ("d", 60, 0.3)):
        features = gain * right + generator.normal(size=(2, n))
        base = base | {name: (1 / (1 + np.exp(-features.mean(0)))).tolist()}
        columns = {f"{name}{k}": values.tolist() for k, values in enumerate(features)}
        stages.append(Stage(name, forwards, columns, base))
    return stages, right.tolist()


def columns_of(stages: list[Stage]) -> dict[str, Column]:
    return {**stages[-1].base, **{k: v for stage in stages for k, v in stage.columns.items()}}


class Verdict(NamedTuple):
    probability: float
    stage: str
    forwards: float


def run(verifier: StagedVerifier, columns: Mapping[str, Column]) -> list[Verdict]:
    """Return the exit of each answer if all columns are known."""
    verdicts: dict[int, Verdict] = {}
    for k, (stage, price) in enumerate(
        zip(verifier.stages, prices_of(verifier.stages), strict=True)
    ):
        for i, (probability, is_decided) in enumerate(
            zip(*verifier.decide(k, columns), strict=True)
        ):
            if is_decided and i not in verdicts:
                verdicts[i] = Verdict(probability, stage.name, price)
    return [verdicts[i] for i in range(len(verdicts))]


def test_the_first_stage_that_is_sure_settles_an_answer(verifier: StagedVerifier) -> None:
    """Sure at once; after one pass; after 1 + 24; and never, so that the last stage decides."""
    assert run(verifier, COLUMNS) == [
        Verdict(pytest.approx(0.9), "written", 0),
        Verdict(pytest.approx(0.1), "critical", 1),
        Verdict(pytest.approx(0.9), "many", 25),
        Verdict(pytest.approx(0.5), "many", 25),
    ]


def test_a_stage_without_a_label_free_value_settles_nothing(verifier: StagedVerifier) -> None:
    """The first stage would settle the first answer, were its column there."""
    columns = {**COLUMNS, "written": [None] * 4}
    assert [verdict.stage for verdict in run(verifier, columns)] == [
        "many", "critical", "many", "many",
    ]  # fmt: skip
    blind = replace(verifier.stages[0], low=0.6, high=0.7)
    anxious = replace(verifier, stages=(blind, *verifier.stages[1:]))
    assert anxious.decide(0, columns)[1] == [False] * 4
    assert anxious.decide(0, COLUMNS)[1] == [True] * 4
    assert [v.stage for v in run(anxious, columns)] == [v.stage for v in run(verifier, columns)]


def test_a_threshold_is_chosen_where_it_rejects_something(made_of: Made) -> None:
    """By F1 of answers it had not seen: what it accepts is more often right than all of them."""
    stages, right = simulated(150, 2)
    fitted = fit_stages(stages, right, made_of(*columns_of(stages)))
    assert fitted.threshold is not None
    taken = [v.probability > fitted.threshold for v in run(fitted, columns_of(stages))]
    accepted = [label for label, is_taken in zip(right, taken, strict=True) if is_taken]
    assert sum(accepted) / len(accepted) > sum(right) / len(right)
    assert fit_stages(stages, [True] * 150, made_of(*columns_of(stages))).threshold is None


def test_limits_of_0_and_1_are_the_full_form(made_of: Made) -> None:
    stages, right = simulated(150, 1)
    columns = columns_of(stages)
    fitted = fit_stages(stages, right, made_of(*columns))
    patient = replace(fitted, stages=tuple(replace(s, low=0.0, high=1.0) for s in fitted.stages))
    verdicts = run(patient, columns)
    assert [v.probability for v in verdicts] == patient.stages[-1].regression.probability(columns)
    assert {(v.stage, v.forwards) for v in verdicts} == {("d", 69)}


def test_on_other_answers_little_is_lost_and_much_is_spared(made_of: Made) -> None:
    """The mean over 6 fits on 200 labels; in one fit chance may lose some more."""
    losses, costs = [], []
    for seed in range(6):
        stages, right = simulated(200, seed)
        fitted = fit_stages(stages, right, made_of(*columns_of(stages)))
        fresh, labels = simulated(4000, 1000 + seed)
        columns = columns_of(fresh)
        verdicts = run(fitted, columns)
        full = auroc(fitted.stages[-1].regression.probability(columns), labels)
        staged = auroc([verdict.probability for verdict in verdicts], labels)
        assert full is not None
        assert staged is not None
        losses.append(full - staged)
        costs.append(np.mean([verdict.forwards for verdict in verdicts]) / 69)
    assert float(np.mean(losses)) < 0.004
    assert max(losses) < 0.012
    assert float(np.mean(costs)) < 0.6


def test_a_fit_says_what_its_stages_cost_where_it_was_fitted(made_of: Made) -> None:
    """On answers it had not seen, so nearly what it costs on the same answers."""
    stages, right = simulated(300, 3)
    columns = columns_of(stages)
    fitted = fit_stages(stages, right, made_of(*columns))
    seen = np.mean([verdict.forwards for verdict in run(fitted, columns)])
    assert fitted.mean_forwards == pytest.approx(seen, rel=0.3)
    assert 0 < fitted.mean_forwards < 69
    assert fitted.auroc is not None
    assert fitted.auroc_full is not None
    assert abs(fitted.auroc_full - fitted.auroc) < 0.02
    assert (fitted.n, fitted.num_right, fitted.reason) == (300, sum(right), "")


def test_a_stage_that_says_the_same_as_the_last_settles_everything() -> None:
    last = np.linspace(0.03, 0.97, 41)
    limits = choose_limits(np.stack([last, last]), last, np.array([1.0, 9.0]))
    assert (settled_at(np.stack([last, last]), limits) == 0).all()


def test_a_stage_that_says_nothing_settles_nothing() -> None:
    """Were one answer settled at 1/2, all would be: their order, an AUROC of .82, would be lost."""
    last = np.linspace(0.03, 0.97, 41)
    table = np.stack([np.full(41, 0.52), last])
    assert expected_auroc(last, last) == pytest.approx(0.82, abs=0.01)
    assert (settled_at(table, choose_limits(table, last, np.array([1.0, 9.0]))) == 1).all()


def test_a_limit_is_drawn_in_only_where_the_stage_is_sure() -> None:
    """Above .8 the first stage says what the last says; below it knows nothing of the order."""
    last = np.linspace(0.03, 0.97, 95)
    first = np.where(last > 0.8, last, 0.4)
    table = np.stack([first, last])
    limits = choose_limits(table, last, np.array([0.0, 8.0]))
    assert (settled_at(table, limits) == np.where(last > 0.8, 0, 1)).all()
    taken = np.where(settled_at(table, limits) == 0, first, last)
    assert expected_auroc(last, last) - expected_auroc(taken, last) <= LOSS


def test_the_expected_auroc_weighs_pairs_by_their_chance() -> None:
    """Scores 2 and 1, chances .8 and .3: in order with .8 x .7 = .56, turned with .2 x .3 = .06."""
    assert expected_auroc([2, 1], [0.8, 0.3]) == pytest.approx(0.56 / 0.62)
    assert expected_auroc([1, 1], [0.8, 0.3]) == pytest.approx(0.5)


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0.01, 0.99)), min_size=2, max_size=12))
def test_the_expected_auroc_is_a_mean_over_all_pairs(rows: list[tuple[int, float]]) -> None:
    pairs = list(permutations(rows, 2))
    weight = [q * (1 - r) for (_, q), (_, r) in pairs]
    wins = [(a > b) + (a == b) / 2 for (a, _), (b, _) in pairs]
    expected = np.dot(weight, wins) / np.sum(weight)
    assert expected_auroc(*zip(*rows, strict=True)) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=12))
def test_certain_chances_give_the_plain_auroc(rows: list[tuple[int, bool]]) -> None:
    scores, right = zip(*rows, strict=True)
    if len(set(right)) == 2:
        assert expected_auroc(scores, right) == pytest.approx(auroc(scores, right))


def test_too_few_labels_leave_the_label_free_means_and_settle_nothing_early(made_of: Made) -> None:
    stages, _ = simulated(40, 4)
    columns = columns_of(stages)
    fitted = fit_stages(stages, [True] * 36 + [False] * 4, made_of(*columns))
    assert fitted.reason.startswith("36 right and 4 wrong answers are too few")
    verdicts = run(fitted, columns)
    mean = np.mean(list(stages[-1].base.values()), 0)
    assert [verdict.probability for verdict in verdicts] == pytest.approx(mean)
    assert {verdict.stage for verdict in verdicts} == {"d"}
    assert fitted.mean_forwards == 69


def test_what_cannot_be_fitted_is_refused(made_of: Made) -> None:
    stages, right = simulated(40, 5)
    everything = made_of(*columns_of(stages))
    with pytest.raises(InputError, match="stages must not be empty"):
        fit_stages([], right, everything)
    with pytest.raises(InputError, match="stage e redefines column a0"):
        fit_stages([*stages, Stage("e", 1, {"a0": [0.0] * 40}, {})], right, everything)
    with pytest.raises(InputError, match="stage e redefines column a;"):
        fit_stages([*stages, Stage("e", 1, {}, {"a": [0.0] * 40})], right, everything)
    with pytest.raises(SettingsError, match="stage a must have forwards >= 0"):
        fit_stages([stages[0]._replace(forwards=-1)], right, everything)
    with pytest.raises(SettingsError, match="are not the provenance's metrics a"):
        fit_stages(stages, right, made_of("a"))


def test_stages_come_back_from_their_file_whole(made_of: Made, tmp_path: Path) -> None:
    stages, right = simulated(100, 6)
    columns, path = columns_of(stages), tmp_path / "verifier.json"
    fitted = fit_stages(stages, right, made_of(*columns, scorer="verifier"))
    fitted.save(path)
    again = StagedVerifier.load(path, "core", tuple(columns), scorer="verifier")
    assert again == fitted
    assert run(again, columns) == run(fitted, columns)
    with pytest.raises(RecordError, match="was fitted to scores of 'verifier', not of 'probe'"):
        StagedVerifier.load(path, "core", tuple(columns), scorer="probe")


@pytest.mark.parametrize(
    "change",
    [
        {"low": 0.9, "high": 0.8},
        {"low": -0.1},
        {"high": 1.1},
        {"forwards": -1},
        {"name": 3},
        {"regression": {"base": []}},
        {"regression": {"intercept": "x"}},
        {"regression": {"surplus": 1}},
        {"regression": {"mean": {"centre": 0.5, "spread": 0.1, "weight": -1}}},
        {"regression": {"mean": {"centre": 0.5, "spread": -0.1, "weight": 1}}},
        {"regression": {"mean": {"centre": 0.5, "spread": 0, "weight": 1}}},
        {"regression": {"mean": {"centre": 0.5, "spread": 0.1}}},
    ],
)
def test_a_damaged_file_is_refused(
    verifier: StagedVerifier, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = tmp_path / "verifier.json"
    verifier.save(path)
    document = json.loads(path.read_text())
    stage = document["stages"][0]
    change = {**change, "regression": stage["regression"] | change.get("regression", {})}
    document["stages"][0] = stage | change
    path.write_text(json.dumps(document))
    with pytest.raises(RecordError, match="is damaged"):
        StagedVerifier.read(path)
    path.write_text(json.dumps(document | {"stages": []}))
    with pytest.raises(RecordError, match="is damaged: stages must not be empty"):
        StagedVerifier.read(path)
