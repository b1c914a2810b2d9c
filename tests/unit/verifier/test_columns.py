"""Names of features, and what is made of them."""

import math

import pytest

from remask.errors import SettingsError
from remask.probes.settings import Probe
from remask.verifier.columns import (
    LABEL_FREE_PROBES,
    label_free,
    lookup,
    needs_round_trips,
    probes_in,
    readings_of,
    value_of,
)

FEATURES = {
    "length": 7,
    "critical.critical_mean": math.log(0.25),
    "stratified50x8.response_mean": math.log(0.5),
    "stratified50x8.critical_mean": math.log(0.1),
}


def test_a_value_is_exp_of_the_first_reading() -> None:
    assert value_of("critical", FEATURES) == pytest.approx(0.25)
    assert value_of("stratified50x8", FEATURES) == pytest.approx(0.5)
    assert value_of("stratified80x8", FEATURES) is None


def test_a_probe_of_critical_tokens_has_no_reading_of_the_response() -> None:
    assert readings_of("halves8") == ("critical_min", "critical_mean")
    assert readings_of("generation")[0] == "response_min"
    assert readings_of("stratified50x8")[0] == "response_mean"
    with pytest.raises(SettingsError, match="Unknown probe 'what'"):
        readings_of("what")


def test_a_column_is_a_feature_or_the_value_of_a_probe() -> None:
    assert lookup("length", FEATURES) == 7
    assert lookup("stratified50x8.critical_mean", FEATURES) == pytest.approx(math.log(0.1))
    assert lookup("stratified50x8", FEATURES) == pytest.approx(0.5)
    assert lookup("generation.response_mean", FEATURES) is None


def test_the_value_of_the_generation_is_that_of_a_probe() -> None:
    written = {"generation.response_min": math.log(0.2), "generation.critical_mean": -9.0}
    assert lookup("generation", written) == pytest.approx(0.2)
    assert lookup("generation", FEATURES) is None


def test_scores_without_labels_follow_from_features() -> None:
    """A value of .25, and .1 and .35 for the two probes that were not made; .9 when written."""
    assert label_free("probe", FEATURES) == pytest.approx(0.25)
    assert label_free("verifier", FEATURES) is None
    others = {
        "halves8.critical_min": math.log(0.1), "stratified90x8.response_mean": math.log(0.35),
    }  # fmt: skip
    assert label_free("verifier", {**FEATURES, **others}) == pytest.approx(0.7 / 3)
    written = {"generation.response_min": math.log(0.9)}
    assert label_free("verifier", {**FEATURES, **others, **written}) == pytest.approx(1.6 / 4)


def test_halves_that_were_tried_in_vain_are_left_out_of_the_mean() -> None:
    """They cost nothing, which says that they were tried: one critical token has no halves."""
    features = {**FEATURES, "stratified90x8.response_mean": math.log(0.35)}
    assert label_free("verifier", features) is None
    vain = {"halves8.critical_min": None, "halves8.forwards": 0}
    assert label_free("verifier", {**features, **vain}) == pytest.approx(0.6 / 2)


def test_columns_say_which_probes_they_need() -> None:
    names = [
        "length", "generation.response_min", "trace.flips", "critical", "critical.critical_min",
        "roundtrips.answer_match", "stratified50x8.response_mean",
    ]  # fmt: skip
    assert probes_in(names) == ["critical", "stratified50x8"]
    assert needs_round_trips(names)
    assert not needs_round_trips(names[:5])


def test_the_label_free_probes_are_in_order_of_price_and_within_25_passes() -> None:
    passes = [Probe.named(name).passes for name in LABEL_FREE_PROBES]
    assert passes == sorted(passes)
    assert sum(passes) <= 25
