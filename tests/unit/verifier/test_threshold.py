"""Which threshold applies to a score: a table of everything that a threshold depends on."""

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from remask.consistency.settings import ConsistencySettings
from remask.decide.provenance import Provenance
from remask.decide.threshold import Certificate
from remask.errors import InputError, SettingsError
from remask.values import Score
from remask.verifier.threshold import (
    NO_THRESHOLD,
    PAPER,
    ScoreContext,
    ScoreThreshold,
    check_certificate,
    differences,
    find_threshold,
)

USUAL = asdict(ConsistencySettings())
TRIPS = ScoreContext(
    kind="wordmath", model="tiny", dtype="float32", scorer_version=1, metrics="paper",
    weights="uniform", consistency=USUAL, source="model",
)  # fmt: skip
VERIFIER = ScoreContext(
    kind="wordmath", model="tiny", dtype="float32", scorer="verifier", scorer_version=1,
    max_forwards="all", source="model",
)  # fmt: skip
PRESET = {"roundtrips": 0.82, "verifier": 0.31, "verifier_at_hand": 0.36}


@pytest.mark.parametrize(
    ("context", "value"),
    [
        (TRIPS, 0.82),
        (replace(TRIPS, dtype="bfloat16"), 0.82),
        (VERIFIER, 0.31),
        (replace(VERIFIER, scorer="verifier_at_hand", source="external"), 0.36),
    ],
)
def test_the_preset_has_thresholds_for_default_settings(
    context: ScoreContext, value: float
) -> None:
    assert find_threshold(context, PRESET) == ScoreThreshold(value=value, source="preset")


@pytest.mark.parametrize(
    ("context", "change", "named"),
    [
        (TRIPS, {"scorer": "probe"}, "scorer probe"),
        (TRIPS, {"dtype": "int8"}, "dtype float32, got int8"),
        (TRIPS, {"metrics": "core"}, "metrics paper, got core"),
        (TRIPS, {"metrics": "token_accuracy"}, "metrics paper, got token_accuracy"),
        (TRIPS, {"weights": {"token_accuracy": 1.0}}, "weights uniform, got other"),
        (TRIPS, {"source": "external"}, "source model, got external"),
        (TRIPS, {"strategy": "repair"}, "strategy reject, got repair"),
        *(
            (TRIPS, {"consistency": USUAL | {name: value}}, f"{name} {before}, got {value}")
            for name, before, value in (
                ("trips", 4, 1), ("mask_ratio", 0.9, 0.2), ("rebuild_steps", 16, 8),
                ("mask_design", "independent", "stratified"), ("tail", "masked", "visible"),
                ("rebuild_temperature", 0, 1),
            )
        ),
        (VERIFIER, {"max_forwards": 9}, "max_forwards all, got 9"),
        (VERIFIER, {"source": "external"}, "source model, got external"),
    ],
)  # fmt: skip
def test_a_threshold_is_unknown_if_one_setting_differs(
    context: ScoreContext, change: dict[str, Any], named: str
) -> None:
    found = find_threshold(replace(context, **change), PRESET)
    assert (found.value, found.source) == (None, None)
    assert found.reason.startswith(NO_THRESHOLD)
    assert named in found.reason
    score = Score(value=1.0)
    assert found.verdict(score) == "unknown"
    assert find_threshold(replace(context, **change), PRESET, given=0.5).verdict(score) == "trust"


def test_every_round_trip_setting_is_part_of_the_context() -> None:
    assert set(USUAL) == {field.name for field in fields(ConsistencySettings)}
    for name in USUAL:
        other = replace(TRIPS, consistency=USUAL | {name: "other"})
        assert differences(TRIPS, other).startswith(f"{name} ")


def test_the_paper_s_threshold_stops_sampling_and_gives_no_verdict() -> None:
    """0.75 in a preset is the paper's too: it was not fitted to the model."""
    for preset in ({}, {"roundtrips": 0.75}):
        assert find_threshold(TRIPS, preset).value is None
        stop = find_threshold(TRIPS, preset, stops=True)
        assert (stop.value, stop.source) == (0.75, PAPER)
        assert stop.verdict(Score(value=0.99)) == "unknown"
    for other in (replace(TRIPS, metrics="core"), replace(TRIPS, scorer="probe"), VERIFIER):
        with pytest.raises(SettingsError, match="no threshold is known for these settings"):
            find_threshold(other, {}, stops=True)


