"""Features of an answer, by hand."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from remask.probes.readings import Critical, Reading
from remask.values import Sample, Score, Trace
from remask.verifier.features import generation_features, probe_features, round_trip_features

Answer = Callable[..., Sample]


def decode(tokens: object) -> str:
    return "".join(map(chr, tokens))  # type: ignore[call-overload]


def extract(text: str) -> str | None:
    return text[-1:] or None


def test_what_costs_nothing(answer: Answer, digits: Critical) -> None:
    sample = replace(answer("a1b2"), probs=(0.5, 0.1, 0.5, 0.4))
    features = generation_features(sample, digits, decode, extract)
    assert features["length"] == sample.num_response
    assert features["critical_count"] == 2
    assert features["generation.critical_mean"] == pytest.approx(math.log(0.04) / 2)
    assert features["generation.critical_min"] == pytest.approx(math.log(0.1))
    assert features["generation.response_min"] == pytest.approx(math.log(0.1))
    assert not any(name.startswith("trace.") for name in features)


def test_a_probability_of_0_has_a_finite_logarithm(answer: Answer, digits: Critical) -> None:
    sample = replace(answer("a1"), probs=(0.0,) * 2)
    assert math.isfinite(generation_features(sample, digits, decode, extract)["length"] or 0)
    value = generation_features(sample, digits, decode, extract)["generation.response_min"]
    assert value == pytest.approx(math.log(1e-30))


def test_an_answer_from_outside_has_no_generation(answer: Answer, digits: Critical) -> None:
    features = generation_features(answer("a1b2"), digits, decode, extract)
    assert set(features) == {"length", "critical_count"}


def test_a_traced_answer_says_how_often_it_changed(answer: Answer, digits: Critical) -> None:
    """None, as the end is missing, A, B, B: one flip, and settled after two of four steps."""
    ended = (tuple(map(ord, text)) for text in ("xA", "xB", "yB"))
    rows = ((ord("x"), -1), *ended)
    trace = Trace(entropy=(0.0, 0.0), tentative=rows, mean_entropy=(0.0,) * 4)
    traced = replace(answer("a1"), num_response=2, trace=trace)
    features = generation_features(traced, digits, decode, extract)
    assert (features["trace.flips"], features["trace.settled"]) == (1, 0.5)


def test_probes_are_named_and_priced() -> None:
    reading = Reading(logp=(-1.0, -3.0, None), critical=(False, True, True), forwards=8)
    features = probe_features({"stratified50x8": reading, "critical": replace(reading, forwards=1)})
    assert features["stratified50x8.response_mean"] == -2
    assert features["stratified50x8.critical_mean"] == -3
    assert features["stratified50x8.forwards"] == 8
    assert features["critical.critical_min"] == -3
    assert "critical.response_mean" not in features


def test_round_trips_are_named_by_metric() -> None:
    score = Score(value=0.5, by_metric={"answer_match": 0.5})
    assert round_trip_features(score) == {"roundtrips.answer_match": 0.5}
