"""Which threshold answers are judged by, and what is said of it."""

import pytest

from remask.analysis.limits import Limit, Limits
from remask.records.manifest import Manifest

TOLD = Manifest(settings={}, thresholds={"roundtrips": 0.82, "probe": 0.4})
SILENT = Manifest(settings={})


@pytest.mark.parametrize(
    ("limits", "manifest", "said"),
    [
        (Limits(), TOLD, "0.82, the model's own, by which the server judges"),
        (Limits(), SILENT, "0.75, the paper's, as the manifest tells none of the model"),
        (Limits(), None, "0.75, the paper's, as the manifest tells none of the model"),
        (
            Limits(chosen={"a": 0.9}),
            TOLD,
            "0.9, the best F1 on answers of another split; the server judges by 0.82",
        ),
        (Limits(chosen={"a": 0.9}), None, "0.9, the best F1 on answers of another split"),
        (Limits(chosen={"b": 0.9}), TOLD, "0.82, the model's own, by which the server judges"),
        (
            Limits(given={"a": 0.5}, chosen={"a": 0.9}),
            TOLD,
            "0.5, as given; the server judges by 0.82",
        ),
    ],
)
def test_a_threshold_says_where_it_is_from(
    limits: Limits, manifest: Manifest | None, said: str
) -> None:
    limit = limits.of("a", manifest)
    assert str(limit) == said
    assert limit.value == float(said.split(",")[0])


def test_a_limit_is_a_value() -> None:
    assert Limits().of("a", SILENT) == Limit(value=0.75, origin="paper")