def test_what_is_unknown_is_not_compared() -> None:
    assert not differences(TRIPS, ScoreContext(kind="wordmath"))
    assert not differences(ScoreContext(kind="wordmath"), TRIPS)
    both = replace(TRIPS, model="other", consistency={**USUAL, "mask_ratio": 0.25})
    assert differences(TRIPS, both) == "model tiny, got other; mask_ratio 0.9, got 0.25"


SAMPLER = {"length": 64, "temperature": 0.0, "resample_temperature": 0.9}
ASKED = replace(
    TRIPS,
    sampler=SAMPLER,
    level="hard",
    wording="llada",
    shots=0,
    revision="a" * 40,
    strategy="reject",
)


def certificate(budget: int = 1, **settings: Any) -> Certificate:
    about = Provenance(
        metric_set="paper", metrics=(), task="wordmath", model="tiny", split="test",
        seed=0, version="", date="", settings={
            "dtype": "float32", "revision": "a" * 40, "consistency": USUAL, "sampler": SAMPLER,
            "level": "hard", **settings,
        },
    )  # fmt: skip
    return Certificate(
        threshold=0.5, risk=0.1, confidence=0.95, n=50, accepted=44, wrong=0, budget=budget,
        provenance=about,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"kind": "choice"}, "kind wordmath, got choice"),
        ({"model": "other"}, "model tiny, got other"),
        ({"dtype": "bfloat16"}, "dtype float32, got bfloat16"),
        ({"dtype": None}, "dtype float32, got unknown"),
        ({"revision": None}, "got unknown"),
        ({"source": "external"}, "source model, got external"),
        ({"consistency": USUAL | {"trips": 1}}, "trips 4, got 1"),
        ({"weights": {"token_accuracy": 1.0}}, "weights uniform, got other"),
        ({"sampler": SAMPLER | {"length": 96}}, "length 64, got 96"),
        ({"level": "easy"}, "level hard, got easy"),
        ({"wording": "dream"}, "wording llada, got dream"),
        ({"shots": 2}, "shots 0, got 2"),
        ({"strategy": "repair"}, "strategy reject, got repair"),
    ],
)
def test_a_certificate_is_void_if_one_setting_differs(change: dict[str, Any], named: str) -> None:
    check_certificate(Path("c.json"), certificate(), ASKED)
    with pytest.raises(InputError, match=r"c\.json was certified for") as error:
        check_certificate(Path("c.json"), certificate(), replace(ASKED, **change))
    assert named in str(error.value)


def test_a_certificate_is_about_one_budget_and_its_temperature() -> None:
    """The temperature of further samples does not matter for a budget of one."""
    warmer = replace(ASKED, sampler=SAMPLER | {"resample_temperature": 1.5})
    check_certificate(Path("c.json"), certificate(), warmer)
    with pytest.raises(InputError, match="budget 1, got 2"):
        check_certificate(Path("c.json"), certificate(), replace(ASKED, budget=2))
    with pytest.raises(InputError, match=r"resample_temperature 0\.9, got 1\.5"):
        check_certificate(Path("c.json"), certificate(2), replace(warmer, budget=2))


def test_a_certificate_that_does_not_record_the_round_trips_is_void() -> None:
    with pytest.raises(InputError, match="consistency not recorded"):
        check_certificate(Path("c.json"), certificate(consistency=None), ASKED)


def test_a_certificate_decides_without_an_undecided_zone() -> None:
    found = find_threshold(ASKED, PRESET, fitted=certificate())
    assert (found.value, found.source) == (0.5, "certificate")
    near = Score(value=0.51, stderr=0.1)
    assert found.verdict(near) == "trust"
    assert find_threshold(ASKED, {}, given=0.5).verdict(near) == "undecided"
