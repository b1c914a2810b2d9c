"""A figure's fields spell its name, and the name its fields."""

import json
from pathlib import Path

import pytest

from remask.analysis.bootstrap import Interval
from remask.analysis.figure import Figure, of_interval, parse, parse_name

EXPORTED = Path(__file__).parents[3] / "docs" / "figures.json"


def test_every_exported_figure_is_read_and_spelled_again() -> None:
    entries = json.loads(EXPORTED.read_text())["figures"]
    assert entries
    for name, entry in entries.items():
        figure = parse(name, entry)
        assert figure.name == name
        assert {
            key: x for key, x in figure.entry().items() if x is not None
        }.items() <= entry.items()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("accuracy/choice", {"section": "accuracy", "measure": "accuracy", "study": "choice"}),
        ("carried/threshold", {"section": "carried", "measure": "threshold"}),
        (
            "diagnosis/choice/roundtrips/auroc",
            {"section": "diagnosis", "study": "choice", "method": "roundtrips", "measure": "auroc"},
        ),
        (
            "correction/choice/mgrs/hard/n_avg",
            {
                "section": "correction", "study": "choice", "method": "mgrs", "part": "hard",
                "measure": "n_avg",
            },
        ),
        (
            "ablation/choice/composite/optimized/weight/confidence",
            {
                "section": "ablation", "study": "choice", "method": "composite",
                "part": "optimized", "measure": "weight", "metric": "confidence",
            },
        ),
        (
            "spurious/injected/choice/slip/auroc",
            {
                "section": "spurious/injected", "study": "choice", "method": "slip",
                "measure": "auroc",
            },
        ),
        (
            "real/ablation/svamp/trips/8/auroc",
            {
                "section": "real/ablation", "study": "svamp", "method": "trips", "part": "8",
                "measure": "auroc",
            },
        ),
        (
            "real/svamp/probe/pool/auroc",
            {
                "section": "real", "study": "svamp", "method": "probe", "part": "pool",
                "measure": "auroc",
            },
        ),
        (
            "process/wordmath/weakest_token/auroc",
            {
                "section": "process", "study": "wordmath", "part": "weakest_token",
                "measure": "auroc",
            },
        ),
        (
            "scaling/tiny/choice/vote/auroc",
            {
                "section": "scaling", "model": "tiny", "study": "choice", "method": "vote",
                "measure": "auroc",
            },
        ),
    ],
)  # fmt: skip
def test_a_name_says_what_the_figure_is_of(name: str, fields: dict[str, str]) -> None:
    assert parse_name(name) == fields
    assert Figure(value=0.5, unit="share", **fields).name == name


def test_what_a_unit_does_not_say_follows_it_in_the_export() -> None:
    interval = Interval(0.5, 0.25, 0.75, 8)
    figure = of_interval(interval, section="cost", measure="x", unit="share", detail="of others")
    assert figure.entry() == {
        "value": 0.5, "low": 0.25, "high": 0.75, "n": 8, "unit": "share; of others",
    }  # fmt: skip
    assert parse(figure.name, figure.entry()) == figure
    assert figure.ends == (0.25, 0.75)
    assert Figure(section="cost", measure="x", value=2.0, unit="share").ends == (2.0, 2.0)
