"""The section on real words: every number has its marker, and without its figures there is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_figures import ROOT, disagreements

from remask.analysis.figure import Figure, parse
from remask.report.claims import verdicts
from studies.paper.lesson import lesson
from studies.shared.pages import wrapped


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    entries = json.loads((ROOT / "docs" / "figures.json").read_text())["figures"]
    return {name: parse(name, row) for name, row in entries.items()}


def test_every_number_is_quoted_and_lines_are_short(figures: dict[str, Figure]) -> None:
    text = lesson(figures)
    entries = json.loads((ROOT / "docs" / "figures.json").read_text())["figures"]
    assert text.startswith("## What real words teach\n\n")
    assert text.count("<!--fig:real/") >= 20
    assert disagreements(text, entries) == []
    assert text in (ROOT / "docs" / "results.md").read_text()


# What the section says in words -> on which side of 0 the interval of a figure lies; 0: around it.
SAID = {
    "real/verifier_minus_roundtrips/auroc": 0,  # not behind them
    "frontier/mean/verifier_minus_roundtrips/auroc": 1,
    "real/verifier_minus_agreement/auroc": 1,  # which SVAMP decides
    "real/svamp/verifier_minus_agreement/auroc": 1,
    "real/mawps/verifier_minus_agreement/auroc": 0,
    "real/gsm8k/verifier_minus_agreement/auroc": 0,
    "frontier/mean/verifier_minus_agreement10/auroc": 0,
    "real/confidence_minus_agreement/auroc": 0,  # level with them
    "real/gsm8k/confidence_minus_agreement/auroc": -1,
    "real/verifier_minus_confidence/auroc": 1,  # worth its passes
    "real/mawps/verifier_minus_confidence/auroc": 0,
    "frontier/mean/verifier_minus_agreement10/without_countdown/auroc": -1,
    "real/gsm8k/fitted_minus_verifier/auroc": 0,
    "real/fitted_minus_verifier/auroc": 0,  # labels do not lift it
    "real/mawps/fitted_minus_verifier/auroc": 0,
    "real/svamp/fitted_minus_verifier/auroc": -1,
    "real/correction/svamp/mgrs_minus_standard/accuracy": 1,
    "real/correction/svamp/mgrs_minus_best_of_3/accuracy": 0,
    "real/ablation/svamp/rebuild_steps/4/above_default": 0,
    "ablation/wordmath-hard/rebuild_steps/4/above_default": -1,
    **{f"real/ablation/{name}/without/answer_match/above_uniform": -1
       for name in ("gsm8k", "svamp", "mawps")},
}  # fmt: skip


@pytest.mark.parametrize(("name", "side"), SAID.items())
def test_words_are_of_the_figures(figures: dict[str, Figure], name: str, side: int) -> None:
    low, high = figures[name].ends
    assert (low > 0) - (high < 0) == side


def test_rejection_beats_one_sample_on_four_of_eight_sets(figures: dict[str, Figure]) -> None:
    embedded = {name: one for name, one in figures.items() if not name.startswith("real/")}
    [claim] = [v for v in verdicts(embedded) if "right more often than one sample" in v.claim.claim]
    assert claim.tally.startswith("4 of 8 hold")


def test_no_setting_is_better_than_the_defaults_on_either_model(
    figures: dict[str, Figure],
) -> None:
    gains = {n: f for n, f in figures.items() if n.endswith("/above_default")}
    tried = ("mask_ratio", "rebuild_steps", "trips")
    lows = [f.ends[0] for n, f in gains.items() if any(f"/{one}/" in n for one in tried)]
    assert len(lows) > 20
    assert max(lows) <= 0


def test_where_a_figure_is_missing_nothing_is_said(figures: dict[str, Figure]) -> None:
    assert lesson({}) == ""
    some = {name: f for name, f in figures.items() if name != "real/gsm8k/accuracy"}
    assert lesson(some) == ""


def test_lines_are_as_long_as_a_reader_sees_them() -> None:
    text = "It is 0.5<!--fig:a/b--> and 4 %<!--fig:c/d--> of all."
    assert wrapped(text, 9) == "It is 0.5<!--fig:a/b-->\nand 4 %<!--fig:c/d-->\nof all."
    assert wrapped(text, 1000) == text


@given(st.lists(st.sampled_from(["a", "word", "1.5<!--fig:x-->", "longer"]), min_size=1))
def test_wrapping_changes_nothing_but_where_lines_end(words: list[str]) -> None:
    lines = wrapped(" ".join(words), 12).split("\n")
    assert " ".join(lines).split() == words
    assert all(len(line.replace("<!--fig:x-->", "")) <= 12 for line in lines)
