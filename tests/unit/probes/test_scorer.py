"""One pass as a score: by hand, against the contract, and of the embedded model."""

import math
from collections.abc import Callable

import pytest

import remask
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted
from remask.probes.readings import Critical
from remask.probes.scorer import ProbeScorer
from remask.probes.settings import Probe
from remask.testing import check_scorer
from remask.values import Sample

Answer = Callable[..., Sample]
Knowing = Callable[[Sample, Callable[[int, int], float]], Denoiser]


def test_a_score_is_the_geometric_mean_over_critical_tokens(
    knowing: Knowing, answer: Answer, digits: Critical
) -> None:
    """Both masked, the digits have .8 and .2: sqrt(.16) = .4."""
    sample = answer("a1b2.")
    model = Counted(knowing(sample, lambda i, n: (0.3, 1.6, 0.3, 0.4, 0.3)[i] / n))
    [score] = ProbeScorer(denoiser=model, critical=digits).score([sample])
    assert score.value == pytest.approx(0.4)
    assert score.by_metric == {"critical": score.value}
    read = [math.log(0.8), math.log(0.2)]
    assert score.logp == (None, pytest.approx(read[0]), None, pytest.approx(read[1]), None)
    assert (score.forwards, model.forwards) == (1, 1)
    assert (score.scorer, score.version, score.drift) == ("probe", 1, ())


def test_without_critical_tokens_the_whole_response_is_scored(
    knowing: Knowing, answer: Answer, digits: Critical
) -> None:
    """Three masks, chances of .9, .6 and .5: the cube root of .27; the tail is in sight."""
    sample = answer("ab...")
    model = knowing(sample, lambda i, n: (2.7, 1.8, 1.5, 1.5, 1.5)[i] / n if n == 3 else 0.1)
    [score] = ProbeScorer(denoiser=model, critical=digits).score([sample])
    assert score.value == pytest.approx(0.27 ** (1 / 3))
    assert None not in score.logp
    assert len(score.logp) == 3


def test_the_least_likely_token_of_another_probe_is_a_score_too(
    knowing: Knowing, answer: Answer, digits: Critical
) -> None:
    """Everything is masked: .9, .8, .5, .2 and .7; the least is .2, of the digits too."""
    sample = answer("a1b2.")
    model = knowing(sample, lambda i, n: (0.9, 0.8, 0.5, 0.2, 0.7)[i])
    probe = Probe(pattern="stratified", ratio=1.0)
    for reading in ("response_min", "critical_min"):
        scorer = ProbeScorer(denoiser=model, critical=digits, probe=probe, reading=reading)
        [score] = scorer.score([sample])
        assert score.value == pytest.approx(0.2)
        assert (score.by_metric, score.forwards) == ({"stratified100x1": score.value}, 1)


def test_a_reading_of_nothing_is_no_score(
    knowing: Knowing, answer: Answer, digits: Critical
) -> None:
    """One critical token cannot be halved."""
    scorer = ProbeScorer(
        denoiser=knowing(answer("a1."), lambda i, n: 0.5), critical=digits,
        probe=Probe(pattern="halves", passes=2), reading="critical_min",
    )  # fmt: skip
    [score] = scorer.score([answer("a1.")])
    assert (score.value, score.by_metric, score.forwards) == (None, {}, 0)
    assert score.reason == "halves2 has nothing to read"


def test_the_probe_keeps_the_contract(
    llada: NativeDenoiser, block_causal: NativeDenoiser, answer: Answer, digits: Critical
) -> None:
    samples = [answer("a1b2c3d."), answer("xy", prompt="longer"), answer("1234567", prompt="pp")]
    for model in (llada, block_causal):
        check_scorer(ProbeScorer(denoiser=model, critical=digits), samples)
        drawn = Probe(pattern="stratified", ratio=0.5, passes=4)
        check_scorer(
            ProbeScorer(denoiser=model, critical=digits, probe=drawn, reading="response_min"),
            samples,
        )


def test_the_embedded_model_is_surer_of_a_right_answer() -> None:
    model = remask.load("tiny")
    prompt = "Ben has 12 apples. Zoe has 5 more than Ben. How many has Zoe?"
    right, wrong = (
        remask.score(model, prompt, f"Zoe has 12+5={n} apples. The answer is {n}.", scorer="probe")
        for n in (17, 19)
    )
    assert right.value is not None
    assert wrong.value is not None
    assert right.value > 10 * wrong.value
    assert right.forwards == 1
