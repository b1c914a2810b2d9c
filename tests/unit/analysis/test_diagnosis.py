"""What the full diagnosis adds, worked out on a few pools written by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.analysis.diagnosis import (
    at_threshold,
    carried,
    diagnosis,
    full_diagnosis,
    gaps_by_difficulty,
    judge_fully,
    terciles,
)
from remask.analysis.load_records import StudyRecords
from remask.analysis.methods import ROUNDTRIPS
from remask.analysis.pool import pools
from remask.decide.auroc import auroc
from remask.records.record import Record
from remask.verifier.columns import label_free

Make = Callable[..., Record]
SCORED = (("a", 0.9, True), ("b", 0.8, True), ("c", 0.8, False), ("d", 0.5, True))


@pytest.fixture
def four(make_record: Make) -> list[Record]:
    return [make_record(name, score=score, right=right) for name, score, right in SCORED]


def test_every_measure_of_four_answers_is_worked_out(four: list[Record]) -> None:
    """Scores .9R .8R .8W .5R.

    ECE, tenths: .9 alone |.9 - 1|, .8 twice |.8 - .5|, .5 alone |.5 - 1|: (.1 + .6 + .5) / 4.
    Brier: (.01 + .04 + .64 + .25) / 4. Risk: 0, .5/2, 1/3, 1/4, a mean of 5/24.
    At 50 %: 1.5 of 2. Right answers have a mean of 2.2 / 3. Above .75: 2 of 3, and 2 of 3 right.
    """
    found = judge_fully(ROUNDTRIPS, pools(four), resamples=20)
    values = {
        name: getattr(found, name).value
        for name in ("ece", "brier", "aurc", "mean_right", "mean_wrong", "precision", "recall")
    }
    assert values == pytest.approx(
        {
            "ece": 1.2 / 4, "brier": 0.94 / 4, "aurc": 5 / 24, "mean_right": 2.2 / 3,
            "mean_wrong": 0.8, "precision": 2 / 3, "recall": 2 / 3,
        }
    )  # fmt: skip
    assert found.accuracy_at[50].value == pytest.approx(0.75)
    assert sorted(found.accuracy_at) == [50, 80, 90]
    assert found.prr is not None
    assert found.auroc is not None
    assert found.auroc.value == pytest.approx((1 + 0.5 + 0) / 3)


def test_the_full_diagnosis_is_the_plain_one_and_more(four: list[Record]) -> None:
    plain, full = diagnosis(four, resamples=20), full_diagnosis(four, resamples=20)
    for one, other in zip(plain, full, strict=True):
        assert (one.method, one.auroc, one.aupr) == (other.method, other.auroc, other.aupr)
        assert one.ece is None
        assert (other.ece is None) == other.method.startswith("roundtrips."), "parts are ranked"


def test_scores_beyond_one_are_ranked_and_not_calibrated(make_record: Make) -> None:
    own = [make_record(name, score=-score, right=right) for name, score, right in SCORED]
    found = judge_fully(ROUNDTRIPS, pools(own), resamples=20)
    assert (found.ece, found.brier) == (None, None)
    assert found.aurc is not None


def test_answers_of_one_kind_leave_what_needs_two_absent(make_record: Make) -> None:
    found = judge_fully(ROUNDTRIPS, pools([make_record("a", right=False)]), resamples=20)
    assert (found.prr, found.mean_right, found.recall, found.precision) == (None,) * 4
    assert found.mean_wrong is not None


def test_a_method_without_any_score_measures_nothing(make_record: Make) -> None:
    own = [make_record("a", score=None, by_trip={})]
    found = judge_fully(ROUNDTRIPS, pools(own), resamples=20)
    assert (found.absent, found.ece, found.aurc, found.accuracy_at) == (1, None, None, {})


def test_equal_values_share_the_third_of_their_middle() -> None:
    """Of six values 0 0 1 2 2 2 the middles stand at 1, 2.5 and 4.5 of 6: thirds 0, 1, 2.

    Of 0 0 0 0 1 they stand at 2 and 4.5 of 5: 1 and 2.
    """
    assert terciles([0, 0, 1, 2, 2, 2]).tolist() == [0, 0, 1, 2, 2, 2]
    assert terciles([1, 0, 0, 0, 0]).tolist() == [2, 1, 1, 1, 1]
    assert terciles([]).tolist() == []


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_thirds_follow_the_values(values: list[int]) -> None:
    found = terciles(values)
    order = np.argsort(values, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    assert len(set(zip(values, found.tolist(), strict=True))) == len(set(values))
    if len(set(values)) == len(values) and len(values) % 3 == 0:
        assert np.bincount(found).tolist() == [len(values) // 3] * 3


def difficult(make_record: Make) -> list[Record]:
    """Return nine pools of three samples: of samples 1 and 2 none, one or both are right.

    In each third samples 0 are R R W with scores .9 .6 .7. Right is "1", wrong "2" or "3".
    """
    rows = []
    for k, others in enumerate(("33", "13", "11")):
        for j, (own, score) in enumerate((("1", 0.9), ("1", 0.6), ("2", 0.7))):
            rows += [
                make_record(f"{k}{j}", n, answer=answer, right=answer == "1", score=score)
                for n, answer in enumerate(own + others)
            ]
    return rows


def test_the_gap_is_taken_apart_by_the_other_samples(make_record: Make) -> None:
    """Round trips order 1 of 2 pairs in each third.

    Agreement, right beside wrong: 1/3 and 1/3 where the others are wrong, 2/3 and 1/3, 1 and 1/3:
    AUROC 1/2, 1, 1; over all 15 of 18 pairs. Vote has 2/3 2/3, 2/3 1/3, 1 2/3: 14 of 18.
    """
    found = gaps_by_difficulty("s", difficult(make_record), resamples=20)
    assert [(gap.part, gap.n, gap.detail) for gap in found] == [
        ("hard", 3, "0% to 0% of others right"), ("middle", 3, "50% to 50% of others right"),
        ("easy", 3, "100% to 100% of others right"),
    ]  # fmt: skip
    assert {gap.unit for gap in found} == {"AUROC above agreement, paired"}
    assert [gap.value for gap in found] == [0.0, -0.5, -0.5]


def test_without_pools_there_is_no_gap(make_record: Make, four: list[Record]) -> None:
    assert gaps_by_difficulty("s", four) == []
    assert gaps_by_difficulty("s", []) == []
    alike = [make_record("a", k) for k in range(3)]
    assert gaps_by_difficulty("s", alike) == [], "all right"


def test_probes_that_read_the_answers_are_scores_like_others(
    draw_features: Callable[..., list[Record]],
) -> None:
    rows = draw_features(20)
    told = {row.method: row for row in full_diagnosis(rows, resamples=20)}
    assert {"probe", "verifier"} <= set(told)
    probe, known = told["probe"], [label_free("probe", row.features) for row in rows]
    assert probe.auroc is not None
    assert probe.auroc.value == auroc(known, [row.right for row in rows])
    assert (probe.forwards, told["verifier"].forwards) == (10 + 1, 10 + 17)


def test_the_threshold_of_the_answers_themselves(four: list[Record]) -> None:
    """Above .8 stands .9 alone, which is right: 1 of 4, 1 of 1 and 1 of 3."""
    study = StudyRecords(name="s", task="t", path=Path("s"), rows=four, threshold=0.8)
    figures = {figure.measure: figure.value for figure in at_threshold(study)}
    assert figures == pytest.approx(
        {"coverage": 0.25, "precision": 1, "recall": 1 / 3, "threshold": 0.8}
    )


def test_one_threshold_is_carried_over_all_studies(make_record: Make, four: list[Record]) -> None:
    """Above .75: of the four, 3 accepted with 2 of 3 right; of the other study, nothing."""
    low = [make_record("e", score=0.2), make_record("f", score=None, by_trip={})]
    one, other = (
        {figure.name: figure for figure in carried(name, rows, 0.75)}
        for name, rows in (("four", four), ("low", low))
    )
    measures = ("coverage", "precision", "recall")
    values = [one[f"carried/four/{measure}"].value for measure in measures]
    assert values == pytest.approx([3 / 4, 2 / 3, 2 / 3])
    assert (one["carried/threshold"].value, one["carried/four/coverage"].n) == (0.75, 4)
    assert (other["carried/low/coverage"].value, other["carried/low/coverage"].n) == (0, 1)
    assert "carried/low/precision" not in other


def test_an_answer_without_a_score_ranks_below_every_score_and_is_counted(
    make_record: Make,
) -> None:
    """Scores .2 right, .1 wrong, none wrong, none wrong: every right answer is above. One that was
    never scored is left out, and the two at the end are ties: a right one among them halves it."""

    def row(number: int, right: bool, scores: dict[str, float | None]) -> Record:
        return replace(make_record(f"q{number}", 0, right=right), scores=scores)

    rows = [
        row(0, True, {"roundtrips": 0.2}), row(1, False, {"roundtrips": 0.1}),
        row(2, False, {"roundtrips": None}), row(3, False, {"roundtrips": None}), row(4, True, {}),
    ]  # fmt: skip
    (found,) = [one for one in diagnosis(rows, resamples=5) if one.method == "roundtrips"]
    assert found.auroc is not None
    assert (found.auroc.value, found.absent) == (1.0, 3)
    rows[3] = replace(rows[3], right=True)  # pairs: .2 above two wrong ones; none below one, tied
    (found,) = [one for one in diagnosis(rows, resamples=5) if one.method == "roundtrips"]
    assert found.auroc is not None
    assert found.auroc.value == (1 + 1 + 0 + 0.5) / 4
