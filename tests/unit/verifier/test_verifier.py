"""The verifier: label-free by hand, in stages, within a budget; alone as in company."""

from collections.abc import Callable
from dataclasses import replace

import pytest

import remask
from remask.consistency.roundtrips import Consistency
from remask.consistency.settings import ConsistencySettings
from remask.decide.logistic import Regression, Term
from remask.decide.provenance import Provenance
from remask.decide.stages import FittedStage, StagedVerifier
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted
from remask.errors import InputError, SettingsError
from remask.probes.readings import Critical
from remask.testing import check_scorer
from remask.values import Sample
from remask.verifier.verifier import Verifier

Answer = Callable[..., Sample]
Knowing = Callable[[Sample, Callable[[int, int], float]], Denoiser]


def no_answer(text: str) -> None:
    return None


def stage(name: str, price: float, weight: float, *, base: str = "critical") -> FittedStage:
    """Return a stage whose logit is weight x (value of a probe - 0.5)."""
    term = Term(centre=0.5, spread=1.0, weight=weight)
    regression = Regression(base=(base,), intercept=0.0, mean=term, terms={}, ridge=None)
    return FittedStage(name=name, forwards=price, low=0.2, high=0.8, regression=regression)


@pytest.fixture
def staged() -> StagedVerifier:
    """One pass, then eight steps; whoever is beyond 0.2 and 0.8 after the first is settled."""
    provenance = Provenance(
        metric_set="verifier", metrics=("critical", "stratified50x8"), task="t", model="m",
        split="validation", seed=0, version="", date="", scorer="verifier",
    )  # fmt: skip
    stages = (stage("critical", 1, 10.0), stage("stratified50x8", 8, 10.0, base="stratified50x8"))
    return StagedVerifier(
        stages=stages, n=9, num_right=5, auroc=None, auroc_full=None, mean_forwards=4.0,
        provenance=provenance,
    )  # fmt: skip


def test_without_labels_it_is_the_mean_of_the_values(
    knowing: Knowing, answer: Answer, digits: Critical
) -> None:
    """A model that gives every token 0.5, whatever is masked: each probe's value is 0.5."""
    sample = answer("a1b2.")
    model = Counted(knowing(sample, lambda i, n: 0.5))
    [score] = Verifier(denoiser=model, extract=no_answer, critical=digits).score([sample])
    assert score.value == pytest.approx(0.5)
    assert set(score.by_metric) == {"critical", "stratified90x8", "halves8"}
    assert score.forwards == model.forwards
    assert (score.scorer, score.version, score.stage) == ("verifier_at_hand", 1, "")
    assert len(score.logp) == sample.num_response


def test_a_budget_takes_the_probes_that_fit(
    knowing: Knowing, answer: Answer, digits: Critical
) -> None:
    sample = answer("a1b2.")
    model = knowing(sample, lambda i, n: 0.5)
    verifier = Verifier(denoiser=model, extract=no_answer, critical=digits, budget=9)
    [score] = verifier.score([sample])
    assert set(score.by_metric) == {"critical", "stratified90x8"}
    assert score.forwards == 9
    with pytest.raises(SettingsError, match="0 forwards has no room for the probe critical"):
        replace(verifier, budget=0)


@pytest.mark.parametrize(
    ("chance", "stage", "forwards"), [(0.9, "critical", 1), (0.5, "stratified50x8", 9)]
)
def test_a_sure_answer_is_settled_by_the_first_stage(
    chance: float, stage: str, forwards: int, knowing: Knowing, answer: Answer, digits: Critical,
    staged: StagedVerifier,
) -> None:  # fmt: skip
    """0.9: logit 4, above 0.8. 0.5: logit 0, undecided, so eight steps more."""
    sample = answer("a1b2.c3d4.e5")  # enough tokens for eight steps
    model = Counted(knowing(sample, lambda i, n: chance))
    verifier = Verifier(denoiser=model, extract=no_answer, critical=digits, fitted=staged)
    [score] = verifier.score([sample])
    assert (score.stage, score.forwards, model.forwards) == (stage, forwards, forwards)
    assert score.value == pytest.approx(1 / (1 + 2.718281828 ** (-10 * (chance - 0.5))), abs=1e-6)


def test_a_budget_ends_the_stages(
    knowing: Knowing, answer: Answer, digits: Critical, staged: StagedVerifier
) -> None:
    sample = answer("a1b2.c3d4.e5")
    model = knowing(sample, lambda i, n: 0.5)
    verifier = Verifier(denoiser=model, extract=no_answer, critical=digits, fitted=staged, budget=3)
    [score] = verifier.score([sample])
    assert (score.stage, score.forwards) == ("critical", 1)


