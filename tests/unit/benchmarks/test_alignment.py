"""The section about alignment: verdicts follow intervals, and nothing measured is nothing said."""

import pytest
from alignment import alignment_section, alignment_verdicts

from remask.analysis.figures import Figure
from remask.report.claims import FAILS, HOLDS, OPEN

ORIGIN = {"command": "python benchmarks/align.py study", "hardware": "a GPU", "commit": "0123abc"}


def figure(value: float, low: float, high: float) -> Figure:
    return Figure(value=value, low=low, high=high, n=4, unit="share above, one against another")


@pytest.mark.parametrize(
    ("low", "high", "word"), [(0.01, 0.2, HOLDS), (-0.2, -0.01, FAILS), (-0.1, 0.1, OPEN)]
)
def test_a_verdict_is_what_the_interval_says(low: float, high: float, word: str) -> None:
    found = {"align/outcome_minus_sft/accuracy": figure((low + high) / 2, low, high)}
    [claim] = alignment_verdicts(found)
    assert (claim.study, claim.word) == ("alignment", word)


def test_a_section_shows_what_was_measured_beside_the_paper() -> None:
    found = {
        "align/start/accuracy/short": Figure(
            value=0.5, low=0.4, high=0.6, n=4, unit="share of right answers"
        ),
        "align/geometric_minus_outcome/accuracy": figure(-0.056, -0.106, -0.004),
    }
    text = alignment_section(found, ORIGIN)
    assert (
        "| start | short | 50.0 %<!--fig:align/start/accuracy/short--> [40.0, 60.0] |  |  |  |"
        in text
    )
    assert "*Does not hold here.* The difference is -5.6 %<!--fig:align/geometric_minus" in text
    assert "| GSM8K | 512 | 80.4 % | 83.5 % | 85.8 % |" in text
    assert "On a GPU at commit 0123abc." in text
    assert "outcome | short" not in text


def test_nothing_measured_is_no_section() -> None:
    assert alignment_section({}, {}) == ""
