"""Entropies of a trace written by hand, and of one that the sampler wrote."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from remask.baselines.entropy import NO_TRACE, DenoisingEntropy, RevealEntropy
from remask.denoisers.base import Denoiser
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.testing import check_scorer
from remask.values import Sample, Trace

Answer = Callable[..., Sample]


@pytest.fixture
def written(answer: Answer) -> Sample:
    """`ab` and its end, in steps 1, 0 and 1 of two; a tail of one."""
    trace = Trace(entropy=(0.4, 0.9, 0.2, 0.0), tentative=(), mean_entropy=(0.8, 0.3))
    return replace(answer("ab.."), steps=(1, 0, 1, -1), trace=trace)


def test_later_steps_weigh_more(written: Sample) -> None:
    """The first step has .9, the second (.4 + .2) / 2: (1 x .9 + 2 x .3) / 3 = .5."""
    (score,) = RevealEntropy().score([written])
    assert score.value == pytest.approx(-0.5)
    assert score.forwards == 0


def test_the_same_entropy_late_is_worse_than_early(written: Sample) -> None:
    assert written.trace is not None
    early = replace(written, trace=replace(written.trace, entropy=(0.0, 0.6, 0.0, 0.0)))
    late = replace(written, trace=replace(written.trace, entropy=(0.6, 0.0, 0.6, 0.0)))
    first, second = RevealEntropy().score([early, late])
    assert (first.value, second.value) == pytest.approx((-0.2, -0.4))


def test_denoising_entropy_is_the_mean_over_steps(written: Sample) -> None:
    (score,) = DenoisingEntropy().score([written])
    assert score.value == pytest.approx(-0.55)
    assert score.forwards == 0


def test_the_trace_that_the_sampler_writes_is_read(by_place: Callable[..., Denoiser]) -> None:
    """The certain end token first, then `a` or `b`: entropies 0 and log 2.

    Late-weighted 2 log 2 / 3. Before the first step the mean is log 2 / 2, before the second log 2.
    """
    model = by_place([{"a": 0.5, "b": 0.5}, {".": 1.0}])
    how = SamplerSettings(length=2, steps=2, block=2)
    (written,) = sample(model, [[5]], how, items=["i"], trace=True)
    (late,) = RevealEntropy().score([written])
    (path,) = DenoisingEntropy().score([written])
    assert late.value == pytest.approx(-2 / 3 * math.log(2))
    assert path.value == pytest.approx(-3 / 4 * math.log(2))


@pytest.mark.parametrize("scorer", [RevealEntropy(), DenoisingEntropy()])
def test_without_a_trace_there_is_no_score(
    scorer: RevealEntropy | DenoisingEntropy, answer: Answer, written: Sample
) -> None:
    absent, present = scorer.score([answer("ab.."), written])
    assert (absent.value, absent.reason) == (None, NO_TRACE)
    assert present.value is not None
    check_scorer(scorer, [answer("ab.."), written])


def test_an_end_that_took_no_step_has_no_path(answer: Answer) -> None:
    trace = Trace(entropy=(0.2,), tentative=(), mean_entropy=())
    (score,) = DenoisingEntropy().score([replace(answer("."), text="a", steps=(0,), trace=trace)])
    assert (score.value, score.reason) == (None, NO_TRACE)


def test_the_names_are_those_of_the_tables() -> None:
    assert (RevealEntropy().name, DenoisingEntropy().name) == ("tre", "denoising_entropy")
