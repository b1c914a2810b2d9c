"""Which threshold answers are judged by, and what is said of it."""

from dataclasses import replace
from typing import Any

import pytest

from remask.analysis.limits import Limits
from remask.records.manifest import Manifest
from remask.values import Score

TOLD = Manifest(settings={}, thresholds={"roundtrips": 0.82, "probe": 0.4})
SILENT = Manifest(settings={})


@pytest.mark.parametrize(
    ("limits", "manifest", "said"),
    [
        (Limits(), TOLD, "0.82, from the model's preset"),
        (Limits(), SILENT, "0.75, the paper's, not validated for this model"),
        (Limits(), None, "0.75, the paper's, not validated for this model"),
        (
            Limits(chosen={"a": 0.9}),
            TOLD,
            "0.9, the best F1 on answers of another split; the preset has 0.82",
        ),
        (Limits(chosen={"a": 0.9}), None, "0.9, the best F1 on answers of another split"),
        (Limits(chosen={"b": 0.9}), TOLD, "0.82, from the model's preset"),
        (
            Limits(given={"a": 0.5}, chosen={"a": 0.9}),
            TOLD,
            "0.5, as given; the preset has 0.82",
        ),
    ],
)
def test_a_threshold_says_where_it_is_from(
    limits: Limits, manifest: Manifest | None, said: str
) -> None:
    limit = limits.of("a", manifest)
    assert str(limit) == said
    assert limit.value == float(said.split(",")[0])


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "trust"),
        ({"model": "other"}, "unknown"),
        ({"metrics": "core"}, "unknown"),
        ({"consistency": {"trips": 1}}, "unknown"),
    ],
)
def test_a_threshold_of_another_split_is_for_answers_scored_alike(
    change: dict[str, Any], verdict: str
) -> None:
    settings = {"model": "m", "metrics": "paper", "consistency": {"trips": 4}}
    before = Manifest(settings=settings)
    limits = Limits(chosen={"a": 0.9}, manifests={"a": before})
    limit = limits.of("a", Manifest(settings=settings | change))
    assert (limit.value, limit.verdict(Score(value=0.95))) == (0.9, verdict)
    assert limits.of("a", None).verdict(Score(value=0.95)) == "unknown"


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "trust"),
        ({"metrics": "core"}, "unknown"),
        ({"consistency": {"mask_ratio": 0.2}}, "unknown"),
    ],
)
def test_a_threshold_of_the_preset_is_for_default_round_trips(
    change: dict[str, Any], verdict: str
) -> None:
    settings = {"model": "m", "metrics": "paper", "consistency": {}}
    manifest = Manifest(settings=settings | change, thresholds={"roundtrips": 0.82})
    assert Limits().of("a", manifest).verdict(Score(value=0.95)) == verdict
    paper = replace(manifest, thresholds={"roundtrips": 0.75})
    assert Limits().of("a", paper).verdict(Score(value=0.95)) == "unknown"
