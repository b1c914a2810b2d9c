"""A verifier fitted to features: its stages, what they are drawn towards, and what they cost."""

import math

import pytest

from remask.decide.provenance import Provenance
from remask.errors import InputError, SettingsError
from remask.verifier.columns import Features, lookup
from remask.verifier.fit import fit_verifier, sources_of, stages_of


def about() -> Provenance:
    return Provenance(
        scorer="verifier", metric_set="features", metrics=(), task="wordmath", model="tiny",
        split="validation", seed=0, version="", date="",
    )  # fmt: skip


def features(value: float, **others: float) -> Features:
    """Return what is known of an answer whose tokens all have this probability."""
    logp = math.log(value)
    return {
        "length": 10, "critical_count": 3, "generation.response_min": math.log(0.5),
        "trace.flips": 2, "critical.critical_mean": logp, "critical.critical_min": logp,
        "critical.forwards": 1, "stratified50x8.response_mean": logp, "stratified50x8.forwards": 6,
        **others,
    }  # fmt: skip


def test_stages_are_in_order_of_price_and_round_trips_are_the_last() -> None:
    names = [
        "roundtrips.answer_match", "halves8.critical_mean", "stratified15x4.response_min", "length",
        "stratified50x8.response_mean", "critical.critical_mean", "stratified90x8.response_mean",
    ]  # fmt: skip
    free = ("generation", "length", "critical_count")
    assert sources_of(names) == [
        (*free, "critical"), ("stratified15x4",), ("stratified90x8", "halves8", "stratified50x8"),
        ("roundtrips",),
    ]  # fmt: skip
    assert sources_of(["length", "roundtrips.answer_match"]) == [free, ("roundtrips",)]


def test_a_probe_is_ranked_by_the_most_that_it_cost() -> None:
    """`halves4` takes no pass of an answer with one critical token, and four of others."""
    answers: list[Features] = [
        {
            "critical.critical_mean": -1.0,
            "critical.forwards": 1,
            "stratified15x2.response_mean": -1.0,
            "stratified15x2.forwards": 2,
            "halves4.critical_mean": -1.0 if passes else None,
            "halves4.forwards": passes,
        }
        for passes in (0, 4)
    ]
    expected = [("critical", 1), ("stratified15x2", 2), ("halves4", 2)]
    assert [(stage.name, stage.forwards) for stage in stages_of(answers)] == expected


def test_a_stage_is_drawn_towards_the_label_free_values_so_far() -> None:
    """`stratified50x8` is none of them; answers from outside have no generation."""
    bases = [list(stage.base) for stage in stages_of([features(0.25)])]
    assert bases == [["generation", "critical"], ["generation", "critical"]]
    brought = {**features(0.25), "generation.response_min": None}
    assert [list(stage.base) for stage in stages_of([brought])] == [["critical"], ["critical"]]


def test_what_a_stage_adds_and_what_it_costs() -> None:
    """Six and eight steps of `stratified50x8` are seven in the mean; a trace is no feature here."""
    answers = [features(0.25), features(0.5, **{"stratified50x8.forwards": 8})]
    critical, forced = stages_of(answers)
    assert [s.name for s in (critical, forced)] == ["critical", "stratified50x8"]
    assert [s.forwards for s in (critical, forced)] == [1, 7]
    written = ["critical_count", "generation.response_min", "length"]
    own = ["critical.critical_mean", "critical.critical_min"]
    assert sorted(critical.columns) == sorted([*written, *own])
    assert isinstance(forced.base, dict)
    assert list(forced.base) == ["generation", "critical"]
    assert forced.base["critical"] == pytest.approx([0.25, 0.5])


def test_a_probe_without_a_price_costs_its_passes() -> None:
    (stage,) = stages_of([{"stratified90x8.response_mean": -1.0}])
    assert (stage.name, stage.forwards) == ("stratified90x8", 8)


def test_a_fit_knows_its_columns_as_the_verifier_looks_them_up() -> None:
    """Right answers have values of about .9, wrong ones of about .3: all are told apart."""
    values = [(0.9 if k % 2 else 0.3) + k / 1000 for k in range(40)]
    answers, right = [features(value) for value in values], [bool(k % 2) for k in range(40)]
    staged = fit_verifier(answers, right, about())
    assert (staged.n, staged.num_right, staged.auroc_full) == (40, 20, 1.0)
    columns = {name: [lookup(name, one) for one in answers] for name in staged.provenance.metrics}
    probabilities, _ = staged.decide(len(staged.stages) - 1, columns)
    assert [probability > 0.5 for probability in probabilities] == right
    assert staged.threshold is not None
    assert [probability > staged.threshold for probability in probabilities] == right


def test_too_few_labels_leave_the_label_free_mean_and_no_threshold() -> None:
    answers = [features(0.25), features(0.5), features(0.75)]
    staged = fit_verifier(answers, [False, True, True], about())
    assert staged.reason.startswith("2 right and 1 wrong answers are too few, 5 of each")
    assert staged.threshold is None
    columns = {name: [lookup(name, one) for one in answers] for name in staged.provenance.metrics}
    assert staged.decide(0, columns)[1] == [False] * 3, "nothing exits early"
    assert staged.stages[1].name == "stratified50x8"
    probabilities, _ = staged.decide(1, columns)
    assert probabilities == pytest.approx([0.375, 0.5, 0.625])


def test_answers_without_features_and_probes_that_nobody_knows_are_refused() -> None:
    with pytest.raises(InputError, match="no answer has features"):
        stages_of([{}, {"length": 4}])
    with pytest.raises(SettingsError, match="Unknown probe 'guess'"):
        stages_of([{"guess.response_mean": -1.0}])
