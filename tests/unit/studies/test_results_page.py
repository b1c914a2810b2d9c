"""The page: verdicts follow intervals, arrows too, and nothing measured is nothing said."""

from typing import Any

import pytest

from remask.analysis.figure import Figure, parse
from remask.report.claims import FAILS, HOLDS, OPEN, verdicts
from studies.paper.page import page

ORIGIN = {name: {"hardware": "a GPU", "commit": "0123abc"} for name in ("study", "align")}
GAP = "share above, one against another; t over 4 runs"


def figures(**named: tuple[float, float, float, str]) -> dict[str, Figure]:
    """Figures by name, with two underscores for a slash: value, low, high and unit."""
    return {
        (slashed := name.replace("__", "/")): parse(slashed, entry(*numbers))
        for name, numbers in named.items()
    }


def entry(value: float, low: float, high: float, unit: str) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": 4, "unit": unit}


@pytest.mark.parametrize(
    ("low", "high", "word"), [(0.01, 0.2, HOLDS), (-0.2, -0.01, FAILS), (-0.1, 0.1, OPEN)]
)
def test_a_verdict_is_what_the_interval_says(low: float, high: float, word: str) -> None:
    gap = ((low + high) / 2, low, high, GAP)
    [claim] = verdicts(figures(align__outcome_minus_sft__accuracy=gap))
    assert (claim.claim.section, claim.word) == ("alignment", word)


def test_alignment_shows_what_was_measured_beside_the_paper() -> None:
    measured = figures(
        align__start__accuracy__short=(0.5, 0.4, 0.6, "share of right answers"),
        align__stable_minus_outcome__accuracy=(-0.056, -0.167, 0.055, GAP),
        align__stable_minus_outcome__right_steps=(1.5, 1.25, 1.75, "log-odds; t over 4 runs"),
    )
    text = page(measured, ORIGIN, [])
    value = "50.0 %<!--fig:align/start/accuracy/short--> [40.0, 60.0]"
    assert f"| start | {value} |  |  |  |" in text
    assert "| alignment | With the score in the reward it is right more often than" in text
    assert "| Table 3 | cannot be told |  |" in text
    assert "| Section 5.4 | holds |  |" in text
    assert (
        "stable above outcome, right: -5.6 %<!--fig:align/stable_minus_outcome/accuracy-->" in text
    )
    assert "right steps, in log-odds: +1.50" in text
    assert "| outcome RL | 76.5 82.9 83.5 | 32.6 35.8 37.2 |" in text
    assert "On a GPU at commit 0123abc" in text
    assert "| sft |" not in text


def test_nothing_measured_is_no_section() -> None:
    text = page({}, ORIGIN, [])
    assert "Alignment" not in text
    assert "remask study" not in text


def test_an_arrow_says_where_an_interval_lies() -> None:
    unit = "AUROC above vote, paired"
    name = "roundtrips_minus_confidence__auroc"
    measured = figures(
        **{
            f"diagnosis__wordmath__{name}": (0.2, 0.1, 0.3, unit),
            f"diagnosis__wordmath-hard__{name}": (-0.2, -0.3, -0.1, unit),
            f"diagnosis__choice__{name}": (0.0, -0.1, 0.1, unit),
        }
    )
    [line] = [
        line for line in page(measured, ORIGIN, []).splitlines() if "above confidence" in line
    ]
    cells = [cell.partition("<")[0] + cell.rpartition(">")[2] for cell in line.split(" | ")[1:4]]
    assert [cell.strip(" |") for cell in cells] == ["+0.200 ↑", "-0.200 ↓", "+0.000"]


def test_settings_are_compared_with_the_default_and_printed_beside_the_paper() -> None:
    under = "ablation__wordmath-hard__mask_ratio__0.3"
    measured = figures(
        **{
            f"{under}__auroc": (0.8, 0.7, 0.9, "AUROC"),
            f"{under}__above_default": (-0.1, -0.2, -0.05, "AUROC above the default, paired"),
        }
    )
    marker = "<!--fig:ablation/wordmath-hard/mask_ratio/0.3/auroc-->"
    assert f"| mask_ratio 0.3 | 0.800{marker} ↓ | 0.672 |" in page(measured, ORIGIN, [])
