"""Each metric by hand, the examples of the paper among them, by its definitions."""

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remask.answers import extract_choice, extract_number
from remask.consistency.metrics import (
    DIVERGENCES,
    METRIC_SETS,
    METRICS,
    Context,
    answer_match,
    character_similarity,
    check_weights,
    composite,
    critical_divergence,
    cross_entropy,
    metric_names,
    number_retention,
    semantic_similarity,
    token_accuracy,
    uniform_weights,
)
from remask.errors import DenoiserError, SettingsError
from remask.values import RoundTrips, Sample

PROBABILITIES = st.floats(1e-6, 1.0)
EGGS = "Step 1: 16 - 3 = 13. Step 2: 13 - 4 = 9. Answer: 9"
# f and f(0) of each divergence, to hold the closed forms against their definition
GENERATORS = {
    "kl": (lambda u: u * math.log(u), 0.0),
    "total_variation": (lambda u: abs(u - 1) / 2, 0.5),
    "squared_hellinger": (lambda u: (math.sqrt(u) - 1) ** 2 / 2, 0.5),
    "chi_squared": (lambda u: (u - 1) ** 2, 1.0),
}


def words(a: str, b: str) -> float | None:
    """Return the token accuracy of two texts, a word being a token and all of them masked."""
    left, right = a.split(), b.split()
    known = {word: number for number, word in enumerate({*left, *right})}
    right = (right + [""] * len(left))[: len(left)]
    original = torch.tensor([known[word] for word in left])
    rebuilt = torch.tensor([known.get(word, -1) for word in right])
    return token_accuracy(original, rebuilt, torch.ones(len(left), dtype=torch.bool))


def test_token_accuracy_counts_masked_tokens_only() -> None:
    """Masked: 4 of 5 tokens, of which 3 come back: 0.75. The visible one, changed, is not seen."""
    original = torch.tensor([1, 2, 3, 4, 5])
    rebuilt = torch.tensor([1, 2, 3, 9, 9])
    masked = torch.tensor([True, True, True, True, False])
    assert token_accuracy(original, rebuilt, masked) == 0.75


def test_token_accuracy_reaches_its_bounds_and_is_absent_when_nothing_is_masked() -> None:
    tokens, every = torch.tensor([1, 2, 3]), torch.tensor([True, True, True])
    assert token_accuracy(tokens, tokens, every) == 1.0
    assert token_accuracy(tokens, tokens + 1, every) == 0.0
    assert token_accuracy(tokens, tokens, ~every) is None


def test_token_accuracy_of_the_papers_paraphrase_is_about_a_third() -> None:
    """5 of 16 words stand where they stood: the, 9, eggs, at, the. The paper says 0.3."""
    a = "Janet sells the remaining 9 eggs at the farmer's market for $2 each, earning $18 daily."
    b = "She vends the leftover 9 eggs at the market for $2 apiece, making $18 per day."
    assert words(a, b) == pytest.approx(5 / 16)


def test_token_accuracy_of_the_papers_short_pairs() -> None:
    """One word in two, four, three differs: 1/2 as the paper says; 3/4, 2/3 where it says 0."""
    assert words("Answer: 18", "Answer: 18.0") == 1 / 2
    assert words("Compute 7 × 3", "Calculate 7 × 3") == 3 / 4
    assert words("First, subtract 5", "Initially, subtract 5") == pytest.approx(2 / 3)


def test_semantic_similarity_is_the_cosine() -> None:
    """(3, 4) and (4, 3): 24 / 25. Opposite vectors: -1, which is kept."""
    assert semantic_similarity([3.0, 4.0], [4.0, 3.0]) == pytest.approx(0.96)
    assert semantic_similarity([1.0, 2.0], [-2.0, -4.0]) == pytest.approx(-1.0)
    assert semantic_similarity([1.0, 0.0], [0.0, 5.0]) == 0.0


def test_number_retention_of_the_papers_early_drift() -> None:
    """Worked by hand.

    The original has 1 16 3 13 2 13 4 9 9; the rebuild 1 16 3 13 2 13 5 8 8. Six of nine are kept.
    """
    rebuilt = "Step 1: 16 - 3 = 13. Step 2: 13 - 5 = 8. Answer: 8"
    assert number_retention(EGGS, rebuilt) == pytest.approx(6 / 9)