def test_one_token_has_no_halves_and_they_cost_nothing(
    knowing: Knowing, answer: Answer, digits: Critical, staged: StagedVerifier
) -> None:
    """Of two tokens there are halves, and eight passes; without them nothing is asked again."""
    stages = (staged.stages[0], stage("halves8", 8, 10.0, base="halves8"))
    about = replace(staged.provenance, metrics=("critical", "halves8"))
    fitted = replace(staged, stages=stages, provenance=about)
    one, two = answer("a1b."), answer("a1b2.")
    for sample, made in ((one, ["critical"]), (two, ["critical", "halves8"])):
        model = Counted(knowing(sample, lambda i, n: 0.5))
        verifier = Verifier(denoiser=model, extract=no_answer, critical=digits, fitted=fitted)
        [score] = verifier.score([sample])
        assert score.by_metric == pytest.approx(dict.fromkeys(made, 0.5))
        assert score.forwards == model.forwards == (1 if sample is one else 9)


def test_without_labels_the_chance_that_tokens_had_when_written_counts_too(
    knowing: Knowing, answer: Answer, digits: Critical
) -> None:
    """Three probes say 0.5; the least probable token was written with 0.1: the mean is 0.4."""
    sample = answer("a1b2.")
    own = replace(sample, probs=(0.9, 0.1, *(0.8,) * (len(sample.canvas) - 2)))
    model = knowing(sample, lambda i, n: 0.5)
    outside, written = Verifier(denoiser=model, extract=no_answer, critical=digits).score(
        [sample, own]
    )
    assert (outside.value, written.value) == pytest.approx((0.5, 0.4))
    assert (outside.scorer, written.scorer) == ("verifier_at_hand", "verifier")
    assert written.by_metric["generation"] == pytest.approx(0.1)
    assert written.weights == dict.fromkeys(written.by_metric, 0.25)


def test_a_stage_that_needs_the_generation_settles_no_answer_from_outside(
    knowing: Knowing, answer: Answer, digits: Critical, staged: StagedVerifier
) -> None:
    """Whatever it says where it knows nothing is beyond its limits."""
    free = replace(stage("generation", 0, 1.0, base="generation"), low=0.6, high=0.7)
    about = replace(staged.provenance, metrics=("generation", "critical"))
    fitted = replace(staged, stages=(free, staged.stages[0]), provenance=about)
    sample = answer("a1b2.")
    model = knowing(sample, lambda i, n: 0.9)
    verifier = Verifier(denoiser=model, extract=no_answer, critical=digits, fitted=fitted)
    own = replace(sample, probs=(0.5,) * len(sample.canvas))
    assert [score.stage for score in verifier.score([sample, own])] == ["critical", "generation"]


def test_an_answer_on_another_canvas_than_those_of_the_fit_is_refused(
    llada: NativeDenoiser, answer: Answer, digits: Critical, staged: StagedVerifier
) -> None:
    sample = answer("a1b2.")
    size = len(sample.canvas)
    for length in (size, size + 1):
        about = replace(staged.provenance, settings={"sampler": {"length": length}})
        fitted = replace(staged, provenance=about)
        verifier = Verifier(denoiser=llada, extract=no_answer, critical=digits, fitted=fitted)
        if length == size:
            assert len(verifier.score([sample])) == 1
            continue
        with pytest.raises(InputError, match=f"of {size} tokens, and .* to ones of {length}; put"):
            verifier.score([sample])


def test_a_threshold_comes_with_labels(
    llada: NativeDenoiser, digits: Critical, staged: StagedVerifier
) -> None:
    verifier = Verifier(denoiser=llada, extract=no_answer, critical=digits)
    assert verifier.threshold is None
    assert replace(verifier, fitted=replace(staged, threshold=0.6)).threshold == 0.6


def test_round_trips_must_be_handed_over(
    llada: NativeDenoiser, digits: Critical, staged: StagedVerifier
) -> None:
    trips = stage("roundtrips", 64, 1.0)
    terms = {"roundtrips.answer_match": Term(centre=0.5, spread=1.0, weight=1.0)}
    trips = replace(trips, regression=replace(trips.regression, terms=terms))
    names = (*staged.provenance.metrics, *terms)
    fitted = replace(
        staged, stages=(*staged.stages, trips), provenance=replace(staged.provenance, metrics=names)
    )
    with pytest.raises(SettingsError, match="fitted to round trips too; give it their scorer"):
        Verifier(denoiser=llada, extract=no_answer, critical=digits, fitted=fitted)


def test_the_verifier_keeps_the_contract(
    llada: NativeDenoiser, block_causal: NativeDenoiser, answer: Answer, digits: Critical,
    staged: StagedVerifier,
) -> None:  # fmt: skip
    samples = [answer("a1b2c3d."), answer("xy", prompt="longer"), answer("1234567", prompt="pp")]
    for model in (llada, block_causal):
        for fitted in (None, staged):
            verifier = Verifier(denoiser=model, extract=no_answer, critical=digits, fitted=fitted)
            check_scorer(verifier, samples)


