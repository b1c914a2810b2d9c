"""The frontier: one set by hand, and drawn pools through everything."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from remask.analysis.bootstrap import auroc_gap, bootstrap
from remask.analysis.figure import Figures, parse
from remask.analysis.load_records import Source, StudyRecords
from remask.analysis.pool import pools
from remask.decide.auroc import auroc
from remask.errors import RecordError
from remask.records.record import Record
from studies.frontier import measure as frontier
from studies.frontier.measure import SETS, frontier_figures, frontier_sets, pool_scores
from studies.shared.methods import frontier_methods, score_pools
from studies.shared.within_pool import within_pools

Make = Callable[..., Record]
Draw = Callable[..., list[Record]]
FITTED = ("fitted20", "fitted85", "agreement10_fitted", "sequential", "sequential_full")


def study_of(name: str, rows: list[Record], validation: list[Record] | None = None) -> StudyRecords:
    own = validation or []
    return StudyRecords(
        name=name, task=rows[0].task, path=Path(name), rows=rows, threshold=0.75, validation=own,
        validation_pools=own,
    )  # fmt: skip


def figures_of(*studies: StudyRecords, resamples: int = 40) -> Figures:
    return frontier_figures(Source(name="records", studies=studies), resamples)


# Score of the round trips, tokens, right.
FIVE = [(0.9, 3, True), (0.6, 3, False), (0.5, 4, True), (0.7, 4, False), (0.2, 8, False)]


@pytest.fixture(scope="module")
def by_hand(make_record: Make) -> Figures:
    rows = [
        replace(
            make_record(f"test/11/{k}", score=score, right=right),
            features={"length": float(length)},
        )
        for k, (score, length, right) in enumerate(FIVE)
    ]
    return figures_of(study_of("wordmath-hard", rows))


def test_every_measure_of_five_answers_is_worked_out(by_hand: Figures) -> None:
    """Right .9 .5, wrong .6 .7 .2: .9 beats all, .5 one of three: 4 of 6 pairs.

    Two pairs are of equal length, too few for any width: the widest holds all six. Shorter is
    right: 3 ties with one and beats 4 and 8; 4 loses to 3, ties and beats 8: 4 of 6.
    Risk: 0, 1/2, 2/3, 2/4, 3/5, a mean of 34/75.
    ECE in tenths: .1 + .6 + .5 + .7 + .2 over 5 answers.
    """
    under = "frontier/wordmath-hard"
    trips = f"{under}/roundtrips"
    assert by_hand[f"{trips}/auroc"].value == pytest.approx(4 / 6)
    assert by_hand[f"{trips}/auroc_equal_length"].value == pytest.approx(4 / 6)
    assert by_hand[f"{trips}/auroc_equal_length"].detail == "lengths in bins of 32"
    assert by_hand[f"{under}/length/auroc"].value == pytest.approx(4 / 6)
    assert by_hand[f"{trips}/aurc"].value == pytest.approx(34 / 75)
    assert by_hand[f"{trips}/ece"].value == pytest.approx(2.1 / 5)
    assert by_hand[f"{trips}/forwards"].value == 18
    assert by_hand[f"{trips}/extra_forwards"].value == 8
    assert by_hand[f"{under}/rarer"].value == 2
    assert by_hand[f"{under}/base_rate"].value == pytest.approx(2 / 5)
    assert f"{under}/length/ece" not in by_hand, "a count is no probability"


def test_right_steps_are_told_among_right_answers_alone(make_record: Make) -> None:
    """Right with right steps .9 .4, with wrong ones .5: 1 of 2 pairs; the others count nothing."""
    steps = [(0.9, True, True), (0.4, True, True), (0.5, True, False), (0.7, True, None)]
    rows = [
        replace(make_record(f"test/11/{k}", score=score, right=right), process_ok=sound)
        for k, (score, right, sound) in enumerate([*steps, (0.95, False, False)])
    ]
    figures = figures_of(study_of("wordmath-hard", rows))
    assert figures["frontier/wordmath-hard/roundtrips/auroc_steps"].value == 1 / 2
    assert figures["frontier/wordmath-hard/roundtrips/auroc_steps"].n == 3
    sound = [replace(row, process_ok=row.right) for row in rows]
    none = figures_of(study_of("wordmath-hard", sound))
    assert "frontier/wordmath-hard/roundtrips/auroc_steps" not in none


def test_a_set_with_few_of_the_rarer_outcome_is_shown_and_has_no_part_in_the_mean(
    by_hand: Figures,
) -> None:
    assert not any(name.startswith("frontier/mean") for name in by_hand)


def test_names_are_read_as_they_are_written(by_hand: Figures) -> None:
    for name, figure in by_hand.items():
        assert parse(name, figure.entry()).name == name


def test_answers_of_one_kind_are_no_frontier(make_record: Make) -> None:
    rows = [make_record(f"test/11/{k}") for k in range(4)]
    with pytest.raises(RecordError, match="holds no set with right and wrong answers; collect"):
        figures_of(study_of("wordmath-hard", rows))


@pytest.fixture(scope="module")
def small(draw_features: Draw) -> list[StudyRecords]:
    """Three sets of two families, in another order than usual; the first has whole pools."""
    places = (("countdown", "easy", 2), ("wordmath", "hard", 4), ("wordmath", "medium", 1))
    names = ("countdown-easy", "wordmath-hard", "wordmath")
    return [
        study_of(
            name,
            draw_features(150, 10, task=task, level=level, num_read=10 if num == 4 else 1),
            draw_features(
                60, 10, split="validation", task=task, level=level, num_read=10 if num == 4 else 1
            ),
        )
        for name, (task, level, num) in zip(names, places, strict=True)
    ]


@pytest.fixture(scope="module")
def drawn(small: list[StudyRecords]) -> Figures:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier, "USUAL", 40)
        patch.setattr(frontier, "LABELS", (30, 40))
        patch.setattr(frontier, "fit_set", partial(frontier.fit_set, draws=2))
        patch.setattr(frontier, "fit_sequential", partial(frontier.fit_sequential, draws=2))
        return figures_of(*small)


def test_the_promised_names_are_there(drawn: Figures) -> None:
    methods = (
        "roundtrips", "probe", "verifier", "agreement2", "agreement10", "confidence", "length",
        "tre", *FITTED,
    )  # fmt: skip
    measures = ("auroc", "auroc_equal_length", "extra_forwards")
    wanted = {
        f"frontier/{place}/{method}/{measure}"
        for place in ("wordmath", "wordmath-hard", "countdown-easy", "mean")
        for method in methods
        for measure in measures
    }
    wanted |= {
        f"frontier/mean/{name}/auroc"
        for name in (
            "verifier_minus_roundtrips", "verifier_minus_agreement10",
            "fitted85_minus_agreement10_fitted",
        )
    }  # fmt: skip
    wanted |= {
        f"frontier/mgrs/{method}/{measure}"
        for method in ("roundtrips", "verifier", "sequential")
        for measure in ("accuracy", "forwards")
    }
    assert wanted <= set(drawn)
    for name, figure in drawn.items():
        low, high = figure.ends
        assert low <= figure.value <= high, name
        assert parse(name, figure.entry()).name == name


def test_sets_stand_in_the_usual_order(small: list[StudyRecords]) -> None:
    names = [own.name for own in frontier_sets(small, 10)]
    assert names == ["wordmath", "wordmath-hard", "countdown-easy"]
    assert sorted(names, key=SETS.index) == names


def test_a_value_is_the_auroc_of_its_scores(drawn: Figures, small: list[StudyRecords]) -> None:
    (own,) = [each for each in frontier_sets(small, 10) if each.name == "wordmath-hard"]
    for method in frontier_methods(own.pooled):
        scored = score_pools(method, own.pooled)
        value = drawn[f"frontier/wordmath-hard/{method.name}/auroc"].value
        assert value == pytest.approx(auroc(scored.scores[0], own.right))


def test_a_mean_is_that_of_the_sets_with_and_without_a_family(drawn: Figures) -> None:
    def value(place: str, method: str = "verifier") -> float:
        return drawn[f"frontier/{place}/{method}/auroc"].value

    each = {name: value(name) for name in ("wordmath", "wordmath-hard", "countdown-easy")}
    assert drawn["frontier/mean/sets"].value == 3
    assert value("mean") == pytest.approx(np.mean(list(each.values())))
    words = np.mean([each["wordmath"], each["wordmath-hard"]])
    assert value("mean", "verifier/without_countdown") == pytest.approx(words)
    assert value("mean", "verifier/only_wordmath") == pytest.approx(words)
    assert value("mean", "verifier/without_wordmath") == pytest.approx(each["countdown-easy"])
    gap = value("mean", "verifier") - value("mean", "roundtrips")
    assert value("mean", "verifier_minus_roundtrips") == pytest.approx(gap)


@pytest.mark.parametrize("measure", ["aurc", "ece"])
def test_a_mean_of_what_has_no_interval_is_that_of_the_sets(drawn: Figures, measure: str) -> None:
    names = ("wordmath", "wordmath-hard", "countdown-easy")
    each = [drawn[f"frontier/{name}/verifier/{measure}"].value for name in names]
    assert drawn[f"frontier/mean/verifier/{measure}"].value == pytest.approx(np.mean(each))
    assert "frontier/mean/length/ece" not in drawn, "a count is no probability"


def test_the_interval_of_a_difference_is_about_that_of_a_paired_bootstrap(
    small: list[StudyRecords],
) -> None:
    plain = replace(small[0], validation_pools=())
    under = "frontier/countdown-easy/verifier_minus_roundtrips"
    figure = figures_of(plain, resamples=2000)[f"{under}/auroc"]
    (own,) = frontier_sets([plain], 10)
    scored = {m.name: score_pools(m, own.pooled).scores[0] for m in frontier_methods(own.pooled)}
    usual = bootstrap(
        auroc_gap, scored["verifier"], own.right, scored["roundtrips"], own.right,
        resamples=2000, seed=1,
    )  # fmt: skip
    assert usual is not None
    assert figure.value == pytest.approx(usual.value)
    assert figure.ends == pytest.approx((usual.low, usual.high), abs=0.015)


def test_fits_are_means_of_their_draws_with_a_spread(drawn: Figures) -> None:
    for method in FITTED:
        assert drawn[f"frontier/mean/{method}/auroc_sd"].value >= 0
        assert drawn[f"frontier/mean/{method}/auroc"].value > 0.8
    assert "frontier/mean/verifier/auroc_sd" not in drawn
    assert drawn["frontier/mean/fitted20/labels_30/auroc"].value > 0.75
    assert "frontier/mean/sequential/labels_30/auroc" not in drawn
    assert "frontier/mean/fitted85_minus_agreement10_fitted/labels_30/auroc" in drawn
    spent = drawn["frontier/mean/sequential/extra_forwards"].value
    assert spent < drawn["frontier/mean/sequential_full/extra_forwards"].value == 25


def test_within_a_problem_only_methods_that_scored_every_sample_are_ranked(
    drawn: Figures, small: list[StudyRecords]
) -> None:
    pooled = next(o for o in frontier_sets(small, 10) if o.name == "wordmath-hard").pooled
    right = np.array([[row.right for row in pool] for pool in pooled])
    scores = np.array([[row.scores["roundtrips"] for row in pool] for pool in pooled], float)
    value = drawn["frontier/wordmath-hard/roundtrips/auroc_within_pool"].value
    assert value == pytest.approx(np.nanmean(within_pools(scores, right)))
    ranked = drawn.distinct("method", study="wordmath", measure="auroc_within_pool")
    assert {"agreement10", "confidence", "length"} <= set(ranked)
    assert not {"roundtrips", "probe", "verifier", "tre", *FITTED} & set(ranked)
    ranked = drawn.distinct("method", study="wordmath-hard", measure="auroc_within_pool")
    assert {"verifier", "probe", "fitted20", "sequential", "agreement10_fitted"} <= set(ranked)
    assert "frontier/mean/verifier/auroc_within_pool" not in drawn
    assert "frontier/mean/agreement10/auroc_within_pool" in drawn


def test_rejection_sampling_is_compared_with_round_trips_on_the_same_pools(drawn: Figures) -> None:
    def value(method: str, measure: str) -> float:
        return drawn[f"frontier/mgrs/{method}/{measure}"].value

    for method in ("verifier", "sequential"):
        gap = value(method, "accuracy") - value("roundtrips", "accuracy")
        assert value(f"{method}_minus_roundtrips", "accuracy") == pytest.approx(gap)
        share = value(method, "forwards") / value("roundtrips", "forwards")
        assert value(f"{method}_over_roundtrips", "forwards") == pytest.approx(share)
    spent = value("roundtrips", "n_avg") * (10 + 8)
    assert value("roundtrips", "forwards") == pytest.approx(spent)
    assert value("verifier", "forwards") == pytest.approx(value("verifier", "n_avg") * 27)


def test_without_whole_validation_pools_all_thresholds_are_by_f1(
    drawn: Figures, small: list[StudyRecords]
) -> None:
    methods = ("roundtrips", "verifier")
    rules = {drawn[f"frontier/mgrs/{method}/threshold"].detail for method in methods}
    assert rules == {"the cheapest hardly less accurate"}
    own = small[1]
    first = [row for row in own.validation_pools if row.number == 0]
    other = figures_of(replace(own, validation_pools=first))
    for method in methods:
        assert other[f"frontier/mgrs/{method}/threshold"].detail == "the best F1"
        assert other[f"frontier/mgrs/{method}/accuracy"].value > 0.6


def test_fits_and_thresholds_are_carried_to_every_other_set(drawn: Figures) -> None:
    for method in ("fitted20", "fitted85", "sequential"):
        carried = drawn[f"frontier/countdown-easy/{method}/from_wordmath/auroc"]
        own = drawn[f"frontier/countdown-easy/{method}/auroc"]
        assert carried.value > 0.75
        assert carried.value != own.value
    for method in ("roundtrips", "probe", "verifier"):
        parts = drawn.distinct("part", study="wordmath", method=method, measure="precision")
        assert parts == ["from_wordmath", "from_wordmath-hard", "from_countdown-easy"]


def test_the_figures_of_a_set_do_not_depend_on_the_sets_beside_it(
    small: list[StudyRecords],
) -> None:
    plain = [replace(study, validation_pools=()) for study in small[:2]]
    alone, both = figures_of(plain[0]), figures_of(*plain)
    assert {name: both[name] for name in alone if "/mean/" not in name} == {
        name: figure for name, figure in alone.items() if "/mean/" not in name
    }


def test_an_answer_without_a_score_loses_and_is_counted(make_record: Make) -> None:
    """Right .5 and none, wrong .2 and .9: .5 beats one of two, none beats none."""
    scores = ((0.5, True), (None, True), (0.2, False), (0.9, False))
    rows = [
        make_record(f"test/11/{k}", score=score, right=right, by_trip={})
        for k, (score, right) in enumerate(scores)
    ]
    told = figures_of(study_of("wordmath-hard", rows))
    assert told["frontier/wordmath-hard/roundtrips/auroc"].value == 1 / 4
    assert told["frontier/wordmath-hard/roundtrips/absent"].value == 1


def test_of_pools_of_different_sizes_as_many_samples_count_as_the_smallest_has(
    make_record: Make,
) -> None:
    """Three samples of one problem and two of another: two of each, 10 + 8 forwards a sample."""
    rows = [
        make_record(f"test/11/{k}", number=number, score=score, right=number == 1)
        for k, scores in enumerate([(0.2, 0.6, 0.9), (0.7, 0.3)])
        for number, score in enumerate(scores)
    ]
    scored = pool_scores(pools(rows), [])
    assert scored is not None
    [own] = scored.of("roundtrips")
    assert own.scores.tolist() == [[0.2, 0.6], [0.7, 0.3]]
    assert own.right.tolist() == [[False, True]] * 2
    assert own.forwards.tolist() == [[18, 18]] * 2
