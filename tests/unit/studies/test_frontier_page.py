"""The page of the frontier: verdicts follow values and intervals; what is absent is not said."""

import pytest

from remask.analysis.figure import Figure, parse
from remask.report.claims import read_claims
from studies.frontier.page import TARGETS, page
from studies.shared.pages import rounded

TRIPS = "frontier/mean/verifier_minus_roundtrips/auroc"


def figure(name: str, value: float, low: float | None = None, high: float | None = None) -> Figure:
    return parse(name, {"value": value, "low": low, "high": high, "n": 4, "unit": "AUROC"})


@pytest.fixture
def figures() -> dict[str, Figure]:
    named = [
        figure("frontier/mean/sequential/extra_forwards", 30.0),
        figure("frontier/mean/sequential_full/extra_forwards", 80.0),
        figure("frontier/mean/verifier/auroc", 0.8, 0.7, 0.9),
        figure("frontier/pycode/base_rate", 0.9),
        figure("frontier/pycode/rarer", 12),
    ]
    return {one.name: one for one in named}


@pytest.mark.parametrize(
    ("value", "low", "verdict"),
    [(0.03, 0.01, "holds"), (0.03, -0.01, "fails"), (0.02, 0.01, "fails")],
)
def test_a_target_holds_by_its_value_and_its_interval(
    figures: dict[str, Figure], value: float, low: float, verdict: str
) -> None:
    """At least +.025, with the interval above 0."""
    own = figure(TRIPS, value, low, 0.1)
    text = page({**figures, TRIPS: own}, "somewhere")
    [line] = [line for line in text.splitlines() if TRIPS in line]
    assert line.endswith(f"{rounded(own)} | {verdict} |")


def test_what_was_not_measured_is_left_out(figures: dict[str, Figure]) -> None:
    text = page(figures, "somewhere")
    assert not any(target.claim in text for target in read_claims(TARGETS))
    assert "a share of 0.38, where half was allowed (holds)" in text
    assert "left out of the means: pycode." in text
    assert "0.800<!--fig:frontier/mean/verifier/auroc--> [0.700, 0.900]" in text
    assert "round trips |" not in text.partition("## In the mean")[2].partition("##")[0]


def test_a_number_without_an_interval_stands_alone() -> None:
    assert rounded(figure("frontier/mean/length/auroc", 0.5)) == (
        "0.500<!--fig:frontier/mean/length/auroc-->"
    )


def test_what_was_carried_is_shown_where_it_was_measured(figures: dict[str, Figure]) -> None:
    """Rows are where a fit or a threshold comes from, columns where it is used."""
    assert "## Carried" not in page(figures, "somewhere")
    assert "## Seconds" not in page(figures, "somewhere")
    more = [
        figure("frontier/wordmath/fitted20/auroc", 0.9),
        figure("frontier/choice/fitted20/from_wordmath/auroc", 0.6),
        figure("frontier/choice/verifier/from_wordmath/precision", 0.875),
        figure("frontier/choice/verifier/from_wordmath/coverage", 0.5),
        figure("frontier/choice-longer/verifier/auroc", 0.7),
        figure("frontier/choice-longer/verifier/from_choice/precision", 0.8),
        figure("h200/llada8b/verifier_seconds", 0.25),
    ]
    text = page({**figures, **{one.name: one for one in more}}, "somewhere")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| wordmath |")]
    assert [cells[1].partition("<")[0] for cells in rows if len(cells) == 8][:1] == ["0.900"]
    assert any("0.600<!--" in cells[3] for cells in rows if len(cells) == 8)
    assert any("0.88<!--" in c and " of 0.50<!--" in c for cells in rows for c in cells)
    [longer] = [line for line in text.splitlines() if line.startswith("| choice-longer |")]
    assert "0.700<!--" in longer
    assert "0.80<!--" in longer
    [clock] = [line for line in text.splitlines() if line.startswith("| LLaDA-8B |")]
    assert "0.250<!--fig:h200/llada8b/verifier_seconds-->" in clock


def test_spreads_risks_and_families_are_shown_where_they_were_kept(
    figures: dict[str, Figure],
) -> None:
    text = page(figures, "somewhere")
    assert not any(word in text for word in ("| AURC |", ", sd 0", "without pycode |"))
    under = "frontier/mean/verifier"
    families = ("wordmath", "choice", "pycode", "countdown")
    more = [
        figure(f"{under}/aurc", 0.04),
        figure("frontier/mean/fitted20/auroc", 0.85),
        figure("frontier/mean/fitted20/auroc_sd", 0.012),
        *(figure(f"{under}/without_{family}/auroc", 0.81) for family in families),
    ]
    text = page({**figures, **{one.name: one for one in more}}, "somewhere")
    assert (
        f"| 0.800<!--fig:{under}/auroc--> [0.700, 0.900] | 0.040<!--fig:{under}/aurc--> |" in text
    )
    assert "0.850<!--fig:frontier/mean/fitted20/auroc-->, sd 0.012<!--fig:" in text
    assert f"0.810<!--fig:{under}/without_pycode/auroc-->" in text


def test_right_steps_are_shown_of_sets_where_they_are_known(figures: dict[str, Figure]) -> None:
    wide = figure("frontier/choice/verifier/auroc_steps", 0.5, 0.1, 0.9)
    assert "wrong steps" not in page({**figures, wide.name: wide}, "somewhere")
    known = figure("frontier/wordmath/verifier/auroc_steps", 0.9, 0.85, 0.95)
    text = page({**figures, wide.name: wide, known.name: known}, "somewhere")
    assert f"{rounded(known)} |" in text
    assert wide.name not in text
