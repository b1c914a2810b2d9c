"""For whom a fitted verifier may speak."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from remask.decide.provenance import Provenance
from remask.decide.stages import StagedVerifier
from remask.errors import SettingsError
from remask.verifier.columns import VERSION
from remask.verifier.fit import fit_verifier
from remask.verifier.origin import canvas_length, trip_settings
from remask.verifier.threshold import ScoreContext, check_fit

OURS = ScoreContext(kind="wordmath", model="tiny", dtype="float32")


@pytest.fixture
def fitted() -> StagedVerifier:
    settings = {
        "dtype": "float32", "revision": "a" * 40, "shots": 2, "sampler": {"length": 96},
        "consistency": {"trips": 2, "rebuild_steps": 8},
    }  # fmt: skip
    about = Provenance(
        scorer="verifier", scorer_version=VERSION, metric_set="features", metrics=(),
        task="wordmath", model="tiny", split="validation", seed=0, version="", date="",
        settings=settings,
    )  # fmt: skip
    return fit_verifier([{"critical.critical_mean": -1.0}], [True], about)


def test_answers_of_the_same_origin_pass_and_what_is_unknown_is_not_compared(
    fitted: StagedVerifier,
) -> None:
    check_fit(fitted, OURS, {"wordmath", "number"})
    check_fit(fitted, replace(OURS, kind="number"), {"wordmath", "number"})
    check_fit(fitted, replace(OURS, dtype=None, source="external"), {"wordmath"})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kind": "choice"}, "fitted on kind wordmath, got choice. Fit it again"),
        ({"model": "other"}, "model tiny, got other"),
        ({"dtype": "bfloat16"}, "dtype float32, got bfloat16"),
        ({"revision": "b" * 40}, "revision aaaa"),
        ({"shots": 0}, "shots 2, got 0"),
        ({"wording": "dream"}, "wording llada, got dream"),
        ({"model": "other", "dtype": "int8"}, "model tiny, got other; dtype float32, got int8"),
    ],
)
def test_answers_of_another_origin_are_refused(
    fitted: StagedVerifier, change: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=sentence):
        check_fit(fitted, replace(OURS, **change), {"wordmath", "number"})


def test_features_of_another_version_are_refused(fitted: StagedVerifier) -> None:
    older = replace(fitted, provenance=replace(fitted.provenance, scorer_version=0))
    with pytest.raises(SettingsError, match=f"scorer_version 0, got {VERSION}"):
        check_fit(older, OURS, {"wordmath"})


def test_round_trips_and_the_canvas_are_those_it_was_fitted_to(fitted: StagedVerifier) -> None:
    settings = trip_settings(fitted)
    assert (settings.trips, settings.rebuild_steps, settings.mask_ratio) == (2, 8, 0.9)
    assert trip_settings(None).trips == 4
    assert (canvas_length(fitted), canvas_length(None)) == (96, None)


@pytest.mark.parametrize(
    ("read", "settings"),
    [
        (trip_settings, {"consistency": {"trips": 2, "other": 1}}),
        (trip_settings, {"consistency": "usual"}),
        (canvas_length, {"sampler": 3}),
        (canvas_length, {"sampler": {"length": "long"}}),
        (canvas_length, {"sampler": {"length": -5}}),
        (canvas_length, {"sampler": {"length": True}}),
        (trip_settings, {"consistency": {"trips": 0}}),
    ],
)
def test_settings_that_cannot_be_are_refused_in_a_sentence(
    fitted: StagedVerifier, read: Callable[[StagedVerifier], Any], settings: dict[str, Any]
) -> None:
    damaged = replace(fitted, provenance=replace(fitted.provenance, settings=settings))
    with pytest.raises(SettingsError, match="which cannot be; fit it again"):
        read(damaged)
