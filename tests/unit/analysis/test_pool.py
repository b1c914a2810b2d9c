"""Pools written by hand: three problems, three samples each, every number worked out.

    problem   answers      right    round trips   confidence
    a         7  7  None   R R W    .6 .9 .1      .2 .3 .9
    b         1  2  2      W R R    .4 .8 .8      .5 .4 .3
    c         3  4  5      W W R    .7 .3 .2      .9 .8 .1

Writing costs 10 forwards, verifying 8.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.analysis.bootstrap import Interval
from remask.analysis.correction import Correction, best_of, correction, majority, mgrs
from remask.analysis.diagnosis import against_consistency, diagnosis, judge
from remask.analysis.folder_figures import process
from remask.analysis.methods import (
    ROUNDTRIPS,
    agreement_of,
    better_consistency,
    columns,
    of_trips,
)
from remask.analysis.pool import agreement, pools, score_of, vote, weakest
from remask.decide import rejection
from remask.decide.columns import trip_mean
from remask.errors import RecordError
from remask.records.record import Record
from remask.values import Sample, Score

TABLE = {
    "a": (("7", True, 0.6, 0.2), ("7", True, 0.9, 0.3), (None, False, 0.1, 0.9)),
    "b": (("1", False, 0.4, 0.5), ("2", True, 0.8, 0.4), ("2", True, 0.8, 0.3)),
    "c": (("3", False, 0.7, 0.9), ("4", False, 0.3, 0.8), ("5", True, 0.2, 0.1)),
}
Make = Callable[..., Record]


@pytest.fixture(scope="module")
def rows(make_record: Make) -> list[Record]:
    return [
        make_record(problem, k, answer=answer, right=right, score=score, confidence=confidence)
        for problem, pool in TABLE.items()
        for k, (answer, right, score, confidence) in enumerate(pool)
    ]


def corrected(rows: list[Record], **asked: Any) -> dict[str, Correction]:
    return {found.method: found for found in correction(rows, resamples=50, **asked)}


def without_trips(row: Record) -> Record:
    return replace(row, verify_forwards=None, by_trip={})


def test_agreement_of_a_prefix_costs_the_prefix(rows: list[Record]) -> None:
    """Of two samples a agrees, b and c do not; of three a has 2 of 3, b and c themselves alone.

    Four there are of none.
    """
    two, three, four = (agreement_of(size) for size in (2, 3, 4))
    assert [method.name for method in (two, three)] == ["agreement2", "agreement3"]
    pooled = pools(rows)
    assert [two.score(pool) for pool in pooled] == [1, 0.5, 0.5]
    assert [three.score(pool) for pool in pooled] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert [three.score(pool) for pool in pooled] == [agreement(pool) for pool in pooled]
    assert [four.score(pool) for pool in pooled] == [None] * 3
    assert [two.forwards(pooled[0]), three.forwards(pooled[0])] == [20, 30]


def test_agreement_of_a_prefix_compares_keys(make_record: Make) -> None:
    """Two spellings of one value agree, whatever their texts."""
    rows = [
        replace(make_record("a", k, answer=answer, right=True, score=0.5, confidence=0.5), key="6")
        for k, answer in enumerate(("2*3", "1+5"))
    ]
    assert agreement_of(2).score(rows) == 1


def test_rows_in_any_order_make_the_same_pools(rows: list[Record]) -> None:
    shuffled = [rows[k] for k in (4, 0, 8, 2, 6, 3, 1, 7, 5)]
    assert sorted(pools(shuffled), key=lambda pool: pool[0].id) == pools(rows)
    assert [row.number for row in pools(shuffled)[0]] == [0, 1, 2]


def test_a_sample_recorded_twice_or_missing_is_refused(rows: list[Record]) -> None:
    with pytest.raises(RecordError, match="sample 0 of wordmath/hard/a is recorded twice"):
        pools([rows[0], rows[0]])
    with pytest.raises(RecordError, match=r"has samples \[1\]"):
        pools([rows[1]])


def test_the_score_is_recomputed_from_fewer_trips(make_record: Make) -> None:
    """tok: 0.5, then mean .75; num is absent in trip 0; cross-entropy is outside the composite.

    One trip: 0.5 alone. Two: (0.75 + 1) / 2 = 0.875. num alone: 1, and nothing in one trip.
    """
    row = make_record(
        by_trip={
            "token_accuracy": (0.5, 1.0), "number_retention": (None, 1.0), "cross_entropy": (0, 0),
        }
    )  # fmt: skip
    assert score_of(row, 1) == 0.5
    assert score_of(row) == score_of(row, 2) == 0.875
    assert trip_mean(row, "number_retention") == 1
    assert trip_mean(row, "number_retention", 1) is None
    assert score_of(replace(row, by_trip={})) is None


def test_votes_count_the_pool_and_what_cannot_be_read_is_none(
    make_record: Make, rows: list[Record]
) -> None:
    """a: 7 twice of 3. c: each once of 3. Of None alone: nothing, though None leads."""
    a, b, c = pools(rows)
    assert (vote(a), agreement(a)) == (2 / 3, 2 / 3)
    assert (vote(b), agreement(b)) == (2 / 3, 1 / 3)
    assert (vote(c), agreement(c)) == (1 / 3, 1 / 3)
    unread = [make_record(number=k, answer=answer) for k, answer in enumerate((None, None, "4"))]
    assert (vote(unread), agreement(unread)) == (1 / 3, 0.0)
    assert vote(unread[:2]) == 0


def test_every_method_is_judged_on_the_first_sample(rows: list[Record]) -> None:
    """Right, wrong, wrong. Round trips .6 | .4 .7: 1 of 2 pairs. Agreement 2/3 | 1/3 1/3: 1.

    Vote 2/3 | 2/3 1/3: 1.5 of 2. Confidence .2 | .5 .9: 0.
    """
    found = {d.method: d for d in diagnosis(rows, resamples=50)}
    assert list(found) == [
        "roundtrips", "roundtrips.token_accuracy", "confidence", "confidence_canvas", "vote",
        "agreement",
    ]  # fmt: skip
    values = {name: d.auroc.value for name, d in found.items() if d.auroc}
    assert values == {
        "roundtrips": 0.5, "roundtrips.token_accuracy": 0.5, "confidence": 0.0,
        "confidence_canvas": 0.5, "vote": 0.75, "agreement": 1.0,
    }  # fmt: skip
    assert {name: d.forwards for name, d in found.items()} == {
        "roundtrips": 18, "roundtrips.token_accuracy": 18, "confidence": 10,
        "confidence_canvas": 10, "vote": 30, "agreement": 30,
    }  # fmt: skip
    assert found["vote"].base_rate == pytest.approx(1 / 3)
    aupr = found["roundtrips"].aupr
    assert aupr is not None
    assert aupr.value == pytest.approx(0.5), "W R W from the top: 1/2"


def test_an_answer_without_a_score_is_ranked_last_and_counted(
    make_record: Make, rows: list[Record]
) -> None:
    own = [*rows, make_record("d", 0, score=None, right=True, by_trip={})]
    found = judge(ROUNDTRIPS, pools(own), resamples=10)
    assert (found.absent, found.auroc and found.auroc.n) == (1, 4)
    assert columns(ROUNDTRIPS, pools(own)) == ([0.6, 0.4, 0.7], [True, False, False])


def test_without_wrong_answers_there_is_no_auroc(make_record: Make) -> None:
    own = [make_record(name, score=score) for name, score in (("a", 0.1), ("b", 0.2))]
    found = diagnosis(own)
    assert {d.auroc for d in found} == {None}
    assert {d.method for d in found}.isdisjoint({"vote", "agreement"}), "one sample is no vote"
    assert against_consistency("s", own) == []
    assert diagnosis([]) == []


def test_round_trips_are_set_against_the_better_self_consistency(rows: list[Record]) -> None:
    """Agreement's 1.0 beats vote's 0.75; 0.5 - 1.0."""
    (gap,) = against_consistency("s", rows, resamples=50)
    assert (gap.unit, gap.value) == ("AUROC above agreement, paired", -0.5)
    best = better_consistency(pools(rows))
    assert best is not None
    assert (best[0].name, best[1]) == ("agreement", 1.0)


def test_fewer_trips_cost_their_share(rows: list[Record]) -> None:
    """Two trips cost 8 forwards, one 4: 10 + 4."""
    assert judge(of_trips(1), pools(rows), resamples=10).forwards == 14
    assert judge(of_trips(2), pools(rows), resamples=10).forwards == 18


def test_wrong_steps_are_looked_for_among_right_answers_only(make_record: Make) -> None:
    """Steps right .9 .5, wrong .5 .1: (2 + 1.5) / 4. The wrong answer is not asked."""
    own = [
        make_record("a", 0, score=0.9), make_record("b", 0, score=0.5),
        make_record("c", 0, score=0.5, process_ok=False),
        make_record("c", 1, score=0.1, process_ok=False),
        make_record("d", 0, score=0.99, right=False),
    ]  # fmt: skip
    found = process(own, resamples=50)
    assert found is not None
    assert (found[0].value, found[0].n, found[1]) == (3.5 / 4, 4, 2)
    assert process(own[:2]) is None


def test_the_weakest_token_finds_one_lost_token_that_a_mean_hides(make_record: Make) -> None:
    """Both lose a quarter of what they have; only in the flawed one a token is lost every time."""
    sound = replace(make_record("a", 0, score=0.8), drift=[0.25, 0.25, None, 0.25, 0.25])
    flawed = replace(
        make_record("b", 0, score=0.8, process_ok=False), drift=[0.0, 1.0, None, 0.0, 0.0]
    )
    assert (weakest(sound), weakest(flawed), weakest(replace(sound, drift=[]))) == (
        0.75, 0.0, None
    )  # fmt: skip
    by_mean, by_token = process([sound, flawed]), process([sound, flawed], weakest)
    assert by_mean is not None
    assert by_token is not None
    assert (by_mean[0].value, by_token[0].value) == (0.5, 1.0)


def test_correction_is_worked_out_by_hand(rows: list[Record]) -> None:
    """Standard R W W. Vote of 3: a 7 R; b 2 R; c a tie, the first: W.

    Best of 3 by round trips: a .9 R, b the first .8 R, c .7 W. By confidence: a W, b W, c W.
    """
    found = corrected(rows, threshold=0.75)
    right = {name: round(3 * c.accuracy.value) for name, c in found.items()}
    assert right == {
        "standard": 1, "vote3": 2, "best_of_3_confidence": 0, "best_of_3": 2, "mgrs": 2,
    }  # fmt: skip
    forwards = {name: c.forwards.value for name, c in found.items()}
    assert forwards["standard"] == 10
    assert forwards["vote3"] == forwards["best_of_3_confidence"] == 30
    assert forwards["best_of_3"] == 54


def test_rejection_stops_at_the_first_above_and_pays_for_what_it_saw(rows: list[Record]) -> None:
    """At .75: a stops at 2 (.9), b at 2 (.8), c sees all 3 and keeps .7: 7/3 samples of 18."""
    found = corrected(rows, threshold=0.75)["mgrs"]
    assert found.n_avg.value == pytest.approx(7 / 3)
    assert found.forwards.value == pytest.approx(7 / 3 * 18)
    assert found.eff is not None
    assert found.eff.value == pytest.approx(100 * (1 / 3) / (4 / 3)), "points per further sample"


@pytest.mark.parametrize(
    ("threshold", "budget", "right", "samples"),
    [
        (0.6, 3, 2, 5),  # strict: a's .6 is not above; a 2 R, b 2 R, c at once .7 W
        (0.59, 3, 2, 4),  # a at once R
        (0.9, 3, 2, 9),  # nothing is above .9: the best of three
        (0.75, 1, 1, 3),  # a budget of one is standard sampling
        (0.75, 10, 2, 7),  # a budget beyond the pool ends with the pool
    ],
)
def test_threshold_and_budget_are_algorithm_1s(
    threshold: float, budget: int, right: int, samples: int, rows: list[Record]
) -> None:
    found = corrected(rows, threshold=threshold, budget=budget)["mgrs"]
    assert found.accuracy.value == pytest.approx(right / 3)
    assert found.n_avg.value == pytest.approx(samples / 3)
    assert (found.eff is None) == (samples == 3)


def test_the_same_cost_buys_others_more_samples_rounded_up(rows: list[Record]) -> None:
    """Budget 1: 18 forwards for the one sample, so others draw ceil(18 / 10) = 2.

    Vote of 2: a 7 R, b a tie W, c a tie W. With budget 3 the 42 forwards would buy 5 of 3.
    """
    found = corrected(rows, threshold=0.75, budget=1)
    vote = found["vote_same_cost"]
    assert (vote.n_avg.value, vote.accuracy.value) == (2, pytest.approx(1 / 3))
    assert found["best_of_same_cost_confidence"].forwards.value == 20
    assert "vote_same_cost" not in corrected(rows, threshold=0.75)


def test_unread_answers_never_win_a_vote(make_record: Make) -> None:
    """None, None, 4: the readable one wins, though it is outnumbered; among None, the first."""
    own = [
        make_record(number=k, answer=answer, right=answer == "4")
        for k, answer in enumerate((None, None, "4"))
    ]
    assert corrected(own, threshold=0.9)["vote3"].accuracy.value == 1
    silent = [make_record(number=k, answer=None, right=k == 0) for k in range(3)]
    assert corrected(silent, threshold=0.9)["vote3"].accuracy.value == 1


def test_a_sample_without_a_score_loses_to_any_that_has_one(make_record: Make) -> None:
    own = [make_record(number=0, score=None, right=False), make_record(number=1, score=0.0)]
    assert corrected(own, threshold=0.9)["best_of_2"].accuracy.value == 1


def test_standard_sampling_draws_one_and_has_no_efficiency(rows: list[Record]) -> None:
    found = corrected(rows, threshold=0.75)["standard"]
    assert (found.n_avg, found.eff) == (Interval(1.0, 1.0, 1.0, 3), None)


def test_large_pools_are_asked_at_three_and_at_ten(make_record: Make) -> None:
    own = [make_record(number=k) for k in range(11)]
    assert {"vote3", "vote10", "best_of_3", "best_of_10"} <= set(corrected(own, threshold=0.9))


def test_unscored_samples_are_refused_where_they_are_needed(make_record: Make) -> None:
    """Sample 1 has no round trips: best-of-2 cannot be had, and rejection may not get to it."""
    own = [make_record(score=0.5), without_trips(make_record(number=1))]
    accepted = corrected(own, threshold=0.4)
    assert "best_of_2" not in accepted
    assert "best_of_2_confidence" in accepted
    assert accepted["mgrs"].n_avg.value == 1
    with pytest.raises(RecordError, match=r"sample 1 .* has no round trips"):
        correction(own, 0.6)
    assert correction([], 0.75) == []


def test_studying_records_needs_no_torch() -> None:
    code = (
        "import sys, remask.analysis.correction, remask.analysis.diagnosis, remask.report.render\n"
        "assert not {'torch', 'matplotlib', 'sklearn', 'scipy'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0


DRAWN = st.tuples(
    st.sampled_from(["1", "2", "3", None]),
    st.sampled_from([None, 0.0, 0.3, 0.6, 0.75, 0.8, 1.0]),
)


@given(st.lists(DRAWN, min_size=1, max_size=5), st.sampled_from([0.3, 0.75, 0.8]))
def test_a_replay_settles_on_what_the_live_method_settles_on(
    drawn: list[tuple[str | None, float | None]], threshold: float
) -> None:
    """Sample k costs 10 + k to write and 8 to verify, so equal costs mean equal samples."""
    rows = [
        Record(
            id="a", task="wordmath", level="hard", number=k, prompt="", gold="", text="",
            answer=answer, right=k, process_ok=None, forwards=10 + k,
            scores={"roundtrips": score}, verify_forwards=8,
        )
        for k, (answer, score) in enumerate(drawn)
    ]  # fmt: skip
    samples = [
        Sample(
            item="a", number=k, prompt=(), canvas=(), num_response=0, text=answer or "-",
            forwards=10 + k,
        )
        for k, (answer, _) in enumerate(drawn)
    ]  # fmt: skip

    class Recorded:
        name = "recorded"

        def score(self, asked: Sequence[Sample]) -> list[Score]:
            return [Score(value=drawn[s.number][1], forwards=8) for s in asked]

    def draw(items: Sequence[str], number: int) -> list[Sample]:
        return [samples[number]]

    n = len(rows)
    live = (
        rejection.reject(draw, Recorded(), ["a"], threshold=threshold, budget=n)[0],
        rejection.best_of(draw, Recorded(), ["a"], n)[0],
        rejection.majority_vote(draw, lambda s: None if s.text == "-" else s.text, ["a"], n)[0],
    )
    replayed = (mgrs(rows, threshold, n), best_of(rows, "roundtrips"), majority(rows))
    for decision, settled in zip(live, replayed, strict=True):
        assert (decision.sample.number, decision.forwards) == (settled.right, settled.forwards)
        assert len(decision.attempts) == settled.samples