def test_number_retention_of_the_papers_hallucination() -> None:
    """All four numbers (16 7 9 9) are kept; surplus numbers cost nothing."""
    original = "16 - 7 = 9. Answer: 9"
    rebuilt = "16 - 7 = 9. Also, 9 × 100 = 900. But the answer is 9."
    assert number_retention(original, rebuilt) == 1.0


def test_number_retention_reaches_its_bounds_and_is_absent_without_numbers() -> None:
    assert number_retention("18 and 2", "2.0 and $18") == 1.0
    assert number_retention("18", "81") == 0.0
    assert number_retention("none", "18") is None


def test_number_retention_counts_repetitions() -> None:
    """9 9 9 against 9: one of three."""
    assert number_retention("9 9 9", "9") == pytest.approx(1 / 3)


@given(st.text(), st.text())
def test_number_retention_is_bounded_on_any_text(a: str, b: str) -> None:
    value = number_retention(a, b)
    assert value is None or 0 <= value <= 1


@given(st.lists(st.integers(0, 20), min_size=1), st.lists(st.integers(0, 20)), st.randoms())
def test_number_retention_does_not_depend_on_order(
    a: list[int], b: list[int], shuffler: random.Random
) -> None:
    shuffled = shuffler.sample(b, len(b))
    one, other = (" and ".join(map(str, numbers)) for numbers in (b, shuffled))
    original = " and ".join(map(str, a))
    assert number_retention(original, one) == number_retention(original, other)


def test_answers_match_only_where_both_exist_and_are_equivalent() -> None:
    assert answer_match(extract_number("Answer: 18"), extract_number("#### $18.0")) == 1.0
    assert answer_match("18", "81") == 0.0
    assert answer_match(None, None) == 0.0
    assert answer_match(None, "18") == 0.0
    assert answer_match("18", None) == 0.0


@pytest.mark.parametrize(
    ("a", "b", "similarity"),
    [
        ("The answer is 18 dollars.", "The answer is 81 dollars.", 1 - 2 / 25),
        ("calculate", "calculation", 1 - 3 / 11),
        ("occured", "occurred", 1 - 1 / 8),
        ("$18", "18 dollars", 1 - 9 / 10),
        ("same", "same", 1.0),
        ("abc", "xyz", 0.0),
        ("", "abc", 0.0),
        ("", "", 1.0),
    ],
)
def test_character_similarity_by_hand(a: str, b: str, similarity: float) -> None:
    """Edits over the longer text.

    18 to 81: two substitutions in 25 characters (0.92; the paper says 0.93). calculat|e to
    calculat|ion: one substitution and two insertions in 11 (0.73; the paper says 0.83).
    occur|r|ed: one insertion in 8. "$18" to "18 dollars": one deletion, eight insertions in 10.
    """
    assert character_similarity(a, b) == pytest.approx(similarity)


@given(st.text(), st.text())
def test_character_similarity_is_symmetric_and_bounded(a: str, b: str) -> None:
    assert 0 <= character_similarity(a, b) <= 1
    assert character_similarity(a, b) == character_similarity(b, a)


def test_cross_entropy_is_the_geometric_mean_of_the_masked_probabilities() -> None:
    """Masked probabilities 0.5 and 0.125: sqrt(1/16) = 0.25."""
    logp = torch.tensor([0.5, 0.125, 1.0]).log()
    assert cross_entropy(logp, torch.tensor([True, True, False])) == pytest.approx(0.25)
    assert cross_entropy(torch.zeros(3), torch.tensor([True, True, True])) == 1.0
    assert cross_entropy(logp, torch.tensor([False, False, False])) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kl", -(math.log(4) + math.log(2)) / 2),
        ("total_variation", -(3 / 4 + 1 / 2) / 2),
        ("squared_hellinger", -(1 / 2 + 1 - math.sqrt(1 / 2)) / 2),
        ("chi_squared", -(3 + 1) / 2),
    ],
)
def test_critical_divergence_by_hand(name: str, value: float) -> None:
    """Critical probabilities 1/4 and 1/2; the third token is not critical.

    kl: log 4, log 2. Total variation: 3/4, 1/2. Hellinger: 1 - 1/2, 1 - sqrt(1/2).
    Chi squared: 4 - 1, 2 - 1. The metric is minus their mean.
    """
    logp = torch.tensor([0.25, 0.5, 0.1], dtype=torch.float64).log()
    critical = torch.tensor([True, True, False])
    assert critical_divergence(logp, critical, name) == pytest.approx(value)


