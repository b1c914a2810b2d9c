"""Verdicts on the paper's claims: from intervals alone, with the numbers of the figures."""

import pytest

from remask.analysis.figures import Figure
from remask.report.claims import FAILS, HOLDS, OPEN, side, together, verdicts

GAP = "diagnosis/{}/roundtrips_minus_consistency/auroc"


def figure(value: float, low: float | None = None, high: float | None = None) -> Figure:
    return Figure(value=value, low=low, high=high, n=10, unit="AUROC above vote, paired")


def shown(name: str) -> str:
    return f"<{name}>"


@pytest.mark.parametrize(
    ("low", "high", "is_above", "told"),
    [
        (0.1, 0.2, True, True), (0.1, 0.2, False, False), (-0.2, -0.1, True, False),
        (-0.2, -0.1, False, True), (-0.1, 0.1, True, None), (0.0, 0.1, True, None),
    ],
)  # fmt: skip
def test_an_interval_tells_only_where_it_is_beyond_the_bound(
    low: float, high: float, is_above: bool, told: bool | None
) -> None:
    assert side(low, high, 0.0, is_above=is_above) is told


def test_a_claim_about_all_studies_holds_on_each_and_fails_on_one() -> None:
    assert together([True, True]) == HOLDS
    assert together([True, None]) == OPEN
    assert together([True, None, False]) == FAILS


def test_a_paragraph_lists_where_a_claim_holds_with_the_figures_themselves() -> None:
    found = {
        GAP.format("a"): figure(0.2, 0.1, 0.3),
        GAP.format("b"): figure(-0.2, -0.3, -0.1),
        GAP.format("c"): figure(0.0, -0.1, 0.1),
    }
    (told,) = verdicts(found, shown)
    assert (told.study, told.word, told.tally) == ("diagnosis", FAILS, "1 of 3 hold, 1 fail")
    assert told.details == (
        f"Holds on a <{GAP.format('a')}>. Does not on b <{GAP.format('b')}>. "
        f"Open on c <{GAP.format('c')}>."
    )


def test_numbers_that_are_no_pair_are_compared_by_their_intervals() -> None:
    """The answer alone .9 [.8, 1] against tokens .6 [.5, .7]: apart; .6 [.5, .81] is not."""
    names = [f"ablation/x/alone/{m}/auroc" for m in ("answer_match", "token_accuracy")]
    apart = {names[0]: figure(0.9, 0.8, 1.0), names[1]: figure(0.6, 0.5, 0.7)}
    (told,) = verdicts(apart, shown)
    assert told.word == HOLDS
    assert told.details == f"Holds on x <{names[0]}> against <{names[1]}>."
    (open_one,) = verdicts(apart | {names[1]: figure(0.6, 0.5, 0.81)}, shown)
    assert open_one.word == OPEN
    (other,) = verdicts({names[0]: apart[names[1]], names[1]: apart[names[0]]}, shown)
    assert other.word == FAILS


def test_the_main_study_of_geometry_has_no_place_in_its_names() -> None:
    found = {
        "geometry/density_ratio": figure(2.0, 1.5, 3.0),
        "geometry/choice/density_ratio": figure(1.0, 0.8, 1.2),
    }
    (told,) = verdicts(found, shown)
    assert told.details.startswith(
        "Holds on wordmath-hard <geometry/density_ratio>. Open on choice"
    )


def test_contraction_is_judged_only_where_it_was_measured() -> None:
    claims = [told.claim for told in verdicts({"geometry/spearman": figure(0.9)}, shown)]
    assert claims == []
    (told,) = verdicts({"geometry/contraction": figure(0.2, 0.1, 0.3)}, shown)
    assert told.word == HOLDS


def test_a_fifth_is_at_most_a_fifth() -> None:
    (told,) = verdicts({"cost/x/diagnosis_share/counted": figure(0.2, 0.2, 0.2)}, shown)
    assert told.word == HOLDS


def test_every_file_with_flaws_has_a_say_not_only_the_main_one() -> None:
    found = {
        "spurious/above_confidence": figure(0.1, 0.05, 0.2),
        "spurious/pool-a/above_confidence": figure(0.1, 0.05, 0.2),
        "spurious/pool-b/above_confidence": figure(-0.1, -0.2, -0.05),
    }
    (told,) = verdicts(found, shown)
    assert (told.word, told.tally) == (FAILS, "1 of 2 hold, 1 fail")


def test_curves_are_judged_by_their_own_rule_and_come_with_the_ablation() -> None:
    """Fewer trips are worse, eight are not told apart: the doubling cannot be told."""
    under = "ablation/wordmath-hard/trips"
    found = {
        f"{under}/1/above_default": figure(-0.2, -0.3, -0.1),
        f"{under}/8/above_default": figure(0.0, -0.1, 0.1),
    }
    (told,) = verdicts(found, shown)
    assert (told.study, told.word) == ("ablation", OPEN)
    assert told.details.endswith(f"1: <{under}/1/above_default>; 8: <{under}/8/above_default>.")
