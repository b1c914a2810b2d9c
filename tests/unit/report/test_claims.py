"""Verdicts on the paper's claims: from intervals alone, with the numbers of the figures."""

from typing import Any

import pytest

from remask.analysis.figure import Figure, parse
from remask.report.claims import (
    FAILS,
    HOLDS,
    NOT_OVER_RUNS,
    OPEN,
    Claim,
    Verdict,
    compare,
    read_claims,
    verdicts,
)
from studies.paper.published import MIXTURES, SETTINGS

GAP = "diagnosis/{}/roundtrips_minus_consistency/auroc"


Entry = dict[str, Any]


def figure(value: float, low: float | None = None, high: float | None = None) -> Entry:
    return {"value": value, "low": low, "high": high, "n": 10, "unit": "AUROC above vote, paired"}


def judged(found: dict[str, Entry]) -> list[Verdict]:
    figures: dict[str, Figure] = {name: parse(name, entry) for name, entry in found.items()}
    return verdicts(figures)


@pytest.mark.parametrize(
    ("ours", "operator", "holds"),
    [
        ((0.1, 0.2), ">", True), ((0.1, 0.2), "<", False), ((-0.2, -0.1), ">", False),
        ((-0.2, -0.1), "<", True), ((-0.1, 0.1), ">", None), ((0.0, 0.1), ">", None),
        ((0.0, 0.0), ">", None), ((0.0, 0.0), "<", None), ((0.0, 0.1), ">=", True),
        ((-0.1, 0.0), "<=", True), ((-0.1, 0.0), ">=", None),
    ],
)  # fmt: skip
def test_an_interval_decides_if_it_is_beyond_the_bound(
    ours: tuple[float, float], operator: str, holds: bool | None
) -> None:
    assert compare(ours, operator, (0.0, 0.0)) is holds


@pytest.mark.parametrize(
    ("test", "word"),
    [
        ("value(a/x) >= 0.1 and low(a/x) >= 0", HOLDS), ("value(a/x) >= 0.3", FAILS),
        ("low(a/x) > 0.05", FAILS), ("low(a/none) >= 0", FAILS), ("a/x > 0.1", OPEN),
        ("a/{x,none} > 0", HOLDS), ("a/x > a/none", FAILS),
    ],
)  # fmt: skip
def test_a_test_reads_values_ends_and_intervals(test: str, word: str) -> None:
    """The figure x is .2 [.05, .3], the figure none is .5 without an interval."""
    found = {"a/x": figure(0.2, 0.05, 0.3), "a/none": figure(0.5)}
    figures = {name: parse(name, entry) for name, entry in found.items()}
    assert Claim(section="s", claim="c", test=test).judge(figures).word == word


@pytest.mark.parametrize("test", ["a/x", "a/x = 1", "mean(a/x) > 0", "a/x > 0 or a/y > 0"])
def test_another_test_is_refused(test: str) -> None:
    with pytest.raises(ValueError, match="must be NAME > BOUND"):
        Claim(section="s", claim="c", test=test).conditions()


def test_a_claim_about_all_studies_holds_on_each_and_fails_on_one() -> None:
    holds, fails, tells_nothing = figure(0.2, 0.1, 0.3), figure(-0.2, -0.3, -0.1), figure(0, -1, 1)
    for several, word in (
        ((holds, holds), HOLDS), ((holds, tells_nothing), OPEN),
        ((holds, tells_nothing, fails), FAILS),
    ):  # fmt: skip
        [told] = judged({GAP.format(k): entry for k, entry in enumerate(several)})
        assert told.word == word


def test_a_verdict_lists_where_a_claim_holds() -> None:
    found = {
        GAP.format("a"): figure(0.2, 0.1, 0.3),
        GAP.format("b"): figure(-0.2, -0.3, -0.1),
        GAP.format("c"): figure(0.0, -0.1, 0.1),
    }
    (told,) = judged(found)
    assert (told.claim.section, told.word, told.tally) == (
        "diagnosis",
        FAILS,
        "1 of 3 hold, 1 fail",
    )
    assert (told.held, told.failed, told.undecided) == (("a",), ("b",), ("c",))


def test_numbers_that_are_no_pair_are_compared_by_their_intervals() -> None:
    """The answer alone .9 [.8, 1] against tokens .6 [.5, .7]: apart; .6 [.5, .81] is not."""
    names = [f"ablation/x/alone/{m}/auroc" for m in ("answer_match", "token_accuracy")]
    apart = {names[0]: figure(0.9, 0.8, 1.0), names[1]: figure(0.6, 0.5, 0.7)}
    (told,) = judged(apart)
    assert told.word == HOLDS
    assert told.held == ("x",)
    (open_one,) = judged(apart | {names[1]: figure(0.6, 0.5, 0.81)})
    assert open_one.word == OPEN
    (other,) = judged({names[0]: apart[names[1]], names[1]: apart[names[0]]})
    assert other.word == FAILS