def test_the_embedded_model_is_surer_of_a_right_answer() -> None:
    model = remask.load("tiny")
    prompt = "Ben has 12 apples. Zoe has 5 more than Ben. How many has Zoe?"
    right, wrong = (
        remask.score(model, prompt, f"Zoe has 12+5={n}. The answer is {n}.", scorer="verifier")
        for n in (17, 19)
    )
    assert right.rank > 2 * wrong.rank > 0
    assert right.forwards == wrong.forwards == 17


def test_no_answers_have_no_scores(
    llada: NativeDenoiser, digits: Critical, staged: StagedVerifier
) -> None:
    label_free = Verifier(denoiser=llada, extract=no_answer, critical=digits)
    assert label_free.score([]) == []
    assert replace(label_free, fitted=staged).score([]) == []


def test_no_answer_costs_more_than_the_budget_where_those_of_the_fit_cost_less(
    knowing: Knowing, answer: Answer, digits: Critical, staged: StagedVerifier
) -> None:
    """A second stage of 2 passes in the mean, which takes 8 of a long answer; a budget of 4."""
    sample = answer("a1b2c3d4e5f6.")
    model = knowing(sample, lambda i, n: 0.5)
    cheap = replace(staged, stages=(staged.stages[0], replace(staged.stages[1], forwards=2.0)))
    verifier = Verifier(denoiser=model, extract=no_answer, critical=digits, fitted=cheap, budget=4)
    [score] = verifier.score([sample])
    assert (score.stage, score.forwards) == ("critical", 1)
    [score] = replace(verifier, budget=9).score([sample])
    assert (score.stage, score.forwards) == ("stratified50x8", 9)
    with pytest.raises(SettingsError, match="no room for stage stratified50x8; give at least 8"):
        replace(verifier, fitted=replace(cheap, stages=cheap.stages[::-1]))


def test_with_too_few_labels_nothing_is_paid_for_what_is_not_looked_at(
    knowing: Knowing, answer: Answer, digits: Critical, staged: StagedVerifier
) -> None:
    """The label-free mean is one probe; stratified50x8, a feature beside it, is not made."""
    sample = answer("a1b2.")
    model = Counted(knowing(sample, lambda i, n: 0.5))
    term = Term(centre=0.0, spread=0.0, weight=0.0)
    few = Regression(
        base=("critical",), intercept=0.0, mean=term, terms={"stratified50x8": term}, ridge=None,
        reason="too few",
    )  # fmt: skip
    only = replace(staged, stages=(replace(staged.stages[0], regression=few),))
    verifier = Verifier(denoiser=model, extract=no_answer, critical=digits, fitted=only)
    [score] = verifier.score([sample])
    assert score.value == pytest.approx(0.5)
    assert score.forwards == model.forwards == 1
    assert (score.stage, score.reason, score.scorer) == ("", "too few", "verifier_at_hand")
    assert score.weights == {"critical": 1.0}


def test_round_trips_are_priced_by_the_most_they_can_cost(
    block_causal: NativeDenoiser, answer: Answer, digits: Critical, staged: StagedVerifier
) -> None:
    """The fit says 5 passes in the mean; it costs more here, and never more than its price."""
    settings = ConsistencySettings(trips=2, rebuild_steps=2)
    trips = Consistency(
        denoiser=block_causal, extract=no_answer, settings=settings, metric_set="core"
    )
    samples = [answer("a1b2c3d4e5", prompt="p" * n) for n in (1, 9, 17)]
    for sample, made in zip(samples, trips.score(samples), strict=True):
        assert 5 < made.forwards <= trips.price(len(sample.prompt), len(sample.canvas))
    mean = stage("roundtrips", 5.0, 10.0)
    terms = {"roundtrips.token_accuracy": Term(centre=0.5, spread=1.0, weight=1.0)}
    mean = replace(mean, regression=replace(mean.regression, terms=terms))
    about = replace(staged.provenance, metrics=("critical", *terms))
    first = replace(staged.stages[0], low=0.0, high=1.0)
    fitted = replace(staged, stages=(first, mean), provenance=about)
    verifier = Verifier(
        denoiser=block_causal, extract=no_answer, critical=digits, fitted=fitted, roundtrips=trips
    )
    for sample in samples:
        most = 2 + trips.price(len(sample.prompt), len(sample.canvas))
        for budget, name in ((most - 1, "critical"), (most, "roundtrips")):
            [score] = replace(verifier, budget=budget).score([sample])
            assert (score.stage, score.forwards <= budget) == (name, True)