@pytest.mark.parametrize("name", DIVERGENCES)
@given(q=PROBABILITIES)
def test_closed_forms_equal_the_definition(name: str, q: float) -> None:
    f, at_zero = GENERATORS[name]
    logp = torch.tensor([math.log(q)], dtype=torch.float64)
    value = critical_divergence(logp, torch.tensor([True]), name)
    assert value == pytest.approx(-(q * f(1 / q) + at_zero * (1 - q)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_critical_divergence_rises_with_the_probability_up_to_zero(name: str) -> None:
    """Proposition 2: minus the divergence is monotone in the probability of the critical token."""
    grid = torch.linspace(-40, 0, 200, dtype=torch.float64)
    values = [critical_divergence(logp[None], torch.tensor([True]), name) for logp in grid]
    assert values == sorted(values)
    assert values[-1] == 0
    assert values[0] < -0.99


def test_critical_divergence_is_finite_where_the_probability_underflows() -> None:
    assert critical_divergence(torch.tensor([-800.0]), torch.tensor([True])) == -800.0


def test_critical_divergence_is_absent_without_critical_tokens_and_refuses_unknown_names() -> None:
    logp = torch.zeros(2)
    assert critical_divergence(logp, torch.tensor([False, False])) is None
    with pytest.raises(SettingsError, match="Unknown divergence 'js'"):
        critical_divergence(logp, torch.tensor([True, True]), "js")


def trips() -> RoundTrips:
    """Return two trips of "Answer: 18": tokens Answer : _1 8 <end>, then two of the EOS tail.

    Trip 0 masks all and brings all back; trip 1 masks _1 and 8 and the tail, and rebuilds 19 and
    another tail.
    """
    sample = Sample(
        item="eggs", prompt=(9,), canvas=(1, 2, 3, 4, 0, 0, 0), num_response=5, text="Answer: 18"
    )
    second = torch.tensor([False, False, True, True, False, True, True])
    return RoundTrips(
        sample=sample,
        masked=torch.stack([torch.ones(7, dtype=torch.bool), second]),
        rebuilt=torch.tensor([[1, 2, 3, 4, 0, 0, 0], [1, 2, 3, 5, 0, 7, 7]]),
        texts=("Answer: 18", "Answer: 19"),
        confidence=(0.9, None),
        logp=torch.tensor([[0.0] * 7, [0.0, 0.0, -1.0, -3.0, 0.0, -50.0, -50.0]]),
        drift=torch.tensor([0.0, 0.0, 0.0, 0.5, 0.0]),
        displacement=(0.0, 0.25),
        forwards=32,
    )


def test_every_metric_reads_its_inputs_from_the_round_trips() -> None:
    """Worked by hand for trip 1, trip 0 being perfect.

    Tokens: 1 of 2 masked response tokens. Numbers: 18 lost. Characters: 1 of 10 edited.
    Mean log-probability over _1 and 8: -2, so exp(-2) and, both being critical, a KL of 2.
    Code: "Answer: 18" parses as an annotation; 1 of its 4 tokens (NEWLINE counts) differs.
    """
    context = Context(
        extract=extract_number,
        pieces=("Answer", ":", " 1", "8", ""),
        similarities=(1.0, 0.8),
    )
    computed = {name: metric.compute(trips(), context) for name, metric in METRICS.items()}
    assert computed == {
        "token_accuracy": (1.0, 0.5),
        "semantic_similarity": (1.0, 0.8),
        "number_retention": (1.0, 0.0),
        "answer_match": (1.0, 0.0),
        "character_similarity": (1.0, pytest.approx(0.9)),
        "confidence": (0.9, None),
        "cross_entropy": (1.0, pytest.approx(math.exp(-2))),
        "critical_divergence": (0.0, pytest.approx(-2.0)),
        "embedding_distance": (0.0, -0.25),
        "ast_similarity": (1.0, 1.0),
        "token_substitution": (1.0, pytest.approx(3 / 4)),
    }


def test_the_context_selects_the_divergence() -> None:
    """The total variation of trip 1 is the mean of 1 - exp(-1) and 1 - exp(-3)."""
    context = Context(
        extract=extract_number,
        pieces=("Answer", ":", " 1", "8", ""),
        divergence="total_variation",
    )
    expected = -(1 - math.exp(-1) + 1 - math.exp(-3)) / 2
    computed = METRICS["critical_divergence"].compute(trips(), context)
    assert computed == (0.0, pytest.approx(expected))


def test_a_missing_answer_in_the_original_is_no_match() -> None:
    context = Context(extract=extract_choice)
    assert METRICS["answer_match"].compute(trips(), context) == (0.0, 0.0)


def test_semantic_similarity_without_an_encoder_is_refused_with_the_remedy() -> None:
    with pytest.raises(SettingsError, match="metric set 'core'"):
        METRICS["semantic_similarity"].compute(trips(), Context(extract=extract_number))


def test_the_sets_are_the_papers_six_and_the_five_without_an_encoder() -> None:
    assert len(METRIC_SETS["paper"]) == 6
    assert set(METRIC_SETS["paper"]) - set(METRIC_SETS["core"]) == {"semantic_similarity"}
    assert all(name == metric.name for name, metric in METRICS.items())


def test_a_task_brings_its_own_metrics() -> None:
    code = ("token_accuracy", "semantic_similarity", "ast_similarity", "token_substitution")
    assert metric_names("paper", None) == METRIC_SETS["paper"]
    assert metric_names("paper", code) == code
    assert metric_names("core", code) == ("token_accuracy", "ast_similarity", "token_substitution")
    assert metric_names("paper", ("confidence", *code, "confidence")) == ("confidence", *code)


def test_unknown_sets_and_metrics_are_refused() -> None:
    with pytest.raises(SettingsError, match="metrics must be paper or core, got 'all'"):
        metric_names("all", None)
    with pytest.raises(SettingsError, match="Unknown metric 'bleu'"):
        metric_names("core", ("bleu",))


def test_the_composite_is_the_weighted_mean() -> None:
    """0.75 * 1 + 0.25 * 0.2 = 0.8. Extra values without a weight do not count."""
    weights = {"answer_match": 0.75, "token_accuracy": 0.25}
    values = {"answer_match": 1.0, "token_accuracy": 0.2, "cross_entropy": 0.0}
    assert composite(values, weights) == pytest.approx(0.8)


def test_the_weight_of_an_absent_metric_is_shared_out() -> None:
    """Weights 1/2, 1/4, 1/4 with the first absent: (0.25 * 1 + 0.25 * 0.5) / 0.5 = 0.75."""
    weights = {"number_retention": 0.5, "answer_match": 0.25, "token_accuracy": 0.25}
    assert composite({"answer_match": 1.0, "token_accuracy": 0.5}, weights) == pytest.approx(0.75)


def test_the_composite_is_absent_where_no_present_metric_has_weight() -> None:
    weights = {"number_retention": 1.0, "token_accuracy": 0.0}
    assert composite({"token_accuracy": 0.5}, weights) is None


def test_the_composite_of_nan_is_an_error_that_names_the_metric() -> None:
    with pytest.raises(DenoiserError, match="'confidence' is NaN"):
        composite({"confidence": math.nan}, {"confidence": 1.0})


@given(st.dictionaries(st.sampled_from(METRIC_SETS["paper"]), st.floats(0, 1), min_size=1))
def test_the_uniform_composite_is_the_mean_of_what_is_present(values: dict[str, float]) -> None:
    mean = sum(values.values()) / len(values)
    assert composite(values, uniform_weights(METRIC_SETS["paper"])) == pytest.approx(mean)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"confidence": 1.0}, "must name the metrics answer_match, confidence, got confidence"),
        ({"confidence": 0.5, "answer_match": 0.4}, "must sum to 1, got 0.9"),
        ({"confidence": 1.5, "answer_match": -0.5}, "'answer_match' must be at least 0, got -0.5"),
        ({"confidence": math.nan, "answer_match": 1.0}, "'confidence' must be at least 0, got nan"),
    ],
)
def test_weights_that_cannot_work_are_refused(weights: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        check_weights(weights, ("answer_match", "confidence"))


def test_weights_that_sum_to_one_up_to_rounding_are_accepted() -> None:
    names = METRIC_SETS["paper"]
    check_weights(uniform_weights(names), names)
    with pytest.raises(SettingsError, match="sum to"):
        check_weights(dict.fromkeys(names, 1 / 6 + 1e-6), names)