def test_the_main_study_of_geometry_has_no_place_in_its_names() -> None:
    found = {
        "geometry/density_ratio": figure(2.0, 1.5, 3.0),
        "geometry/choice/density_ratio": figure(1.0, 0.8, 1.2),
    }
    (told,) = judged(found)
    assert (told.held, told.undecided) == (("wordmath-hard",), ("choice",))


def test_contraction_is_judged_only_where_it_was_measured() -> None:
    claims = [told.claim.claim for told in judged({"geometry/spearman": figure(0.9)})]
    assert claims == []
    (told,) = judged({"geometry/contraction": figure(0.2, 0.1, 0.3)})
    assert told.word == HOLDS


@pytest.mark.parametrize(
    ("unit", "word", "note"),
    [("share; t over 12 runs", HOLDS, ""), ("share, same problems and seeds", OPEN, NOT_OVER_RUNS)],
)
def test_an_interval_that_takes_the_runs_as_given_tells_nothing(
    unit: str, word: str, note: str
) -> None:
    (told,) = judged(
        {"align/outcome_minus_start/accuracy": {**figure(0.2, 0.1, 0.3), "unit": unit}}
    )
    assert (told.word, told.tally) == (word, note)


@pytest.mark.parametrize(
    ("value", "n", "word"), [(1.0, 12, HOLDS), (11 / 12, 12, FAILS), (1.0, 4, OPEN)]
)
def test_a_claim_about_every_run_needs_all_of_them(value: float, n: int, word: str) -> None:
    (told,) = judged({"align/stable/held": {**figure(value, value, value), "n": n}})
    assert told.word == word


def test_within_two_points_is_no_loss() -> None:
    """-.01 to .05: not more often right for sure, and not less by two points."""
    gap = {**figure(0.02, -0.01, 0.05), "unit": "share; t over 12 runs"}
    words = [told.word for told in judged({"align/stable_minus_outcome/accuracy": gap})]
    assert words == [OPEN, HOLDS]


def test_a_fifth_is_at_most_a_fifth() -> None:
    (told,) = judged({"cost/x/diagnosis_share/counted": figure(0.2, 0.2, 0.2)})
    assert told.word == HOLDS


def test_every_file_with_flaws_has_a_say_not_only_the_main_one() -> None:
    found = {
        "spurious/above_confidence": figure(0.1, 0.05, 0.2),
        "spurious/pool-a/above_confidence": figure(0.1, 0.05, 0.2),
        "spurious/pool-b/above_confidence": figure(-0.1, -0.2, -0.05),
    }
    (told,) = judged(found)
    assert (told.word, told.tally) == (FAILS, "1 of 2 hold, 1 fail")


def test_curves_are_judged_by_their_own_rule_and_come_with_the_ablation() -> None:
    """Fewer trips are worse, eight are not told apart: the doubling cannot be told."""
    under = "ablation/wordmath-hard/trips"
    found = {
        f"{under}/1/above_default": figure(-0.2, -0.3, -0.1),
        f"{under}/8/above_default": figure(0.0, -0.1, 0.1),
    }
    (told,) = judged(found)
    assert (told.claim.section, told.word, told.undecided) == ("ablation", OPEN, ("wordmath-hard",))


def gaps(setting: str, values: dict[str, tuple[float, float]]) -> dict[str, Entry]:
    under = f"ablation/wordmath-hard/{setting}"
    return {
        f"{under}/{x}/above_default": figure(sum(ends) / 2, *ends) for x, ends in values.items()
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"1": (-0.2, -0.1), "2": (-0.1, -0.01), "8": (0.01, 0.03)}, "holds"),
        ({"1": (-0.2, -0.1), "2": (-0.1, 0.01), "8": (0.01, 0.03)}, "cannot be told"),
        ({"1": (-0.2, -0.1), "2": (-0.1, 0.01), "8": (-0.03, -0.01)}, "does not hold"),
    ],
)
def test_a_claim_on_a_curve_holds_where_all_its_comparisons_do(
    values: dict[str, tuple[float, float]], expected: str
) -> None:
    """More trips shall be better: 8 above the default of 4, 1 and 2 below."""
    [told] = judged(gaps("trips", values))
    assert told.word == expected


@pytest.mark.parametrize(
    ("gap", "expected"),
    [((-0.005, 0.008), "holds"), ((0.0, 0.03), "cannot be told"), ((0.02, 0.03), "does not hold")],
)
def test_saturated_means_a_hundredth_at_most(gap: tuple[float, float], expected: str) -> None:
    """64 steps may gain 0.01 over 16; beyond that the curve has not saturated."""
    [told] = judged(gaps("rebuild_steps", {"4": (-0.2, -0.1), "64": gap}))
    assert told.word == expected


def test_nothing_is_said_without_figures() -> None:
    assert judged({}) == []


def test_every_claim_of_the_paper_has_a_test_and_a_source() -> None:
    claims = read_claims()
    assert len(claims) == 40
    assert all(claim.names() and claim.source for claim in claims)


def test_printed_numbers_are_those_of_the_paper() -> None:
    assert len(MIXTURES) == 12
    assert MIXTURES["composite/uniform"][0] == 0.821
    assert len(SETTINGS) == 14
    assert SETTINGS["mask_ratio/1"][1] == 0.861
