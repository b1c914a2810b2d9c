"""Thresholds: F1 by hand, certificates by hand, and certificates by the thousand."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.decide.provenance import Provenance
from remask.decide.threshold import (
    GRID,
    STARTS,
    Certificate,
    Refusal,
    accepts_all,
    best_f1,
    binomial_tail,
    certify,
    fewest_answers,
    outcomes,
)
from remask.errors import InputError, RecordError, SettingsError
from remask.values import ROUNDING, Score

Made = Callable[..., Provenance]
SCORES = st.one_of(st.none(), st.integers(-2, 105).map(lambda k: k / 100), st.floats(0, 1))


def answers(*groups: tuple[int, int, float]) -> tuple[list[float], list[bool]]:
    """Return groups of (right, wrong, score)."""
    scores = [score for hits, misses, score in groups for _ in range(hits + misses)]
    return scores, [k < hits for hits, misses, _ in groups for k in range(hits + misses)]


def test_the_best_threshold_accepts_the_right_and_little_else() -> None:
    """Right .9 .8 .4, wrong .6 .3: above .6 F1 is 2*2/(2+3) = .8, above .3 it is 2*3/(4+3) = .857.

    So the lowest limit that keeps .4 and drops .3 wins, 0.30; a strict comparison drops .3 there.
    """
    assert best_f1([0.9, 0.8, 0.4, 0.6, 0.3], [1, 1, 1, 0, 0]) == 0.3
    assert best_f1([0.9, 0.8, 0.4, 0.6, 0.3, None], [1, 1, 1, 0, 0, 0]) == 0.3


def test_a_threshold_that_rejects_nothing_is_told() -> None:
    """Right .9 .8 .7, wrong .6: all four give 2*3/(4+3) = .857; without .6 F1 is 1.

    Right .9 .6 .7, wrong .8: all four give .857; any limit that drops .8 drops two right ones.
    """
    parted, mixed = [0.9, 0.8, 0.7, 0.6], [0.9, 0.6, 0.7, 0.8]
    right = [1, 1, 1, 0]
    assert best_f1(parted, right) == 0.6
    assert not accepts_all(parted, 0.6)
    assert best_f1(mixed, right) == 0.0
    assert accepts_all(mixed, 0.0)
    assert accepts_all([*mixed, None], 0.0), "no threshold accepts an answer without a score"
    assert not accepts_all([*mixed, 0.0], 0.0), "an answer that scores 0 is rejected"


def test_binomial_tails_are_exact() -> None:
    """.9^50 = .005154; with one wrong + 50 x .1 x .9^49 = .028632; of none accepted 1."""
    tails = binomial_tail([0, 1, 0, 3], [50, 50, 0, 3], 0.1)
    assert tails == pytest.approx([0.9**50, 0.9**50 + 5 * 0.9**49, 1, 1])
    assert tails[1] == pytest.approx(0.0337859, abs=1e-7)


def test_one_threshold_is_certified_when_its_tail_is_small(made_of: Made) -> None:
    """1 wrong of 50: .0338 < .05. 1 wrong of 45: .9^45 + 4.5 x .9^44 = .0524 > .05."""
    found = certify(*answers((49, 1, 0.7), (10, 40, 0.2)), made_of("a"), starts=(0.5,))
    assert found == Certificate(
        threshold=0.5, risk=0.1, confidence=0.95, n=100, accepted=50, wrong=1,
        provenance=made_of("a"),
    )  # fmt: skip
    assert found.coverage == 0.5
    assert str(found) == (
        "Among answers accepted above 0.5 at most 10 % are wrong, with 95 % confidence, from "
        "n = 100 validation answers: 50 accepted (coverage 50.0 %), 1 of them wrong."
    )
    refused = certify(*answers((44, 1, 0.7), (10, 40, 0.2)), made_of("a"), starts=(0.5,))
    assert isinstance(refused, Refusal)


def test_the_certified_threshold_is_the_lowest_before_the_first_failure(made_of: Made) -> None:
    """Above .8: 40 right, .9^40 = .015. Above .6: 1 wrong of 60, .0138. Above .4: 21 of 90, no.

    Of .5 and .6, which accept the same, the stricter is taken.
    """
    rows = answers((40, 0, 0.9), (19, 1, 0.7), (10, 20, 0.5))
    found = certify(*rows, made_of("a"), starts=(0.8,))
    assert isinstance(found, Certificate)
    assert (found.threshold, found.accepted, found.wrong) == (0.69, 60, 1)


def test_what_one_start_proves_is_carried_to_the_next(made_of: Made) -> None:
    """Two starts get .025 each. Above .5: 1 wrong of 50, .0338: enough for .05, not for .025.

    With 40 right ones above .9 (.9^40 = .0148 < .025) their share is carried down; with 10 it is
    not (.9^10 = .35).
    """
    carried = certify(*answers((40, 0, 0.95), (9, 1, 0.505)), made_of("a"), starts=(0.9, 0.5))
    assert isinstance(carried, Certificate)
    assert (carried.accepted, carried.wrong) == (50, 1)
    alone = certify(*answers((10, 0, 0.95), (39, 1, 0.505)), made_of("a"), starts=(0.9, 0.5))
    assert isinstance(alone, Refusal)


def test_a_later_start_certifies_where_the_strictest_accept_too_few(made_of: Made) -> None:
    """Five starts get .01 each; .9^44 = .0097. Above .97 there is one answer, and it is wrong."""
    found = certify(*answers((0, 1, 0.99), (99, 0, 0.85)), made_of("a"))
    assert isinstance(found, Certificate)
    assert (found.threshold, found.accepted, found.wrong) == (0.8, 100, 1)


@pytest.mark.parametrize(
    ("risk", "confidence", "starts", "n"),
    [(0.1, 0.95, 1, 29), (0.05, 0.95, 1, 59), (0.1, 0.95, 5, 44), (0.5, 0.75, 1, 2)],
)
def test_the_fewest_answers_are_the_smallest_number_without_error(
    made_of: Made, risk: float, confidence: float, starts: int, n: int
) -> None:
    """log(.05) / log(.9) = 28.4; log(.05) / log(.95) = 58.4; log(.01) / log(.9) = 43.7."""
    assert fewest_answers(risk, confidence, starts) == n
    named = STARTS if starts == 5 else (0.5,)
    for num, kind in ((n, Certificate), (n - 1, Refusal)):
        found = certify(
            [0.99] * num, [True] * num, made_of("a"), risk=risk, confidence=confidence, starts=named
        )
        assert isinstance(found, kind)


def test_a_refusal_says_what_is_missing(made_of: Made) -> None:
    few = certify(*answers((30, 0, 0.9), (5, 0, None)), made_of("a"))  # type: ignore[arg-type]
    assert few == Refusal(
        reason="30 of 35 answers are accepted at most, and at least 44 without a wrong one are "
        "needed for risk 0.1; collect more answers or allow more risk.",
        needed=44,
    )
    poor = certify(*answers((80, 20, 0.9)), made_of("a"))
    assert isinstance(poor, Refusal)
    assert "accepts 100 of 100 answers of which 20 are wrong" in poor.reason


def test_rejection_sampling_is_judged_on_the_first_sample_above() -> None:
    """Above .75: a takes .8 (wrong) though .9 is right; b takes its third; c none; d has no score.

    Above .85: a takes .9, right; b still its third.
    """
    scores = np.array([[0.8, 0.9, 0.1], [0.2, np.nan, 0.95], [0.7, 0.6, 0.5], [np.nan] * 3])
    right = np.array([[False, True, True], [True, True, False], [True] * 3, [True] * 3])
    accepted, wrong = outcomes(scores, right)
    assert [(accepted[99 - k], wrong[99 - k]) for k in (75, 85, 95)] == [(2, 2), (2, 1), (0, 0)]


@given(st.integers(1, 3).flatmap(lambda b: st.lists(
    st.lists(st.tuples(SCORES, st.booleans()), min_size=b, max_size=b), min_size=1, max_size=12,
)))  # fmt: skip
def test_every_threshold_is_counted_as_the_loop_would(
    pools: list[list[tuple[float | None, bool]]],
) -> None:
    scores = np.array([[s for s, _ in pool] for pool in pools], np.float64)
    accepted, wrong = outcomes(scores, np.array([[r for _, r in pool] for pool in pools]))
    for k, threshold in enumerate(GRID):
        limit = threshold + ROUNDING
        first = [next((r for s, r in p if s is not None and s > limit), None) for p in pools]
        assert accepted[k] == sum(r is not None for r in first)
        assert wrong[k] == sum(r is False for r in first)


@given(st.lists(st.tuples(SCORES, st.sampled_from([True] * 9 + [False])), min_size=1, max_size=80))
def test_a_certificate_bears_its_own_evidence(
    made_of: Made, rows: list[tuple[float | None, bool]]
) -> None:
    found = certify([s for s, _ in rows], [r for _, r in rows], made_of("a"), risk=0.3)
    if isinstance(found, Refusal):
        assert found.needed == math.ceil(math.log(0.01) / math.log(0.7))
        return
    limit = found.threshold + ROUNDING
    above = [right for score, right in rows if score is not None and score > limit]
    assert (found.n, found.accepted, found.wrong) == (len(rows), len(above), above.count(False))
    assert binomial_tail(found.wrong, found.accepted, 0.3) <= 0.05
    assert found.accepted >= fewest_answers(0.3, 0.95, 1)


@pytest.mark.parametrize("n", [100, 400])
@pytest.mark.parametrize("world", ["rising", "flat", "dip"])
def test_a_thousand_certificates_break_their_promise_as_seldom_as_they_say(
    made_of: Made, world: str, n: int
) -> None:
    """Scores are uniform on 0..1, so that the true risk above a threshold is an integral.

    rising: an answer of score s is wrong with chance (1 - s) / 2: above t that is (1 - t) / 4,
    unsafe below .6. flat: .1001 everywhere, so every certificate is wrong. dip: .25 above .9, .02
    down to .5 and .6 below: safe from .71 (.025 + .0038 of .29) to .47 (.025 + .008 + .018 of .53).
    """
    wrong = {
        "rising": lambda s: (1 - s) / 2,
        "flat": lambda s: np.full_like(s, 0.1001),
        "dip": lambda s: np.where(s > 0.9, 0.25, np.where(s > 0.5, 0.02, 0.6)),
    }[world]
    ends = (np.arange(100_000) + 0.5) / 100_000
    unsafe = {t for t in GRID if wrong(ends[ends > t]).mean() > 0.1}
    assert unsafe
    generator = np.random.default_rng(n)
    broken = 0
    for _ in range(1000):
        scores = generator.random(n)
        found = certify(scores, generator.random(n) >= wrong(scores), made_of("a"))
        broken += isinstance(found, Certificate) and found.threshold in unsafe
    assert broken / 1000 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 1000)


def test_most_of_what_is_safe_is_certified_from_two_thousand_answers(made_of: Made) -> None:
    """Wrong with chance (1 - s) / 2: safe down to .6, so at most 40 % can be accepted."""
    generator = np.random.default_rng(0)
    coverages = []
    for _ in range(50):
        scores = generator.random(2000)
        found = certify(scores, generator.random(2000) >= (1 - scores) / 2, made_of("a"))
        coverages.append(found.coverage if isinstance(found, Certificate) else 0.0)
    assert 0.25 < float(np.mean(coverages)) < 0.4


@pytest.mark.parametrize(
    "asked",
    [
        {"risk": 0.0}, {"risk": 1.0}, {"confidence": 1.0}, {"confidence": float("nan")},
        {"starts": ()}, {"starts": (0.505,)}, {"starts": (1.0,)},
    ],
)  # fmt: skip
def test_a_promise_that_cannot_be_made_is_refused(made_of: Made, asked: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        certify([0.5], [True], made_of("a"), **asked)


def test_answers_and_labels_must_pair(made_of: Made) -> None:
    with pytest.raises(InputError, match="must have the same shape"):
        certify([0.5, 0.6], [True], made_of("a"))
    with pytest.raises(InputError, match="must not be empty"):
        certify([], [], made_of("a"))


@pytest.fixture
def certificate(made_of: Made) -> Certificate:
    weighted = made_of("a", "b", weights={"a": 0.25, "b": 0.75})
    found = certify([[0.3, 0.95]] * 60, [[False, True]] * 60, weighted)
    assert isinstance(found, Certificate)
    return found


def test_a_certificate_comes_back_from_its_file_whole(
    certificate: Certificate, tmp_path: Path
) -> None:
    """Of two samples each the first scores .3 and is wrong: only thresholds from .3 up pass."""
    assert (certificate.budget, certificate.threshold, certificate.wrong) == (2, 0.9, 0)
    certificate.save(tmp_path / "c.json")
    assert Certificate.load(tmp_path / "c.json", "core", ("a", "b")) == certificate
    with pytest.raises(RecordError, match="was fitted to metric set 'core'"):
        Certificate.load(tmp_path / "c.json", "paper", ("a", "b"))


@pytest.mark.parametrize(
    "change", [{"risk": 2}, {"accepted": 61}, {"wrong": -1}, {"n": "x"}, {"budget": 0}, {"more": 1}]
)
def test_a_damaged_certificate_is_refused(
    certificate: Certificate, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = tmp_path / "c.json"
    certificate.save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RecordError, match="is damaged"):
        Certificate.load(path, "core", ("a", "b"))


def test_a_score_above_a_threshold_by_rounding_alone_is_not_accepted() -> None:
    scores = np.nextafter([0.75, 0.5], 1)
    assert [Score(value=value).exceeds(0.75) for value in scores] == [False, False]
    accepted, _ = outcomes(scores, np.array([True, True]))
    assert dict(zip(GRID, accepted.tolist(), strict=True))[0.75] == 0
    assert accepts_all(scores, 0.5) is False
    assert best_f1(scores, [True, False]) == 0.5
